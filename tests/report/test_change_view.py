"""What is told of a change's compiled code: what differs, once, with the limits that it is over, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsmith.contracts.case import Mode
from warpsmith.contracts.compiled_change import (
    BaseRef,
    CallGap,
    ComparedOn,
    CompiledChange,
    CompiledLaunch,
    LaunchPair,
)
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.report.change_view import change_page
from warpsmith.verdict.compiled import CompiledLimits, compiled_regressions, specializations

Golden = Callable[[str, str], None]

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
CASES = tuple(f"{rows}x4096-bf16" for rows in (1024, 2048, 4096, 8192, 16384))
BASE = BaseRef(
    name="auto",
    commit="c0ffee" * 6 + "c0ff",
    why="where HEAD left origin/main",
    source="src/rms_norm.py",
    source_sha256="b1" * 32,
)


def launch(name: str = "_forward_kernel", code: str = "a", **changes: Any) -> CompiledLaunch:
    facts: dict[str, Any] = {
        "jit_function": name,
        "grid": (8192, 1, 1),
        "num_warps": 8,
        "num_stages": 3,
        "num_ctas": 1,
        "registers": 32,
        "spill_bytes": 0,
        "shared_bytes": 32,
        "resident_warps": 64,
        "limiter": "warps",
        "fits_at_once": False,
        "binary_sha256": code * 64,
    }
    return CompiledLaunch(**{**facts, **changes})


def pairs(
    base: CompiledLaunch | None,
    change: CompiledLaunch | None,
    mode: Mode = Mode.FORWARD,
    cases: tuple[str, ...] = CASES,
) -> list[LaunchPair]:
    return [LaunchPair(case=case, mode=mode, base=base, change=change) for case in cases]


def compared(found: list[LaunchPair], *gaps: CallGap, gpu: str = H100, notes: tuple[str, ...] = ()) -> ComparedOn:
    return ComparedOn(
        gpu=gpu,
        pairs=tuple(found),
        gaps=gaps,
        specializations=specializations(found),
        regressions=compiled_regressions(found, gaps, CompiledLimits(), 232448),
        notes=notes,
    )


def result(*on: ComparedOn, base: BaseRef = BASE, notes: tuple[str, ...] = ()) -> CompiledChange:
    return CompiledChange(
        kernel="rms_norm",
        file="src/rms_norm.py",
        file_sha256="a2" * 32,
        base=base,
        seed=0,
        triton="3.7.1",
        origin=Origin(kind=OriginKind.PREDICTED, gpu=H100),
        limits=CompiledLimits().model_dump(),
        cases=CASES,
        on=on,
        passed=not any(each.regressions for each in on),
        notes=notes,
    )


def regressed() -> CompiledChange:
    """Spills and lost warps backward, another function's name, a launch more, and calls without an answer."""
    worse = launch("_backward_kernel", "c", registers=255, spill_bytes=64, resident_warps=8, limiter="registers")
    hopper = compared(
        [
            *pairs(launch("_old_kernel"), launch("_new_kernel", "b", shared_bytes=40)),
            *pairs(launch("_backward_kernel", registers=64, resident_warps=32), worse, Mode.BACKWARD),
            *pairs(None, launch("_sum_kernel", "d", spill_bytes=4), Mode.BACKWARD, CASES[:1]),
            *pairs(launch("_zero_kernel", "d"), None, Mode.BACKWARD, CASES[:1]),
        ],
        CallGap(case="1x1-bf16", mode=Mode.FORWARD, base=None, change="needs more than the GPU has: OutOfResources"),
        CallGap(case="2x2-bf16", mode=Mode.FORWARD, base="timeout: no answer", change=None),
        CallGap(case="3x3-bf16", mode=Mode.FORWARD, base="died: without a word", change="died: without a word"),
        notes=("_new_kernel: the first of 4 configurations stands in",),
    )
    ampere = compared(pairs(launch(), launch(code="b")), gpu=A100)
    return result(hopper, ampere, notes=("the target file has changed too: each side is called by its own",))


def test_a_regression_is_told_as_it_was(golden: Golden) -> None:
    golden("check-change-regressed.md", change_page(regressed()))


def test_differences_within_their_limits_are_told_as_they_were(golden: Golden) -> None:
    better = launch(code="b", num_warps=4, registers=40, shared_bytes=12320, resident_warps=48, fits_at_once=True)
    golden("check-change-passed.md", change_page(result(compared(pairs(launch(), better)))))


def test_no_difference_is_a_line() -> None:
    page = change_page(result(compared(pairs(launch(), launch()))))

    assert page.endswith("\n\n**No difference: the same machine code at 5 calls.**\n")
    assert "auto` (commit c0ffeec0ffee, where HEAD left origin/main)" in page


def test_a_new_kernel_has_no_differences() -> None:
    base = BaseRef(name="main", commit="c" * 40, missing="cccccccccccc has no src/rms_norm.py")
    page = change_page(result(compared(pairs(launch(), None)).model_copy(update={"regressions": ()}), base=base))

    assert page.endswith("\n\n**New: cccccccccccc has no src/rms_norm.py.** The change compiles at 5 calls.\n")


def test_sizes_that_look_alike_are_told_in_bytes() -> None:
    page = change_page(result(compared(pairs(launch(shared_bytes=16400), launch(code="b", shared_bytes=16420)))))

    assert "| shared memory a block | 16400 B | 16420 B |" in page


def test_one_launch_of_a_call_is_over_its_limit_and_another_of_the_same_function_is_not() -> None:
    fine, spilling = launch(code="b", registers=40), launch(code="c", registers=50, spill_bytes=8)
    both = [*pairs(launch(), fine, cases=CASES[:1]), *pairs(launch(spill_bytes=16), spilling, cases=CASES[:1])]
    spills_more = pairs(launch(), launch(code="d", spill_bytes=12), cases=CASES[:1])
    page = change_page(result(compared([*both, *spills_more])))

    rows = [line for line in page.splitlines() if "| spills a thread |" in line]
    where = "forward, 1024×4096 bf16"
    assert rows == [
        f"| `_forward_kernel` | spills a thread | 0 B | 12 B | {where} | **none more** |",
        f"| `_forward_kernel` | spills a thread | 16 B | 8 B | {where} |  |",
    ]
