"""How many rounds a pilot asks for."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from warpsmith.contracts.measurement import Timing
from warpsmith.verdict.statistics import rounds_needed

Maker = Callable[..., Timing]


def test_the_rounds_that_are_needed_follow_steins_rule(noisy: Maker) -> None:
    pilot = noisy({"a": 0.1, "b": 0.1}, rounds=6)
    times_ms = [np.array([b.samples_ms[0] for b in pilot.blocks if b.contender == name]) for name in ("a", "b")]
    one_round = stats.t(5).ppf(0.975) * np.std(np.log(times_ms[0] / times_ms[1]), ddof=1)

    assert rounds_needed(pilot.blocks, ("a", "b"), 0.0025) == math.ceil((one_round / math.log(1.0025)) ** 2)


@given(noise=st.floats(0.0, 0.02), more=st.floats(1.0, 4.0), half_width=st.floats(0.0005, 0.02))
@settings(max_examples=50)
def test_more_scatter_needs_more_rounds_and_a_wider_interval_fewer(
    noisy: Maker, noise: float, more: float, half_width: float
) -> None:
    calm, wild = (noisy({"a": 0.1, "b": 0.1}, noise=scatter, rounds=6).blocks for scatter in (noise, noise * more))

    needed = rounds_needed(calm, ("a", "b"), half_width)

    assert needed <= rounds_needed(wild, ("a", "b"), half_width)
    assert needed >= rounds_needed(calm, ("a", "b"), half_width * more)


def test_one_round_is_enough_without_scatter_and_the_least_that_a_single_one_can_tell(timing: Maker) -> None:
    drifting = timing({"a": [0.1, 0.2, 0.3], "b": [0.2, 0.4, 0.6]})

    assert rounds_needed(drifting.blocks, ("a", "b"), 0.0001) == 1
    assert rounds_needed(timing({"a": [0.1], "b": [0.3]}).blocks, ("a", "b"), 0.0001) == 1


def test_the_contender_with_most_scatter_settles_the_rounds_and_one_that_did_not_run_does_not(
    noisy: Maker, timing: Maker
) -> None:
    calm = noisy({"a": 0.1, "b": 0.1}, rounds=6, noise=0.001).blocks
    wild = timing({"c": [0.1, 0.12, 0.1, 0.13, 0.1, 0.11]}).blocks

    alone = rounds_needed(calm, ("a", "b"), 0.0025)
    assert rounds_needed((*calm, *wild), ("a", "b", "c"), 0.0025) == rounds_needed((*calm, *wild), ("a", "c"), 0.0025)
    assert rounds_needed((*calm, *wild), ("a", "c"), 0.0025) > alone
    assert rounds_needed(calm, ("a", "b", "failed"), 0.0025) == alone
    assert rounds_needed(calm, ("failed", "b"), 0.0025) == 1
    assert rounds_needed(calm, ("a",), 0.0025) == 1
    assert rounds_needed((), ("a", "b"), 0.0025) == 1
