"""What a scan says of a row kernel: functions, launches, knobs, opportunities, each with its line."""

from __future__ import annotations

import ast
from types import ModuleType

import pytest

from warpsmith.contracts.audit import JitFunction, KnobKind, KnobOrigin, LaunchSite, OpportunityKind, Tier
from warpsmith.contracts.errors import PreflightError
from warpsmith.source import call_paths, short_rows, syntax
from warpsmith.source.scan import scan

ROWS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _norm_kernel(x_ptr, stride, w_ptr, partial_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    w = tl.load(w_ptr + cols, mask=cols < n_cols)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols)
        y = x * tl.sum(x * w, axis=0)
        tl.store(x_ptr + row * stride + cols, y, mask=cols < n_cols)
        total += y
    tl.store(partial_ptr + program * n_cols + cols, total, mask=cols < n_cols)


def _pick(n_cols):
    return triton.next_power_of_2(n_cols), 4


def host(x, w):
    n_rows, n_cols = x.shape
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    partial = torch.zeros((programs, n_cols), dtype=torch.float32)
    block, num_warps = _pick(n_cols)
    _norm_kernel[(programs,)](x, n_cols, w, partial, n_rows, n_cols, BLOCK=block, num_warps=num_warps)
    return partial
"""


def test_the_audit_describes_the_kernel_and_its_launch() -> None:
    audit = scan(ROWS)

    assert audit.tier is Tier.REDUCTION
    assert audit.jit_functions == (
        JitFunction(
            name="_norm_kernel", line=7, tier=Tier.REDUCTION, has_loop=True, loads=2, stores=2, atomics=0, reductions=1
        ),
    )
    assert audit.launches == (
        LaunchSite(jit_function="_norm_kernel", host_function="host", line=29, grid="(programs,)"),
    )
    assert audit.not_covered == ()


def test_every_knob_says_how_it_is_set_and_where_an_override_takes_effect() -> None:
    knobs = {k.name: (k.kind, k.origin, k.variable, k.line, k.anchor_line, k.why_not) for k in scan(ROWS).knobs}

    assert knobs == {
        "num_warps": (KnobKind.NUM_WARPS, KnobOrigin.HELPER, "num_warps", 28, 28, None),
        "num_stages": (KnobKind.NUM_STAGES, KnobOrigin.ABSENT, None, 29, 29, None),
        "BLOCK": (KnobKind.BLOCK_COVERING, KnobOrigin.HELPER, "block", 28, 28, "must cover a row"),
        "programs_per_sm": (KnobKind.PROGRAMS_PER_SM, KnobOrigin.SM_COUNT, "programs", 26, 26, None),
        "maxnreg": (KnobKind.MAXNREG, KnobOrigin.ABSENT, None, 29, 29, None),
    }


def test_every_opportunity_is_found_at_its_line() -> None:
    found = {(o.kind, o.function, o.line) for o in scan(ROWS).opportunities}

    assert found == {
        (OpportunityKind.UNPIPELINED_LOOP, "_norm_kernel", 12),
        (OpportunityKind.STREAM_ONCE, "_norm_kernel", 13),
        (OpportunityKind.ONE_PROGRAM_PER_SM, "_norm_kernel", 26),
        (OpportunityKind.NEEDLESS_INITIALISATION, "host", 27),
        (OpportunityKind.STEPPED_WARPS, "host", 28),
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.store(partial_ptr", "tl.atomic_add(partial_ptr"),
        ("    total = tl", "    old = tl.load(partial_ptr + cols)\n    total = tl"),
        ("    block, num", "    partial += 1\n    block, num"),
        ("    _norm_kernel[", "    if n_rows:\n      _norm_kernel["),
        ("    return partial", "    _norm_kernel[(1,)](x, n_cols, w, partial, 1, n_cols, BLOCK=block)"),
    ],
    ids=["atomics", "a load", "a use before", "a launch that may not run", "two launches"],
)
def test_zeroing_that_something_may_need_is_no_opportunity(old: str, new: str) -> None:
    assert old in ROWS

    kinds = {o.kind for o in scan(ROWS.replace(old, new)).opportunities}

    assert OpportunityKind.NEEDLESS_INITIALISATION not in kinds


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(program, n_rows, tl.num_programs(0))", "tl.range(program, n_rows, tl.num_programs(0), num_stages=2)"),
        ("tl.sum(x * w, axis=0)", "tl.dot(x, w)"),
    ],
    ids=["stages are named", "a matrix product"],
)
def test_a_loop_that_triton_pipelines_already_is_no_opportunity(old: str, new: str) -> None:
    kinds = {o.kind for o in scan(ROWS.replace(old, new)).opportunities}

    assert OpportunityKind.UNPIPELINED_LOOP not in kinds


def test_a_row_that_is_loaded_twice_is_not_streamed_once() -> None:
    twice = ROWS.replace("        total += y", "        total += tl.load(x_ptr + row * stride + cols)")

    assert OpportunityKind.STREAM_ONCE not in {o.kind for o in scan(twice).opportunities}


def test_a_line_that_loads_twice_is_told_once() -> None:
    row = "row * stride + cols"
    old = ROWS.partition("        x = ")[2].partition("        y")[0]
    doubled = ROWS.replace(f"        x = {old}", f"        x = tl.load(x_ptr + {row}) + tl.load(p_ptr + {row})\n")

    (found,) = [o for o in scan(doubled).opportunities if o.kind is OpportunityKind.STREAM_ONCE]

    assert found.what == "rows are read once, without an eviction policy, in line 13; what stays is loaded in line 10"


def test_a_count_that_does_not_reach_the_grid_is_no_knob() -> None:
    names = [k.name for k in scan(ROWS.replace("[(programs,)]", "[(n_rows,)]")).knobs]

    assert "programs_per_sm" not in names


def many(kernels: int) -> str:
    """Row kernels of one width, each with a host function that launches it."""
    kernel = """

@triton.jit
def _kernel_{n}(x_ptr, stride, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * stride + cols
    tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, mask=cols < n_cols), mask=cols < n_cols)


def host_{n}(x):
    _kernel_{n}[(x.shape[0],)](x, x.stride(0), x.shape[1], BLOCK=WIDTH)
"""
    head = "import triton\nimport triton.language as tl\n\nWIDTH = 256\n"
    return head + "".join(kernel.format(n=n) for n in range(kernels))


def test_the_work_of_an_audit_grows_as_its_file_does(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[ast.AST] = []

    def counted(module: ModuleType, name: str) -> None:
        was = getattr(module, name)

        def counting(node: ast.AST) -> object:
            looked_at.append(node)
            return was(node)

        monkeypatch.setattr(module, name, counting)

    counted(call_paths, "_no_launcher")
    for module in (syntax, short_rows):
        counted(module, "assignments")

    def work(kernels: int) -> int:
        looked_at.clear()
        found = scan(many(kernels)).opportunities
        assert sum(o.kind is OpportunityKind.SHORT_ROWS for o in found) == kernels
        assert sum(isinstance(node, ast.Module) for node in looked_at) == 1
        return len(looked_at)

    assert work(40) < 5 * work(10)


def test_text_that_is_no_python_names_the_line() -> None:
    with pytest.raises(PreflightError, match=r"^line 2: "):
        scan("x = 1\ndef (\n")


def test_a_source_without_kernels_has_an_empty_audit() -> None:
    audit = scan("x = 1\n")

    assert (audit.jit_functions, audit.launches, audit.knobs, audit.opportunities) == ((), (), (), ())


def test_a_number_of_warps_that_branches_set_is_told_by_their_test() -> None:
    branches = "    if n_cols < 64:\n        num_warps = 16\n    else:\n        num_warps = 32\n"
    text = ROWS.replace("    block, num_warps = _pick(n_cols)\n", f"    block, _ = _pick(n_cols)\n{branches}")

    (found,) = [o for o in scan(text).opportunities if o.kind is OpportunityKind.STEPPED_WARPS]

    assert found.what == "num_warps of _norm_kernel is set in the branches of `if n_cols < 64`"
