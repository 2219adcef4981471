"""Owns how far noise alone may move the goal metric: measured, by a source against an identical copy of itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpsmith.contracts.measurement import Timing
from warpsmith.verdict.statistics import Weights, goal_speedup


def noise_floor(
    timings: Sequence[Timing], baseline: str, copy: str, *, seed: int = 0, weights: Weights | None = None
) -> float:
    """How far from 1 the goal metric of a source against an identical copy of itself may lie, as a fraction.

    It is the end of the goal's 95% interval that is farther from 1: bias that the procedure has (placement,
    order) and scatter both count. 0.002 means that 0.2% can be nothing at all. Raises ValueError.
    """
    goal = goal_speedup(timings, baseline, copy, seed=seed, weights=weights)
    return round(math.expm1(max(abs(math.log(goal.low)), abs(math.log(goal.high)))), 6)
