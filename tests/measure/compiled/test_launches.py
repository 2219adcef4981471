from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from triton.runtime.jit import JITFunction

from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import AccessKind, CompiledSettings, GlobalAccess, LaunchRecord
from warpsmith.measure.compiled.launches import compile_settings, record_call
from warpsmith.measure.compiled.recording import recording


def launches(
    compiling: Any, path: Path, mode: Mode = Mode.FORWARD, text: str | None = None, **settings: int
) -> tuple[LaunchRecord, ...]:
    implementation = compiling.load(path, text or compiling.source, **settings)
    return record_call(
        implementation, compiling.target(), compiling.case, mode, device=compiling.device, seed=0, launch=False
    ).launches


def compiled(compiling: Any, path: Path, *settings: dict[str, int]) -> tuple[CompiledSettings, ...]:
    return compile_settings(
        lambda each: compiling.load(path, **each),
        compiling.target(),
        compiling.case,
        Mode.FORWARD,
        settings,
        device=compiling.device,
        seed=0,
        launch=False,
    )


def test_a_launch_is_recorded_with_its_host_grid_and_settings(compiling: Any, tmp_path: Path) -> None:
    (found,) = launches(compiling, tmp_path / "scale.py")

    facts = found.compiled
    assert found == LaunchRecord(
        jit_function="scale_kernel",
        host_function="scaled",
        line=compiling.source[: compiling.source.index("    scale_kernel[lambda")].count("\n") + 1,
        grid=(4, 1, 1),
        constexprs={"FACTOR": 2.0, "DTYPE": "fp32", "BLOCK": 256},
        host_integers={"n": 1000, "block": 256, "warps": 4},
        host_tensors={"x": "float32", "y": "float32"},
        compiled=facts,
    )
    assert (facts.num_warps, facts.num_stages, facts.num_ctas, facts.shared_bytes, facts.spills) == (4, 3, 1, 0, 0)
    assert 0 < facts.registers <= 255
    load, store = (
        n for n, text in enumerate(compiling.source.splitlines(), 1) if "tl.load(" in text or "tl.store(" in text
    )
    assert facts.accesses == (
        GlobalAccess(kind=AccessKind.LOAD, bytes_a_thread=4, instructions=2, line=load),
        GlobalAccess(kind=AccessKind.STORE, bytes_a_thread=4, instructions=2, line=store),
    )
    assert facts.matrix_instructions == {}


@pytest.mark.parametrize(("mode", "expected"), [(Mode.FORWARD, 1), (Mode.BACKWARD, 1), (Mode.FULL, 2)])
def test_a_mode_records_its_own_launches(compiling: Any, tmp_path: Path, mode: Mode, expected: int) -> None:
    found = launches(compiling, tmp_path / "scale.py", mode)

    names = [set(each.host_tensors) for each in found]
    assert names == [{"x", "y"}] * expected


def test_machine_code_is_the_same_wherever_and_on_whichever_line_its_source_lies(
    compiling: Any, tmp_path: Path
) -> None:
    (here,) = launches(compiling, tmp_path / "here" / "scale.py")
    (there,) = launches(compiling, tmp_path / "over" / "there.py", text="# a comment\n\n" + compiling.source)

    assert there.line == here.line + 2
    assert there.compiled.binary_sha256 == here.compiled.binary_sha256
    # all else is told of the code alike, two lines further down
    moved = [each.model_copy(update={"line": each.line + 2}) for each in here.compiled.accesses or ()]
    assert there.compiled == here.compiled.model_copy(update={"accesses": tuple(moved)})


def test_machine_code_differs_by_warps_and_by_what_it_computes(compiling: Any, tmp_path: Path) -> None:
    other = compiling.source.replace("x * FACTOR", "x * FACTOR + 1.0")
    found = {
        launches(compiling, tmp_path / "a.py")[0].compiled.binary_sha256,
        launches(compiling, tmp_path / "a.py", warps=8)[0].compiled.binary_sha256,
        launches(compiling, tmp_path / "b.py", text=other)[0].compiled.binary_sha256,
    }

    assert len(found) == 3


def test_stages_that_change_no_instruction_change_no_hash(compiling: Any, tmp_path: Path) -> None:
    (three,) = launches(compiling, tmp_path / "scale.py")
    (five,) = launches(compiling, tmp_path / "scale.py", stages=5)

    assert (three.compiled.num_stages, five.compiled.num_stages) == (3, 5)
    assert three.compiled.binary_sha256 == five.compiled.binary_sha256


def test_a_jit_function_from_elsewhere_counts_where_the_source_launches_it(compiling: Any, tmp_path: Path) -> None:
    compiling.load(tmp_path / "elsewhere_kernels.py")
    text = f"""\
import sys
sys.path.insert(0, {str(tmp_path)!r})
from elsewhere_kernels import Scale, scale_kernel
import torch, triton.language as tl


def own(x):
    y = torch.empty_like(x)
    scale_kernel[(2,)](x, y, 512, FACTOR=3.0, DTYPE=tl.float32, BLOCK=512)
    return y
"""
    target = compiling.target(lambda module, inputs: (module.Scale.apply(inputs["x"]), module.own(inputs["x"])))
    implementation = compiling.load(tmp_path / "own.py", text, target)
    found = record_call(
        implementation, target, compiling.case, Mode.FORWARD, device=compiling.device, seed=0, launch=False
    ).launches

    assert [(each.host_function, each.grid, each.constexprs["FACTOR"]) for each in found] == [("own", (2, 1, 1), 3.0)]
    # its lines are those of another file, and told by none
    assert [(each.kind.value, each.line) for each in found[0].compiled.accesses or ()] == [
        ("load", None),
        ("store", None),
    ]


def test_launches_from_elsewhere_count_where_the_source_has_none(compiling: Any, tmp_path: Path) -> None:
    implementation = compiling.load(tmp_path / "scale.py")
    x = torch.zeros(1000)
    with recording(str(tmp_path / "another.py"), launch=False) as seen:
        implementation.call({"x": x})

    assert [(each.jit_function, each.host_function) for each in seen.launches] == [("scale_kernel", "")]


def test_launching_is_as_it_was_afterwards_also_after_a_failure(compiling: Any, tmp_path: Path) -> None:
    before = JITFunction.run
    launches(compiling, tmp_path / "scale.py")
    with pytest.raises(ValueError, match="above 4096"):
        launches(compiling, tmp_path / "scale.py", block=8192)

    assert JITFunction.run is before


def test_settings_that_cannot_run_say_which_side_refused(compiling: Any, tmp_path: Path) -> None:
    right, asserted, refused = compiled(
        compiling, tmp_path / "scale.py", {"block": 512}, {"block": 32}, {"block": 8192}
    )

    assert (right.settings, right.failure, right.launches[0].grid) == ({"block": 512}, None, (2, 1, 1))
    assert asserted.launches == ()
    assert str(asserted.failure).startswith("a static assertion of the kernel failed: CompileTimeAssertionFailure: ")
    assert refused.failure == "the call failed: ValueError: block 8192 is above 4096"


def test_the_compilers_time_is_known_only_where_it_compiled(compiling: Any, tmp_path: Path) -> None:
    (first,) = compiled(compiling, tmp_path / "scale.py", {"block": 1024})
    (second,) = compiled(compiling, tmp_path / "scale.py", {"block": 1024})

    assert first.compile_s is not None and first.compile_s > 0
    assert second.compile_s is None
