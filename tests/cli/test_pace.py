"""What is left is told only where there is something to go by, and answers from the disk do not make it look near."""

from __future__ import annotations

from functools import reduce

import pytest

from warpsmith.cli.pace import INSTANT_ITEM_S, Pace, duration, roughly

NOTHING_YET = Pace(INSTANT_ITEM_S)


def after(*counts: tuple[int, float], total: int = 10) -> Pace:
    """The pace of work that had so many items done at these seconds."""
    return reduce(lambda pace, reached: pace.reached(reached[0], total, reached[1]), counts, NOTHING_YET)


def test_nothing_is_told_before_two_items_took_their_time() -> None:
    assert NOTHING_YET.about_left_s(5.0) is None
    assert after((0, 0.0), (1, 4.0)).about_left_s(4.0) is None
    assert after((0, 0.0), (1, 4.0), (2, 8.0)).about_left_s(8.0) == 8 * 4.0


def test_what_is_left_shrinks_while_an_item_is_under_way_and_waits_for_one_that_is_late() -> None:
    pace = after((0, 0.0), (1, 4.0), (2, 8.0))
    assert pace.about_left_s(11.0) == 29.0
    assert pace.about_left_s(100.0) == 7 * 4.0


def test_answers_from_the_disk_do_not_count() -> None:
    stored = [(n, n * 0.001) for n in range(6)]
    assert after(*stored).about_left_s(0.005) is None
    assert after(*stored, (6, 4.005), (7, 8.005)).about_left_s(8.005) == pytest.approx(3 * 4.0)


def test_one_outlier_is_passed_over_and_only_recent_items_count() -> None:
    slow_start = after((0, 0.0), (1, 60.0), (2, 62.0), (3, 64.0), (4, 94.0), (5, 96.0), (6, 98.0), total=7)
    assert slow_start.about_left_s(98.0) == 2.0


def test_items_that_end_together_share_their_time() -> None:
    assert after((0, 0.0), (100, 4.0), (200, 8.0), total=300).about_left_s(8.0) == pytest.approx(100 * 0.04)


def test_fewer_done_or_another_total_is_other_work() -> None:
    pace = after((0, 0.0), (1, 4.0), (2, 8.0))
    assert pace.reached(0, 10, 9.0) == Pace(INSTANT_ITEM_S, 0, 10, 9.0)
    assert pace.reached(3, 11, 9.0) == Pace(INSTANT_ITEM_S, 3, 11, 9.0)


def test_the_same_count_again_keeps_the_time_that_has_passed() -> None:
    pace = after((0, 0.0), (1, 4.0), (2, 8.0))
    assert pace.reached(2, 10, 11.0) == pace


def test_work_that_may_end_early_goes_by_the_mean_of_all() -> None:
    assert after((0, 0.0)).at_most_left_s(1.0) is None
    assert after((0, 0.0), (1, 60.0), (2, 80.0), total=4).at_most_left_s(90.0) == (40.0 - 10.0) + 40.0


def test_nothing_is_left_of_what_is_done() -> None:
    assert after((8, 0.0), (9, 4.0), (10, 8.0)).about_left_s(20.0) == 0.0


@pytest.mark.parametrize(
    ("seconds", "passed", "estimate"),
    [
        (0.2, "0 s", "1 s"),
        (7.4, "7 s", "7 s"),
        (59.9, "59 s", "60 s"),
        (83.0, "1 min 23 s", "85 s"),
        (190.0, "3 min 10 s", "3 min"),
        (4350.0, "1 h 12 min", "1 h 12 min"),
    ],
)
def test_a_time_that_passed_is_told_to_the_second_and_an_estimate_roughly(
    seconds: float, passed: str, estimate: str
) -> None:
    assert (duration(seconds), roughly(seconds)) == (passed, estimate)
