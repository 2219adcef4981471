"""Statistics of interleaved timings."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from warpsmith.contracts.case import Case
from warpsmith.contracts.measurement import Block, Timing
from warpsmith.contracts.verdict import Interval
from warpsmith.verdict.noise import noise_floor
from warpsmith.verdict.statistics import (
    block_medians,
    compare,
    geometric_mean,
    goal_speedup,
    holm,
    median_ms,
    pooled,
)

Maker = Callable[..., Timing]
Cases = Callable[..., Case]

times = st.lists(st.floats(0.001, 10.0), min_size=2, max_size=24)
realistic = st.floats(0.05, 0.2)
probabilities = st.lists(st.floats(0.0, 1.0), max_size=12)


def test_block_medians_go_by_round_whatever_the_order_they_ran_in(timing: Maker) -> None:
    shuffled = timing({}).model_copy(
        update={
            "blocks": (
                Block(contender="a", round=1, samples_ms=(5.0, 4.0, 9.0)),
                Block(contender="b", round=0, samples_ms=(7.0,)),
                Block(contender="a", round=0, samples_ms=(1.0, 2.0)),
            )
        }
    )

    assert block_medians(shuffled, "a").tolist() == [1.5, 5.0]


def test_a_contender_without_a_block_is_an_error_that_tells_why(timing: Maker) -> None:
    with pytest.raises(ValueError, match="v1 has no block at 8192x4096-bf16, full: out of memory"):
        median_ms(timing({"original": [1.0]}, failures={"v1": "out of memory"}), "v1")


def test_the_median_is_over_rounds_and_constant_times_have_no_width(timing: Maker) -> None:
    assert median_ms(timing({"a": [3.0] * 5}), "a") == Interval(value=3.0, low=3.0, high=3.0)
    assert median_ms(timing({"a": [1.0, 2.0, 9.0]}), "a").value == 2.0


def test_a_speedup_above_one_means_that_the_contender_is_faster(timing: Maker) -> None:
    found = compare(timing({"original": [2.0] * 4, "v1": [1.0] * 4}), "original", "v1").speedup

    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))


@given(drift=times, ratio=st.floats(0.5, 2.0))
def test_drift_that_both_sides_share_cancels(timing: Maker, drift: list[float], ratio: float) -> None:
    found = compare(timing({"a": drift, "b": [ratio * time_ms for time_ms in drift]}), "a", "b").speedup

    assert (found.low, found.value, found.high) == pytest.approx((1 / ratio,) * 3)


def test_rounds_that_only_one_side_ran_are_left_out(timing: Maker) -> None:
    together = timing({"a": [2.0, 2.0], "b": [1.0, 1.0]})
    found = compare(pooled(together, timing({"b": [50.0, 50.0, 50.0]})), "a", "b").speedup

    assert found.value == pytest.approx(2.0)


def test_identical_sides_give_an_interval_with_one_in_it_for_nearly_every_seed(noisy: Maker) -> None:
    intervals = [compare(noisy({"a": 0.1, "b": 0.1}, seed=seed), "a", "b").speedup for seed in range(100)]

    assert sum(found.low <= 1 <= found.high for found in intervals) >= 88


def test_planted_work_of_five_percent_is_found_and_none_is_not(noisy: Maker) -> None:
    planted = [compare(noisy({"a": 0.1, "b": 0.105}, noise=0.01, seed=seed), "a", "b").speedup for seed in range(20)]

    assert all(found.high < 1 and found.value == pytest.approx(1 / 1.05, abs=0.015) for found in planted)


def test_the_estimate_is_the_trimmed_mean_of_the_log_ratios_and_the_times_are_medians(timing: Maker) -> None:
    ratios = [1.0, 1.01, 1.02, 1.03, 5.0]

    found = compare(timing({"a": ratios, "b": [1.0] * 5}), "a", "b")

    assert found.rounds == 5
    assert found.log_speedup == pytest.approx(math.log(1.01 * 1.02 * 1.03) / 3)
    assert (found.baseline_ms, found.contender_ms) == (1.02, 1.0)


@given(drawn=st.lists(realistic, min_size=1, max_size=24), seed=st.integers(0, 2**31))
@settings(max_examples=25)
def test_the_interval_is_that_of_the_percentiles_of_the_drawn_trimmed_means(
    timing: Maker, drawn: list[float], seed: int
) -> None:
    found = compare(timing({"a": drawn, "b": [0.1] * len(drawn)}), "a", "b", seed=seed)
    n = len(drawn)
    tail = stats.norm.cdf(-math.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1)) if n > 1 else 0.0
    low, high = np.exp(np.quantile(found.log_speedups, [tail, 1 - tail]))

    expected = Interval(value=math.exp(stats.trim_mean(np.log(np.array(drawn) / 0.1), 0.2)), low=low, high=high)

    assert found.speedup.model_dump() == pytest.approx(expected.model_dump(), abs=2e-6)
    assert found.speedup.low <= found.speedup.high


@given(sides=st.lists(st.tuples(realistic, realistic), min_size=2, max_size=24))
@settings(max_examples=25)
def test_swapped_sides_have_the_inverse_interval(timing: Maker, sides: list[tuple[float, float]]) -> None:
    one, other = [list(times) for times in zip(*sides, strict=True)]
    forth = compare(timing({"a": one, "b": other}), "a", "b").speedup
    back = compare(timing({"a": other, "b": one}), "a", "b").speedup

    inverse = {"value": 1 / back.value, "low": 1 / back.high, "high": 1 / back.low}
    assert forth.model_dump() == pytest.approx(inverse, rel=2e-5)


@given(sides=st.lists(st.tuples(realistic, realistic), min_size=2, max_size=24), scale=st.floats(0.01, 100.0))
@settings(max_examples=25)
def test_a_speedup_has_no_unit(timing: Maker, sides: list[tuple[float, float]], scale: float) -> None:
    one, other = [list(times) for times in zip(*sides, strict=True)]
    scaled = timing({"a": [scale * time_ms for time_ms in one], "b": [scale * time_ms for time_ms in other]})

    expected = compare(timing({"a": one, "b": other}), "a", "b").speedup
    assert compare(scaled, "a", "b").speedup.model_dump() == pytest.approx(expected.model_dump(), abs=2e-6)


@given(shuffle=st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_order_in_which_blocks_ran_decides_nothing(noisy: Maker, timing: Maker, shuffle: random.Random) -> None:
    ordered = noisy({"a": 0.1, "b": 0.11})
    blocks = list(ordered.blocks)
    shuffle.shuffle(blocks)
    numbers = list(range(20))
    shuffle.shuffle(numbers)
    renumbered = [block.model_copy(update={"round": numbers[block.round]}) for block in ordered.blocks]

    found = compare(ordered, "a", "b").speedup

    assert compare(ordered.model_copy(update={"blocks": tuple(blocks)}), "a", "b").speedup == found
    assert compare(ordered.model_copy(update={"blocks": tuple(renumbered)}), "a", "b").speedup.value == found.value


def test_a_third_contender_changes_nothing_between_two(noisy: Maker, timing: Maker) -> None:
    two = noisy({"a": 0.1, "b": 0.11})
    third = timing({"c": [0.5] * 20}).blocks
    three = two.model_copy(update={"blocks": (*third, *two.blocks)})

    assert compare(three, "a", "b").speedup.model_dump_json() == compare(two, "a", "b").speedup.model_dump_json()


@given(block_ms=times, seed=st.integers(0, 2**31))
@settings(max_examples=25)
def test_the_same_seed_gives_the_same_figures_byte_for_byte(timing: Maker, block_ms: list[float], seed: int) -> None:
    twice = [
        compare(timing({"a": block_ms, "b": block_ms[::-1]}), "a", "b", seed=seed).speedup.model_dump_json()
        for _ in range(2)
    ]

    assert twice[0] == twice[1]


def test_another_seed_draws_other_rounds(noisy: Maker) -> None:
    sides = noisy({"a": 0.1, "b": 0.1})

    assert not np.array_equal(compare(sides, "a", "b", seed=1).log_speedups, compare(sides, "a", "b").log_speedups)


def test_cases_are_drawn_independently_and_in_any_order(noisy: Maker, case: Cases) -> None:
    one, other = (noisy({"a": 0.1, "b": 0.1}, case=case(rows)) for rows in (1, 2))

    assert not np.array_equal(compare(one, "a", "b").log_speedups, compare(other, "a", "b").log_speedups)
    forth, back = goal_speedup([one, other], "a", "b"), goal_speedup([other, one], "a", "b")
    assert (forth.low, forth.high) == pytest.approx((back.low, back.high))


def test_the_goal_is_the_geometric_mean_by_the_cases_weights(timing: Maker, case: Cases) -> None:
    heavy = timing({"a": [2.0] * 3, "b": [1.0] * 3}, case=case(1, weight=3.0))
    light = timing({"a": [1.0] * 3, "b": [1.0] * 3}, case=case(2, weight=1.0))

    assert goal_speedup([heavy, light], "a", "b").value == pytest.approx(2.0**0.75)


def test_more_cases_make_the_goal_narrower_than_one_case(noisy: Maker, case: Cases) -> None:
    timings = [noisy({"a": 0.1, "b": 0.1}, case=case(rows), seed=rows) for rows in range(1, 17)]
    one, goal = compare(timings[0], "a", "b").speedup, goal_speedup(timings, "a", "b")

    assert math.log(goal.high / goal.low) < 0.5 * math.log(one.high / one.low)


def test_a_geometric_mean_is_the_root_of_the_product_by_its_weights() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([2.0, 1.0], [3.0, 1.0]) == pytest.approx(2.0**0.75)
    with pytest.raises(ValueError, match="of nothing"):
        geometric_mean([])


def test_a_goal_over_no_case_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one case"):
        goal_speedup([], "a", "b")


def test_regression_p_is_small_only_beyond_the_guardrail(noisy: Maker) -> None:
    slower = noisy({"a": 0.1, "b": 0.104})

    assert compare(slower, "a", "b").regression_p(0.02) < 1e-6
    assert compare(slower, "a", "b").regression_p(0.04) > 0.05
    assert compare(slower, "a", "b").regression_p(0.10) == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore:Precision loss occurred")
def test_regression_p_is_that_of_a_t_test_of_trimmed_means(noisy: Maker) -> None:
    """Yuen's test against a second group without any scatter is the test of one group."""
    found = compare(noisy({"a": 0.1, "b": 0.102}), "a", "b")
    limit = np.full(20, -math.log1p(0.02))

    expected = stats.ttest_ind(found.log_ratios, limit, equal_var=False, trim=0.2, alternative="less")

    assert found.regression_p(0.02) == pytest.approx(expected.pvalue, abs=1e-8)


@pytest.mark.parametrize(("slower", "p"), [(1.05, 0.0), (1.01, 1.0)])
def test_ratios_without_scatter_have_regressed_or_have_not(timing: Maker, slower: float, p: float) -> None:
    assert compare(timing({"a": [1.0] * 9, "b": [slower] * 9}), "a", "b").regression_p(0.02) == p


def test_a_single_round_is_no_evidence_of_a_regression(timing: Maker) -> None:
    assert compare(timing({"a": [1.0], "b": [2.0]}), "a", "b").regression_p(0.02) == 1.0


def test_holm_gives_the_textbook_figures() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(p_values=probabilities)
def test_holm_keeps_the_order_and_lies_between_none_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)

    by_p = [after for _, after in sorted(zip(p_values, adjusted, strict=True))]
    assert all(left <= right for left, right in pairwise(by_p))
    assert all(p <= after <= min(1.0, len(p_values) * p) for p, after in zip(p_values, adjusted, strict=True))


def test_the_noise_floor_is_the_far_end_of_the_copys_interval(noisy: Maker, case: Cases) -> None:
    timings = [noisy({"original": 0.1, "copy": 0.1}, case=case(rows), seed=rows) for rows in range(4)]
    goal = goal_speedup(timings, "original", "copy")

    floor = noise_floor(timings, "original", "copy")

    assert 1 + floor == pytest.approx(max(goal.high, 1 / goal.low))
    assert 0 < floor < 0.005


def test_a_copy_that_is_always_slower_raises_the_noise_floor_by_its_bias(timing: Maker) -> None:
    assert noise_floor([timing({"o": [1.0] * 9, "c": [1.03] * 9})], "o", "c") == pytest.approx(0.03)
