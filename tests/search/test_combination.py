"""What won apart is worth trying together where it is new and promises more than noise."""

from __future__ import annotations

import pytest

from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import CaseSpeedup, GuardrailResult, Interval, Outcome, Verdict
from warpsmith.search.combination import combination, lineage
from warpsmith.verdict.thresholds import Thresholds

FLOOR = 0.001
ORIGIN = Origin(kind=OriginKind.MEASURED, gpu="H200", date="2026-01-01")


def variant(
    number: int,
    gain: float,
    *,
    on: int = 0,
    outcome: Outcome = Outcome.REJECTED,
    low: float | None = None,
    regressed: bool = False,
    rail: bool = True,
) -> Variant:
    """`gain` is over what it was built on."""
    interval = Interval(value=gain, low=gain - 0.001 if low is None else low, high=gain + 0.001)
    case = CaseSpeedup(
        case="c",
        role=Role.TUNING,
        mode=Mode.FULL,
        baseline_ms=1.0,
        variant_ms=1 / gain,
        speedup=interval,
        regression_p=1.0,
        regressed=regressed,
    )
    guardrail = GuardrailResult(metric="m", baseline=1, variant=1, unit="s", limit="at most 1", ok=rail)
    return Variant(
        number=number,
        strategy=f"s{number}",
        title=f"Strategy {number}",
        based_on=on,
        hypothesis="h",
        predicted_low=1.0,
        predicted_high=1.1,
        status=VariantStatus.JUDGED,
        origin=ORIGIN,
        verdict=Verdict(
            outcome=outcome,
            reasons=("r",),
            goal_mode=Mode.FULL,
            goal=interval,
            over_best=interval if on else None,
            noise_floor=FLOOR,
            cases=(case,),
            guardrails=(guardrail,),
        ),
    )


def parts(*variants: Variant, best: Variant | None = None) -> list[int] | None:
    found = combination(variants, best, Thresholds(), FLOOR)
    return None if found is None else [part.number for part, _ in found.parts]


def test_two_small_gains_promise_their_product() -> None:
    found = combination([variant(1, 1.007), variant(2, 1.006)], None, Thresholds(), FLOOR)
    assert found is not None and found.gain == pytest.approx(1.007 * 1.006)


def test_less_than_a_win_needs_or_than_noise_reaches_is_not_tried() -> None:
    assert parts(variant(1, 1.003), variant(2, 1.003)) is None
    best = variant(1, 1.2, outcome=Outcome.ACCEPTED)
    assert parts(best, variant(2, 1.0008, on=1, low=1.0001), variant(3, 1.0008, on=1, low=1.0001), best=best) is None


def test_one_alone_is_new_only_where_it_was_built_on_something_else() -> None:
    early, best = variant(1, 1.006), variant(2, 1.3, outcome=Outcome.ACCEPTED)
    assert parts(early, best, best=best) == [1]
    assert parts(best, variant(3, 1.006, on=2), best=best) is None
    assert parts(early) is None


def test_what_the_best_builds_on_is_in_it_already() -> None:
    first, second = variant(1, 1.1, outcome=Outcome.ACCEPTED), variant(2, 1.2, on=1, outcome=Outcome.ACCEPTED)
    assert [v.number for v in lineage([first, second], second)] == [1, 2]
    assert parts(first, second, best=second) is None


@pytest.mark.parametrize(
    "broken",
    [
        {"low": 0.999},
        {"regressed": True},
        {"rail": False},
        {"outcome": Outcome.MIXED},
        {"outcome": Outcome.INCONCLUSIVE},
    ],
)
def test_what_won_nothing_or_broke_a_rule_is_no_part(broken: dict[str, object]) -> None:
    whole = variant(1, 1.008), variant(2, 1.008)
    assert parts(*whole) == [1, 2]
    assert parts(whole[0], variant(2, 1.008, **broken)) is None  # type: ignore[arg-type]
