"""Owns the figures that a goal is judged by: speed-up and peak memory over the cases that count, and the target's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.aim import Objective, Quantity
from warpsmith.contracts.verdict import CaseSpeedup, Interval, TargetResult
from warpsmith.verdict.evidence import Evidence
from warpsmith.verdict.peaks import memory_ratio
from warpsmith.verdict.statistics import goal_speedup
from warpsmith.verdict.targets import target_result


@dataclass(frozen=True)
class Metrics:
    """Both metrics over the cases that count, against the original and the best so far."""

    speed: Interval
    speed_over_best: Interval | None
    memory: Interval | None = None
    memory_over_best: Interval | None = None

    def by_objective(self, objective: Objective) -> dict[str, Interval | None]:
        """The fields of a verdict."""
        if objective is Objective.MEMORY:
            return {"goal": self.memory, "over_best": self.memory_over_best, "speed": self.speed}
        of_speed = {"goal": self.speed, "over_best": self.speed_over_best}
        if objective is Objective.SPEED:
            return of_speed
        return {**of_speed, "memory": self.memory, "memory_over_best": self.memory_over_best}


def metrics_of(evidence: Evidence, speed: Interval) -> Metrics:
    """With memory where the objective asks for it and it was weighed."""
    if evidence.objective is Objective.SPEED:
        return Metrics(speed, _over_best(evidence))

    def over(baseline: str | None) -> Interval | None:
        if baseline is None:
            return None
        weights, mode = evidence.goal_weights, evidence.goal_mode
        return memory_ratio(evidence.memories, mode, weights, baseline, evidence.candidate)

    return Metrics(speed, _over_best(evidence), over(evidence.original), over(evidence.best))


def target_of(evidence: Evidence, cases: Sequence[CaseSpeedup]) -> TargetResult | None:
    """Whether the target is met by what was measured; None where none was asked for."""
    target = evidence.target
    if target is None:
        return None
    if target.quantity is Quantity.PEAK_MEMORY:
        peaks = {(m.case.name, m.mode): m.peak_bytes.get(evidence.candidate) for m in evidence.memories}
        found = {place: float(peak) for place, peak in peaks.items() if peak is not None}
    elif target.quantity is Quantity.TIME:
        found = {(c.case, c.mode): c.variant_ms for c in cases}
    else:
        found = {(c.case, c.mode): c.speedup.value for c in cases}
    known = list({t.case.name: t.case for t in evidence.timings}.values())
    return target_result(target, known, evidence.goal_weights, evidence.goal_mode, found)


def _over_best(evidence: Evidence) -> Interval | None:
    """The goal metric against the best so far; None where there is none or it did not run beside the candidate."""
    best, timings = evidence.best, evidence.goal_timings
    if best is None or not all(t.shared_rounds(best, evidence.candidate) for t in timings):
        return None
    return goal_speedup(timings, best, evidence.candidate, seed=evidence.seed, weights=evidence.weights)
