"""Owns when a gain is enough, by what a run is after: speed, peak memory, or either of them. Pure.

Correctness, guardrails and regressed cases have been looked at before; here only the goal metric decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.verdict import Interval, Outcome
from warpsmith.verdict.thresholds import Thresholds

Decision = tuple[Outcome, tuple[str, ...]]


@dataclass(frozen=True)
class Gains:
    """Speed-up and ratio of peak memory over the cases that count. `memory` None: not weighed, `why` says it.

    `then` tells what happens to what cannot be told.
    """

    speed: Interval
    memory: Interval | None
    noise_floor: float | None
    then: str
    why_no_memory: str = ""

    def bar(self, thresholds: Thresholds) -> float:
        return thresholds.bar(self.noise_floor)


def enough(objective: Objective, gains: Gains, thresholds: Thresholds) -> Decision:
    """Accepted, rejected or inconclusive, with the metric by its name."""
    if objective is Objective.SPEED:
        return _of_speed(gains, thresholds)
    if gains.memory is None:
        return Outcome.INCONCLUSIVE, (f"peak memory is not known: {gains.why_no_memory}",)
    if gains.speed.high < 1 / (1 + thresholds.case_regression):
        told = f"speed: {told_speed(gains.speed)} the original over the tuning cases"
        return Outcome.REJECTED, (f"{told}, more than {thresholds.case_regression:.0%} slower",)
    decide = _of_memory if objective is Objective.MEMORY else _of_either
    return decide(gains, gains.memory, thresholds)


def _of_speed(gains: Gains, thresholds: Thresholds) -> Decision:
    goal, bar = gains.speed, gains.bar(thresholds)
    told_bar = _told_bar(bar, gains.noise_floor, thresholds)
    if goal.low > 1 and goal.value >= bar:
        return Outcome.ACCEPTED, (f"{told_speed(goal)} the original over the tuning cases, at or above {told_bar}",)
    if goal.high >= bar:
        return Outcome.INCONCLUSIVE, (
            f"the interval {told_speed(goal)} does not tell whether {told_bar} is reached: {gains.then}",
        )
    return Outcome.REJECTED, (f"no gain: {told_speed(goal)} the original over the tuning cases, below {told_bar}",)


def _of_memory(gains: Gains, memory: Interval, thresholds: Thresholds) -> Decision:
    bar = f"the bar of {1 + thresholds.minimum_effect:.3f}×"
    beside = f"speed beside it: {told_speed(gains.speed)} the original"
    told = f"the original's peak memory is {memory.value:.3f}× the variant's over the tuning cases"
    if memory.value >= 1 + thresholds.minimum_effect:
        return Outcome.ACCEPTED, (f"peak memory: {told}, at or above {bar}", beside)
    return Outcome.REJECTED, (f"no gain in peak memory: {told}, below {bar}", beside)


def _of_either(gains: Gains, memory: Interval, thresholds: Thresholds) -> Decision:
    """A gain in one of them, the other not worse beyond its guardrail."""
    if memory.value < 1 / (1 + thresholds.memory):
        told = f"the original's is {memory.value:.3f}× the variant's over the tuning cases"
        return Outcome.REJECTED, (f"peak memory: {told}, more than {thresholds.memory:.0%} more",)
    by_speed, by_memory = _of_speed(gains, thresholds), _of_memory(gains, memory, thresholds)
    reasons = (f"speed: {by_speed[1][0]}", by_memory[1][0])
    outcomes = by_speed[0], by_memory[0]
    for outcome in (Outcome.ACCEPTED, Outcome.INCONCLUSIVE):
        if outcome in outcomes:
            return outcome, reasons
    return Outcome.REJECTED, reasons


def told_speed(speedup: Interval) -> str:
    return f"{speedup.value:.3f}× [{speedup.low:.3f}, {speedup.high:.3f}]"


def _told_bar(bar: float, noise_floor: float | None, thresholds: Thresholds) -> str:
    if noise_floor is not None and 2 * noise_floor > thresholds.minimum_effect:
        return f"the bar of {bar:.3f}× (twice the noise floor of {noise_floor:.2%})"
    return f"the bar of {bar:.3f}× (minimum effect {thresholds.minimum_effect:.1%})"
