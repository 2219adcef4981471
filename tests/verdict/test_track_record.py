"""What past results say of a strategy, and how far they move its next prediction."""

from __future__ import annotations

import math

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.track_record import StrategyRecord
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.verdict.track_record import corrected_range, correction, track_record


def variant(
    number: int,
    strategy: str,
    speedup: float | None,
    *,
    based_on: int = 0,
    predicted: tuple[float, float] = (1.0, 1.21),
    outcome: Outcome = Outcome.ACCEPTED,
    status: VariantStatus = VariantStatus.JUDGED,
) -> Variant:
    verdict = None
    if speedup is not None:
        goal = Interval(value=speedup, low=speedup, high=speedup)
        verdict = Verdict(outcome=outcome, reasons=(), goal_mode=Mode.FULL, goal=goal)
    return Variant(
        number=number,
        strategy=strategy,
        title=strategy,
        based_on=based_on,
        hypothesis="",
        predicted_low=predicted[0],
        predicted_high=predicted[1],
        status=status,
        verdict=verdict,
        origin=Origin(kind=OriginKind.MEASURED),
    )


def record(measured: int, over_middle: float | None) -> StrategyRecord:
    return StrategyRecord(
        strategy="settings",
        tried=max(1, measured),
        applicable=measured,
        measured=measured,
        accepted=0,
        within=0,
        gain=1.0 if measured else None,
        measured_over_middle=over_middle,
    )


def test_a_gain_is_over_what_the_variant_built_on() -> None:
    run = (
        variant(1, "settings", 1.2),
        variant(2, "hints", 1.5, based_on=1, predicted=(1.2, 1.2 * 1.5625)),
    )
    _, hints = track_record([run])

    assert hints.gain == pytest.approx(1.25)
    assert hints.measured_over_middle == pytest.approx(1.0)
    assert (hints.tried, hints.applicable, hints.measured, hints.accepted, hints.within) == (1, 1, 1, 1, 1)


def test_results_of_several_runs_are_taken_together_by_geometric_mean() -> None:
    runs = [
        [variant(1, "settings", 1.1)],
        [variant(1, "settings", 1.331, outcome=Outcome.REJECTED)],
        [variant(1, "settings", None, status=VariantStatus.INAPPLICABLE)],
    ]
    (settings,) = track_record(runs)

    assert settings.gain == pytest.approx(1.21)
    assert settings.measured_over_middle == pytest.approx(1.1)
    assert (settings.tried, settings.applicable, settings.measured, settings.accepted) == (3, 2, 2, 1)
    assert settings.within == 1


def test_a_second_try_in_one_run_does_not_count() -> None:
    run = (variant(1, "settings", 1.1), variant(2, "hints", None, status=VariantStatus.INAPPLICABLE))
    again = variant(3, "settings", 1.5, based_on=1)

    assert track_record([(*run, again)]) == track_record([run])


def test_a_gain_over_a_variant_that_was_not_measured_is_none() -> None:
    run = (
        variant(1, "settings", None, status=VariantStatus.FAILED),
        variant(2, "hints", 1.5, based_on=1),
    )

    assert track_record([run])[1].gain is None


@pytest.mark.parametrize("measured", [0, 1, 2])
def test_too_few_results_correct_nothing(measured: int) -> None:
    assert correction(record(measured, 1.5 if measured else None)) is None


def test_a_correction_is_half_made_at_three_results_and_nearly_whole_at_many() -> None:
    assert correction(record(3, 1.21)) == pytest.approx(1.1)
    assert correction(record(300, 1.21)) == pytest.approx(1.21, rel=0.01)


def test_a_correction_moves_the_middle_and_leaves_an_end_without_gain_where_it_is() -> None:
    low, high = corrected_range(1.0, 1.21, 1.05, most=9.0)

    assert low == 1.0
    assert math.sqrt(low * high) == pytest.approx(1.1 * 1.05)


def test_a_correction_downwards_never_predicts_a_loss() -> None:
    low, high = corrected_range(1.02, 1.10, 0.5, most=9.0)

    assert 1.0 < low < 1.02 and low < high < 1.10
    assert high == pytest.approx(1.10**0.5)


def test_a_corrected_range_ends_at_the_ceiling() -> None:
    assert corrected_range(1.05, 1.21, 1.5, most=1.25) == (pytest.approx(1.05**2), 1.25)
    assert corrected_range(1.19, 1.21, 1.5, most=1.25) == (1.25, 1.25)


def test_where_no_gain_is_predicted_none_is_made_up() -> None:
    assert corrected_range(1.0, 1.0, 2.0, most=9.0) == (1.0, 1.0)
