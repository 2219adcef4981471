"""What a run is after: text that a person writes, read in one place and given back."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from warpsmith.contracts.aim import Aim, CaseWeight, Condition, Objective, Quantity, TargetMetric, parse_conditions
from warpsmith.contracts.case import Case, DType, Mode, Role
from warpsmith.contracts.request import Request

BEGUN = {"kernel": "k", "run_id": "r", "created_at": "2026-11-29T00:00:00Z"}


def case(n: int, *, rows: int = 8, dtype: DType = DType.BFLOAT16, role: Role = Role.TUNING) -> Case:
    return Case(axes={"M": rows, "N": n}, dtype=dtype, role=role)


@pytest.mark.parametrize(
    ("text", "mode", "quantity", "where"),
    [
        ("forward < 0.3 ms at N=4096", Mode.FORWARD, Quantity.TIME, "N=4096"),
        ("full <= 250 us", Mode.FULL, Quantity.TIME, ""),
        ("speedup > 1.5", None, Quantity.SPEEDUP, ""),
        ("backward speedup >= 2 at dtype=fp16", Mode.BACKWARD, Quantity.SPEEDUP, "dtype=fp16"),
        ("peak memory < 1.2 GB", None, Quantity.PEAK_MEMORY, ""),
        ("forward peak memory <= 800 MiB at N<=4096 and M>1", Mode.FORWARD, Quantity.PEAK_MEMORY, "N<=4096 and M>1"),
        ("full < 0.123456789 s", Mode.FULL, Quantity.TIME, ""),
    ],
)
def test_a_target_metric_is_read_and_given_back_as_it_was_written(
    text: str, mode: Mode | None, quantity: Quantity, where: str
) -> None:
    target = TargetMetric.parse(text)

    assert (target.mode, target.quantity, target.where) == (
        mode,
        quantity,
        parse_conditions(where) if where else (),
    )
    assert str(target) == text
    assert TargetMetric.model_validate_json(target.model_dump_json()) == target


@pytest.mark.parametrize(
    ("text", "measured", "met"),
    [
        ("forward < 300 us", 0.2999, True),
        ("forward < 300 us", 0.3, False),
        ("forward <= 0.3 ms", 0.3, True),
        ("peak memory < 1.2 GB", 1.2e9, False),
        ("peak memory < 1 GiB", 1.05e9, True),
        ("speedup > 1.5", 1.5, False),
        ("speedup > 1.5", 1.51, True),
    ],
)
def test_a_target_metric_is_met_in_its_own_unit(text: str, measured: float, met: bool) -> None:
    assert TargetMetric.parse(text).is_met_by(measured) is met


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("make it fast", "'forward < 0.3 ms at N=4096'"),
        ("< 3 ms", "'forward < 0.3 ms at N=4096'"),
        ("forward < 0 ms", "'forward < 0.3 ms at N=4096'"),
        ("forward > 3 ms", "a time is compared by <"),
        ("speedup < 2", "a speedup is compared by >"),
        ("forward < 3 MB", "the units of time are us, µs, ms, s"),
        ("forward < 3 ms at the end", "such as N<=4096"),
    ],
)
def test_a_target_that_means_nothing_is_refused_with_an_example(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        TargetMetric.parse(text)

    assert why in str(refused.value)


def test_a_condition_holds_by_axis_and_dtype_and_not_where_the_axis_lacks() -> None:
    conditions = parse_conditions("N <= 4096, dtype==bfloat16 & M>4")

    assert [str(c) for c in conditions] == ["N<=4096", "dtype=bf16", "M>4"]
    assert [c.holds(case(4096)) for c in conditions] == [True] * 3
    assert [c.holds(case(4097, rows=4, dtype=DType.FLOAT16)) for c in conditions] == [False] * 3
    assert not Condition.parse("K<9").holds(case(1))
    assert Condition.parse("dtype!=fp32").holds(case(1))


@pytest.mark.parametrize("text", ["N=", "N", "4096<N", "N<=many", "dtype<bf16", "dtype=int8", ""])
def test_a_condition_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|compared"):
        parse_conditions(text)


def test_a_weight_is_of_a_case_by_name_or_of_those_that_meet_conditions() -> None:
    by_name, by_width = CaseWeight.parse("8x4096-bf16-layout=strided=2"), CaseWeight.parse("N=4096 and M<9: 2.5")

    assert (by_name.case, by_name.weight) == ("8x4096-bf16-layout=strided", 2.0)
    assert by_width.is_of(case(4096)) and not by_width.is_of(case(4096, rows=9))
    assert [str(w) for w in (by_name, by_width)] == ["8x4096-bf16-layout=strided=2", "N=4096 and M<9: 2.5"]
    assert CaseWeight.model_validate(str(by_width)) == by_width


@pytest.mark.parametrize(
    "text", ["8x4096-bf16", "=3", "N=4096", "N=4096: 0", "N=4096: nan", "N=4096:", "a=-1", "a=inf"]
)
def test_a_weight_that_means_nothing_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="N=4096: 3"):
        CaseWeight.parse(text)


def test_what_is_outside_the_regime_is_held_out_and_the_last_weight_counts() -> None:
    cases = (case(1024), case(4096), case(8192), case(2048, role=Role.HELD_OUT))
    weights = (CaseWeight.parse("N<=4096: 2"), CaseWeight.parse("8x4096-bf16=5"), CaseWeight.parse("N=8192: 9"))
    aim = Aim(regime=parse_conditions("N<=4096"), weights=weights)

    roles = [c.role for c in aim.in_regime(cases)]
    assert roles == [Role.TUNING, Role.TUNING, Role.HELD_OUT, Role.HELD_OUT]
    assert aim.goal_weights(cases) == {"8x1024-bf16": 2.0, "8x4096-bf16": 5.0}
    assert Aim().applied(cases) == cases


def test_a_request_without_an_aim_is_the_file_that_it_was() -> None:
    assert not {"objective", "regime", "weights", "target_metric"} & Request.model_validate(BEGUN).model_dump().keys()
    assert Request.model_validate(BEGUN).aim == Aim()


def test_a_request_holds_its_aim_as_text() -> None:
    asked = {
        "objective": "memory",
        "regime": ["N<=4096", "dtype=bf16"],
        "weights": ["N=4096: 3"],
        "target_metric": "peak memory < 1.2 GB",
    }
    request = Request.model_validate({**BEGUN, **asked})

    assert request.aim.objective is Objective.MEMORY
    assert request.aim.target == TargetMetric.parse("peak memory < 1.2 GB")
    written = request.model_dump(mode="json")
    assert {name: written[name] for name in asked} == asked
    assert Request.model_validate(written) == request


def test_a_request_file_with_a_condition_of_nonsense_is_refused() -> None:
    with pytest.raises(ValidationError, match="N<=4096"):
        Request.model_validate({**BEGUN, "regime": ["small"]})
