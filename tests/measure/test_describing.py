"""A target as data: costs that nothing can be held against are refused before anything is timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.measure.describing import describe
from warpsmith.measure.worker.protocol import Describe, TargetRef, WorkerError

TARGET = """\
from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Target

target = Target(
    name="double",
    source="double.py",
    module="double",
    make_inputs=lambda case, device, generator: {{}},
    call=lambda module, inputs: None,
    reference=lambda inputs: None,
    cost=lambda case, mode: {cost},
    cases=({cases}),
    modes=({modes}),
    differentiable=(),
    plot_axis="N",
)
"""


TUNING = 'Case(axes={"N": 4096}, dtype=DType.BFLOAT16), '
HELD_OUT = 'Case(axes={"N": 0}, dtype=DType.BFLOAT16, role=Role.HELD_OUT), '


def described(
    root: Path, cost: str, *, cases: str = TUNING + HELD_OUT, modes: str = "Mode.FORWARD,"
) -> dict[str, tuple[int, int]]:
    (root / "double.py").write_text("")
    path = root / "benchmark_double.py"
    path.write_text(TARGET.format(cost=cost, cases=cases, modes=modes))
    spec = describe(Describe(target=TargetRef(path=str(path), root=str(root), sha256="0" * 64)))
    return {name: (by[Mode.FORWARD].bytes_moved, by[Mode.FORWARD].flops) for name, by in spec.costs.items()}


def refused(root: Path, cost: str = "Cost(bytes_moved=1, flops=1)", **changed: str) -> str:
    with pytest.raises(WorkerError) as caught:
        described(root, cost, **changed)
    assert caught.value.failure.status == "bad_target"
    return caught.value.failure.message


def test_a_tuning_case_with_nothing_to_do_is_refused_by_name(tmp_path: Path) -> None:
    assert refused(tmp_path, "Cost(bytes_moved=0, flops=0)").startswith(
        "cost says that case 4096-bf16, mode forward, moves 0 bytes and does 0 operations; expected the least that must"
    )


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        ("Cost(bytes_moved=-4, flops=1)", "bytes_moved -4: Input should be greater than or equal to 0"),
        ("Cost(bytes_moved=float('nan'), flops=1)", "bytes_moved nan: Input should be a finite number"),
        ("Cost(bytes_moved=1)", "flops {'bytes_moved': 1}: Field required"),
    ],
)
def test_a_cost_that_is_none_is_told_in_a_line_of_our_own(tmp_path: Path, cost: str, told: str) -> None:
    message = refused(tmp_path, cost)
    assert message == (
        f"cost fails for case 4096-bf16, mode forward: {told}; expected Cost(bytes_moved=..., flops=...), whole "
        "numbers from 0 on"
    )


@pytest.mark.parametrize(("cost", "found"), [("None", "NoneType"), ("(1, 2)", "tuple")])
def test_what_is_no_cost_is_told_by_its_type(tmp_path: Path, cost: str, found: str) -> None:
    assert refused(tmp_path, cost).startswith(f"cost returned {found} for case 4096-bf16, mode forward; expected Cost(")


def test_a_cost_that_raises_is_told_with_what_the_modes_mean(tmp_path: Path) -> None:
    assert "KeyError: 'N2'; mode full is forward and backward" in refused(tmp_path, "case.axes['N2']")


@pytest.mark.parametrize("power", [20, 400, 6000])
@pytest.mark.parametrize("cost", ["Cost(bytes_moved=10**{}, flops=1)", "Cost(bytes_moved=1, flops=10**{})"])
def test_a_cost_that_no_gpu_could_pay_in_an_hour_is_refused(tmp_path: Path, cost: str, power: int) -> None:
    told = refused(tmp_path, cost.format(power))
    assert f"1.00e+{power} " in told and "more than an hour of the fastest GPU known" in told


def test_a_long_call_is_believed(tmp_path: Path) -> None:
    assert described(tmp_path, "Cost(bytes_moved=10**15, flops=10**17)")["4096-bf16"] == (10**15, 10**17)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"cases": ""}, "cases is empty in "),
        ({"cases": HELD_OUT}, "expected at least one tuning case"),
        ({"modes": ""}, "names no pass: found none; expected forward, backward or both"),
    ],
)
def test_a_target_with_nothing_to_search_on_is_refused(tmp_path: Path, changed: dict[str, str], told: str) -> None:
    assert told in refused(tmp_path, **changed)


@pytest.mark.parametrize(("bytes_moved", "flops"), [("4 * case.axes['N']", "0"), ("0", "case.axes['N']")])
def test_either_bytes_or_operations_are_enough_and_a_held_out_case_may_be_empty(
    tmp_path: Path, bytes_moved: str, flops: str
) -> None:
    found = described(tmp_path, f"Cost(bytes_moved={bytes_moved}, flops={flops})")
    assert sum(found["4096-bf16"]) > 0 and found["0-bf16"] == (0, 0)
