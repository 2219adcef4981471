"""One comparison made in several processes: put together, and how far the processes agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from synthetic import make_case

from warpsmith.contracts.measurement import Timing, TimingMethod
from warpsmith.verdict.statistics import compare, pooled

Maker = Callable[..., Timing]


def in_processes(noisy: Maker, gains: list[float], *, seed: int = 0) -> Timing:
    """The original takes 0.1 ms, v1 is faster by each process's gain."""
    each = [noisy({"original": 0.1, "v1": 0.1 / gain}, rounds=16, seed=seed + i) for i, gain in enumerate(gains)]
    found = each[0]
    for more in each[1:]:
        found = pooled(found, more)
    return found


def test_rounds_of_a_later_process_come_after_and_are_told_apart(timing: Maker) -> None:
    once = timing({"original": [1.0, 2.0], "v1": [3.0, 4.0]})
    both = pooled(pooled(once, once), once)
    assert {(b.process, b.round) for b in both.blocks} == {(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)}
    assert [b.samples_ms for b in both.blocks] == [b.samples_ms for b in once.blocks] * 3
    assert (both.case, both.mode, both.method, both.failures) == (once.case, once.mode, once.method, {})


def test_what_only_one_process_can_say_is_said_of_both(timing: Maker) -> None:
    once = timing({"original": [1.0], "v1": [1.0]})
    other = once.model_copy(update={"capped": True, "same_addresses": False})
    assert (pooled(once, other).capped, pooled(once, other).same_addresses) == (True, False)


def test_who_fails_in_a_later_process_has_failed(timing: Maker) -> None:
    once = timing({"original": [1.0], "v1": [1.0]})
    later = timing({"original": [1.0]}, failures={"v1": "wrong_result: another"})
    both = pooled(once, later)
    assert both.failures == {"v1": "wrong_result: another"}
    assert {block.contender for block in both.blocks} == {"original"}


def test_methods_are_never_mixed(timing: Maker) -> None:
    once = timing({"original": [1.0], "v1": [1.0]})
    other = once.model_copy(update={"method": TimingMethod.EVENTS})
    with pytest.raises(ValueError, match="was timed by graph, then by events"):
        pooled(once, other)


def test_processes_that_agree_leave_the_interval_nearly_as_it_is(noisy: Maker) -> None:
    scales = [compare(in_processes(noisy, [1.02] * 3, seed=10 * i), "original", "v1").scale for i in range(40)]
    assert min(scales) == 1.0
    assert np.median(scales) < 1.3


def test_processes_that_disagree_widen_the_interval_until_it_tells_of_all_of_them(noisy: Maker) -> None:
    found = compare(in_processes(noisy, [1.388, 1.410, 1.411]), "original", "v1")
    assert found.by_process == pytest.approx((1.388, 1.410, 1.411), abs=0.003)
    assert found.scale > 5
    low, high = found.speedup.low, found.speedup.high
    assert low < 1.395 and high > 1.411
    assert low < found.speedup.value < high


def test_a_regression_that_only_one_process_sees_is_none(noisy: Maker) -> None:
    agreed = compare(in_processes(noisy, [0.97, 0.97, 0.97]), "original", "v1")
    apart = compare(in_processes(noisy, [0.91, 1.0, 1.0]), "original", "v1")
    assert agreed.regression_p(0.02) < 0.001
    assert apart.regression_p(0.02) > 0.05


def test_one_process_has_nothing_to_disagree_with(noisy: Maker) -> None:
    alone = compare(noisy({"original": 0.1, "v1": 0.1}, case=make_case()), "original", "v1")
    assert (alone.scale, len(alone.by_process)) == (1.0, 1)
