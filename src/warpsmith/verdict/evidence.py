"""Owns what a verdict rests on: all that was observed of one candidate, and what counts for the goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpsmith.contracts.aim import Objective, TargetMetric
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.measurement import ORIGINAL, Compilation, Correctness, HostTime, Memory, Timing


@dataclass(frozen=True)
class Evidence:
    """All that was observed of a candidate. `timings` hold every case and mode measured so far.

    `best` is the best variant before it, None while that is the original. `longer` says that the goal was
    already measured a second time with more rounds. `noise_floor` is a fraction. `compilations` are the original's
    and the candidate's. `weights` has the weight of each case that counts for the goal; None: all tuning cases count,
    by their own.
    """

    candidate: str
    best: str | None
    goal_mode: Mode
    correctness: Correctness
    timings: tuple[Timing, ...] = ()
    memories: tuple[Memory, ...] = ()
    host_times: tuple[HostTime, ...] = ()
    compilations: tuple[Compilation, Compilation] | None = None
    noise_floor: float | None = None
    longer: bool = False
    original: str = ORIGINAL
    seed: int = 0
    objective: Objective = Objective.SPEED
    weights: Mapping[str, float] | None = None
    target: TargetMetric | None = None

    @property
    def goal_weights(self) -> Mapping[str, float]:
        """Case name -> weight, of what was timed and counts."""
        if self.weights is not None:
            return self.weights
        return {t.case.name: t.case.weight for t in self.timings if t.case.role is Role.TUNING}

    @property
    def goal_timings(self) -> tuple[Timing, ...]:
        """What the goal metric is made of: the cases that count, in the goal mode."""
        return tuple(t for t in self.timings if t.mode is self.goal_mode and t.case.name in self.goal_weights)
