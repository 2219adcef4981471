from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from triton import knobs

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import Compilation, SourceRef
from warpsmith.measure.compiled.cold import SAMPLES, measure_compilation
from warpsmith.measure.worker.protocol import MeasureCompilation, TargetRef

#: As conftest's, in a file: its sizes differ in whether 16 divides them, which Triton specializes on.
TARGET = """\
import torch

from warpsmith.contracts.case import Case, Cost, DType
from warpsmith.contracts.target import ALL_MODES, Target

target = Target(
    name="scale",
    source="scale.py",
    module="scale",
    make_inputs=lambda case, device, generator: {"x": torch.randn(case.axes["N"], generator=generator)},
    call=lambda module, inputs: module.Scale.apply(inputs["x"]),
    reference=lambda inputs: inputs["x"] * 2,
    cost=lambda case, mode: Cost(bytes_moved=1, flops=1),
    cases=(Case(axes={"N": 1000}, dtype=DType.FLOAT32),),
    modes=ALL_MODES,
    differentiable=("x",),
)
"""

CASES = tuple(Case(axes={"N": size}, dtype=DType.FLOAT32) for size in (1000, 1001, 2001, 1024))


def measured(folder: Path, text: str, *, passes: tuple[Mode, ...] = (Mode.FORWARD, Mode.BACKWARD)) -> Compilation:
    for name, content in (("scale.py", text), ("benchmark_scale.py", TARGET)):
        (folder / name).write_text(content)
    question = MeasureCompilation(
        target=TargetRef(path=str(folder / "benchmark_scale.py"), root=str(folder), sha256="0" * 64),
        source=SourceRef(path=str(folder / "scale.py"), sha256=hashlib.sha256(text.encode()).hexdigest()),
        case=CASES[0],
        cases=CASES,
        passes=passes,
    )
    return measure_compilation(question, torch.device("cpu"))


def test_every_sample_is_cold_and_specializations_are_those_of_all_cases(compiling: Any, tmp_path: Path) -> None:
    found = measured(tmp_path, compiling.source)

    assert (found.unavailable, found.case, len(found.cold_s)) == (None, CASES[0], SAMPLES)
    assert min(found.cold_s) > 0
    # Both passes launch the same kernel: once with sizes that 16 divides, once with others.
    assert found.specializations == {"scale_kernel": 2}


def test_a_kernel_that_compiles_for_every_size_has_as_many_specializations(compiling: Any, tmp_path: Path) -> None:
    text = compiling.source.replace("y_ptr, n, FACTOR", "y_ptr, n: tl.constexpr, FACTOR")

    assert measured(tmp_path, text, passes=(Mode.FORWARD,)).specializations == {"scale_kernel": len(CASES)}


def test_the_usual_cache_is_neither_read_nor_written_and_is_used_again_afterwards(
    compiling: Any, tmp_path: Path
) -> None:
    usual = os.environ["TRITON_CACHE_DIR"]
    measured(tmp_path, compiling.source)

    assert (os.environ["TRITON_CACHE_DIR"], knobs.cache.dir) == (usual, usual)
    assert not Path(usual).exists()


def test_a_source_without_a_kernel_has_nothing_to_compile(tmp_path: Path) -> None:
    text = "class Scale:\n    @staticmethod\n    def apply(x):\n        return x * 2\n"
    found = measured(tmp_path, text)

    assert (found.cold_s, found.specializations, found.unavailable) == ((0.0,) * SAMPLES, {}, None)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            '"block", 256',
            '"block", 32',
            "compile_failed: CompileTimeAssertionFailure: at 2:4: tl.static_assert(BLOCK >= 64)",
        ),
        ('"block", 256', '"block", 8192', "runtime_failed: ValueError: block 8192 is above 4096"),
        ("import torch\n", "import torch\nimport nowhere_to_be_found\n", "import_failed: "),
    ],
)
def test_why_a_source_does_not_compile_is_told_with_its_status(
    compiling: Any, tmp_path: Path, old: str, new: str, told: str
) -> None:
    found = measured(tmp_path, compiling.source.replace(old, new))

    assert (found.cold_s, found.specializations) == ((), {})
    assert found.unavailable is not None and found.unavailable.startswith(told)


def test_a_kernel_that_only_the_forward_pass_of_a_backward_pass_launches_counts(compiling: Any, tmp_path: Path) -> None:
    text = compiling.source.replace('"stages", 3)', '"stages", 3), SAVE=x.requires_grad')
    text = text.replace("BLOCK: tl.constexpr)", "BLOCK: tl.constexpr, SAVE: tl.constexpr)")
    with_grad = "scaled(x.detach().requires_grad_(ctx.needs_input_grad[0]))"
    text = text.replace("        return scaled(x)", f"        return {with_grad}")

    assert measured(tmp_path, text, passes=(Mode.FORWARD,)).specializations == {"scale_kernel": 2}
    assert measured(tmp_path, text).specializations == {"scale_kernel": 4}
