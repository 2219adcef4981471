"""Loads that never change in a loop go before it: which lines change, that results do not, and where it is refused."""

from __future__ import annotations

import difflib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton
from source.hoisting_styles import CAPITALS, CHUNKS, GENERATED, HEAD, STYLES, WHILE
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.admit import admit
from warpsmith.source.rewrites import NotApplicable, hoist_invariant_load
from warpsmith.source.scan import scan


def invariant(source: str) -> list[Opportunity]:
    return [o for o in scan(source).opportunities if o.kind is OpportunityKind.LOOP_INVARIANT_LOAD]


def hoisted(source: str) -> str:
    places = invariant(source)
    assert places
    for place in places:
        source = hoist_invariant_load(source, place)
    return source


def changed_lines(before: str, after: str) -> list[str]:
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in diff if not line.startswith(("---", "+++", "@@"))]


@pytest.mark.parametrize(("source", "changed"), STYLES.values(), ids=STYLES.keys())
def test_the_load_and_what_only_it_needs_go_before_the_loop_and_nothing_else_changes(
    source: str, changed: list[str]
) -> None:
    after = hoisted(source)

    assert changed_lines(source, after) == changed
    assert admit(source, after) == ()


@pytest.mark.parametrize("source", [source for source, _ in STYLES.values()], ids=STYLES.keys())
def test_what_was_hoisted_is_not_found_again(source: str) -> None:
    after, (place,) = hoisted(source), invariant(source)

    assert invariant(after) == []
    with pytest.raises(NotApplicable, match="that never changes in a loop"):
        hoist_invariant_load(after, place)


def test_results_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    paths: list[Path] = []
    for name, (source, _) in STYLES.items():
        for suffix, text in (("before", source), ("after", hoisted(source))):
            paths.append(tmp_path / f"{name}_{suffix}.py")
            paths[-1].write_text(text)
    here = Path(__file__)
    interpreter = here.parents[1] / "kernels" / "interpret.py"
    command = [sys.executable, str(interpreter), str(here.with_name("run_both.py")), *map(str, paths)]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_several_loads_of_one_loop_go_one_after_the_other() -> None:
    source = CHUNKS.replace("        tl.store(", "        b_x = tl.load(x + i_n)\n        tl.store(").replace(
        "b_dy * b_rstd", "b_dy * b_rstd * b_x"
    )

    assert changed_lines(source, hoisted(source))[:3] == [
        "+    p_rstd = rstd + i_n",
        "+    b_rstd = tl.load(p_rstd)",
        "+    b_x = tl.load(x + i_n)",
    ]


def test_what_the_load_needs_of_another_load_goes_with_it() -> None:
    source = CHUNKS.replace(
        "p_rstd = rstd + i_n\n", "i_r = tl.load(x + i_n).to(tl.int32)\n        p_rstd = rstd + i_r\n"
    )
    place = next(o for o in invariant(source) if o.what.startswith("rstd"))

    assert changed_lines(source, hoist_invariant_load(source, place))[:3] == [
        "+    i_r = tl.load(x + i_n).to(tl.int32)",
        "+    p_rstd = rstd + i_r",
        "+    b_rstd = tl.load(p_rstd)",
    ]


REFUSED: dict[str, tuple[str, str, str, str]] = {
    "host code passes one tensor for both": (
        CAPITALS,
        "x, x.stride(0), w, dx",
        "x, x.stride(0), dx, dx",
        "may pass one tensor for both W_ptr and DX_ptr, which is stored to",
    ),
    "a view of it is stored to": (
        CAPITALS,
        "dx = torch.empty_like(x)",
        "dx = w.view(-1, n_cols)",
        "may pass one tensor for both W_ptr and DX_ptr",
    ),
    "one tensor of another module is passed for both": (
        CAPITALS.replace("import torch\n", "import torch\nfrom buffers import shared\n"),
        "x, x.stride(0), w, dx",
        "x, x.stride(0), shared, shared",
        "may pass one tensor for both W_ptr and DX_ptr",
    ),
    "a tensor has a name that a function imports for itself": (
        f"{CAPITALS}\n\ndef other():\n    from buffers import w\n",
        "dx = torch.empty_like(x)",
        "dx = w.view(-1, n_cols)",
        "may pass one tensor for both W_ptr and DX_ptr",
    ),
    "what the launch passes is not seen": (
        CAPITALS,
        "x, x.stride(0), w, dx, dw, n_rows",
        "*(x, x.stride(0), w, dx, dw), n_rows",
        "what line 40 passes for W_ptr is not seen",
    ),
    "no launch is in the file": (
        CAPITALS,
        "    _scale_backward_kernel[(3,)](",
        "    launch(",
        "no launch of _scale_backward_kernel is in this file",
    ),
    "a branch is around it": (
        CHUNKS,
        "        b_rstd = tl.load(p_rstd)",
        "        if D > 7:\n            b_rstd = tl.load(p_rstd)",
        "rstd is loaded only in the branch of line 14",
    ),
    "the name is set again": (
        CHUNKS,
        "        b_rstd = tl.load(p_rstd)",
        "        b_rstd = tl.load(p_rstd)\n        b_rstd = b_rstd + b_dy",
        "b_rstd is set more than once in the loop",
    ),
    "what it held before is read": (
        CHUNKS,
        "    for i_d in range(tl.cdiv(D, BD)):\n",
        "    b_rstd = 0.0\n    for i_d in range(tl.cdiv(D, BD)):\n        tl.store(dx, b_rstd)\n",
        "line 11 reads b_rstd before it is set in line 16",
    ),
    "the name is read after the loop, where it may be another's": (
        CHUNKS,
        "    for i_d in range(tl.cdiv(D, BD)):\n",
        "    tl.store(dx, 0.0)\n    b_rstd = 0.0\n    for i_d in range(tl.cdiv(D, BD)):\n",
        "b_rstd is set outside the loop too, and read there in line 18",
    ),
    "a program without a pass would load from an address of its own": (
        WHILE,
        "scale_ptr + 1",
        "scale_ptr + tl.program_id(0)",
        "some programs may have no pass of the loop, and their address may then lie outside the tensor",
    ),
    "the number of passes is loaded and the load has no mask": (
        GENERATED,
        "range(xoffset, min(xoffset + XBLOCK, xnumel))",
        "range(tl.load(in_ptr0).to(tl.int32))",
        "what was loaded may leave the loop without any pass, and the load has no mask",
    ),
    "other programs are waited for": (
        WHILE,
        "        row += tl.num_programs(0)",
        "        row += tl.num_programs(0)\n        tl.debug_barrier()",
        "line 17 waits for other programs",
    ),
    "a function of elsewhere is given a pointer": (
        CHUNKS,
        "        b_rstd = tl.load(p_rstd)",
        "        b_rstd = tl.load(p_rstd)\n        put(rstd, b_dy)",
        "line 15 calls put, and whether that stores what is loaded is not seen",
    ),
    "several statements are on its line": (
        CHUNKS,
        "        p_rstd = rstd + i_n\n",
        "        p_rstd = rstd + i_n; p_x = x\n",
        "line 12 holds more than one statement",
    ),
}


@pytest.mark.parametrize(("source", "old", "new", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_load_stays_where_it_is_not_sure_that_its_move_changes_nothing(
    source: str, old: str, new: str, reason: str
) -> None:
    assert source.count(old) == 1
    source = source.replace(old, new)
    if "read there" in reason:
        source = source.replace("b_rstd, mask=m_d)\n", "b_rstd, mask=m_d)\n    tl.store(dx, b_rstd)\n")
    (place, *_) = invariant(source)

    with pytest.raises(NotApplicable) as refused:
        hoist_invariant_load(source, place)
    assert reason in str(refused.value)


def test_a_function_that_only_computes_may_be_called_in_the_loop() -> None:
    helper = "@triton.jit\ndef twice(a):\n    return a + a\n\n\n"
    source = CHUNKS.replace(HEAD, HEAD + helper).replace("b_dy * b_rstd", "twice(b_dy) * b_rstd")

    assert invariant(hoisted(source)) == []


def test_another_kind_of_opportunity_is_not_taken_up() -> None:
    (place,) = invariant(CHUNKS)
    other = place.model_copy(update={"kind": OpportunityKind.UNCOALESCED})

    with pytest.raises(NotApplicable, match="uncoalesced is no load that never changes"):
        hoist_invariant_load(CHUNKS, other)


def test_in_the_compiled_code_the_loop_loads_once_less(tmp_path: Path) -> None:
    loads = []
    for name, text in (("before", CAPITALS), ("after", hoisted(CAPITALS))):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(f"hoisting_{name}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = module._scale_backward_kernel
        kinds = ("*bf16", "i32", "*bf16", "*bf16", "*fp32", "i32", "i32", "i32", "constexpr")
        source = ASTSource(kernel, dict(zip(kernel.arg_names, kinds, strict=True)), {"BLOCK_SIZE": 1024})
        code = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ttgir"]
        loads.append((code.count("tt.load"), code.partition("scf.for")[2].count("tt.load")))

    assert loads == [(2, 2), (2, 1)]
