"""Owns whether a variant takes the place of the best so far. Pure."""

from __future__ import annotations

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.verdict.thresholds import Thresholds


def beats_best(verdict: Verdict | None, *, is_first: bool, thresholds: Thresholds) -> bool:
    """Accepted against the original, and clear of the best so far: in speed by its interval and twice the noise floor,
    in peak memory by the minimum effect. `is_first`: the best so far is the original."""
    if verdict is None or verdict.outcome is not Outcome.ACCEPTED:
        return False
    if is_first:
        return True
    gain, floor = verdict.over_best, verdict.noise_floor or 0.0
    if gain is None:
        return False
    if verdict.objective is Objective.MEMORY:
        return gain.value >= 1 + thresholds.minimum_effect
    faster = gain.low > 1 and gain.value >= 1 + 2 * floor
    if verdict.objective is Objective.SPEED:
        return faster
    return _better_in_either(faster, gain, verdict.memory_over_best, thresholds)


def _better_in_either(faster: bool, speed: Interval, memory: Interval | None, thresholds: Thresholds) -> bool:
    if memory is None:
        return False
    lighter = memory.value >= 1 + thresholds.minimum_effect
    no_slower = speed.high >= 1 / (1 + thresholds.case_regression)
    return (faster and memory.value >= 1 / (1 + thresholds.memory)) or (lighter and no_slower)
