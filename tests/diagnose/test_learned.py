"""Recommendations by what recorded runs teach of their strategies."""

from __future__ import annotations

import pytest

from warpsmith.contracts.profile import Recommendation
from warpsmith.contracts.track_record import StrategyRecord
from warpsmith.diagnose.learned import corrected


def recommendation(strategy: str, low: float, high: float) -> Recommendation:
    return Recommendation(strategy=strategy, why="line 3: a loop.", predicted_low=low, predicted_high=high)


def record(strategy: str, measured: int, over_middle: float) -> StrategyRecord:
    return StrategyRecord(
        strategy=strategy,
        tried=measured,
        applicable=measured,
        measured=measured,
        accepted=measured,
        within=0,
        gain=1.1,
        measured_over_middle=over_middle,
    )


IN_ORDER = (
    recommendation("settings", 1.0, 1.05),
    recommendation("pipelined_loop", 1.02, 1.10),
    recommendation("cache_hints", 1.01, 1.08),
)


def test_results_enough_move_the_range_the_order_and_the_reason() -> None:
    found = corrected(IN_ORDER, (record("cache_hints", 5, 1.1),), most=2.0)

    assert [each.strategy for each in found] == ["settings", "cache_hints", "pipelined_loop"]
    assert found[1].predicted_low == pytest.approx(1.01**2)
    assert found[1].predicted_high == pytest.approx(1.08**2)
    assert found[1].why == (
        "line 3: a loop. 1.01 to 1.08× by its price, corrected by 5 recorded results, which were 1.100× the middle of "
        "what was predicted"
    )
    assert (found[0], found[2]) == IN_ORDER[:2]


def test_settings_stay_first_whatever_their_results() -> None:
    found = corrected(IN_ORDER, (record("settings", 9, 0.7),), most=2.0)

    assert found[0].strategy == "settings"
    assert found[0].predicted_high < 1.05


def test_those_of_one_architecture_stay_last_whatever_their_results() -> None:
    beside = (*IN_ORDER, recommendation("past_l1", 1.0, 1.09))

    found = corrected(beside, (record("past_l1", 9, 1.5),), most=2.0)

    assert [each.strategy for each in found] == ["settings", "pipelined_loop", "cache_hints", "past_l1"]
    assert found[-1].predicted_high > found[1].predicted_high


@pytest.mark.parametrize("records", [(), (record("cache_hints", 2, 1.5),), (record("another", 9, 1.5),)])
def test_too_few_results_leave_all_as_it_was(records: tuple[StrategyRecord, ...]) -> None:
    unsorted = (IN_ORDER[0], IN_ORDER[2], IN_ORDER[1])

    assert corrected(unsorted, records, most=2.0) == unsorted


def test_nothing_is_predicted_beyond_the_ceiling() -> None:
    found = corrected(IN_ORDER, (record("pipelined_loop", 9, 1.5),), most=1.12)

    assert max(each.predicted_high for each in found) == 1.12
