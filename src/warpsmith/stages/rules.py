"""What a judgement goes by, and whom it is on: the same rules for every candidate of a run and for its confirmation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpsmith.contracts.aim import Objective, TargetMetric
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Correctness, SourceRef
from warpsmith.contracts.request import Request
from warpsmith.contracts.target import TargetSpec
from warpsmith.verdict.evidence import Evidence
from warpsmith.verdict.thresholds import Thresholds


@dataclass(frozen=True)
class Rules:
    """What a judgement goes by, the same for every candidate of a run.

    `weights`: case name -> weight, of the cases that count for the goal; None is the tuning cases by their own.
    """

    goal: Mode
    thresholds: Thresholds
    noise_floor: float | None
    objective: Objective = Objective.SPEED
    weights: Mapping[str, float] | None = None
    target: TargetMetric | None = None

    @classmethod
    def of(cls, request: Request, thresholds: Thresholds, spec: TargetSpec, noise_floor: float | None) -> Rules:
        """Those of a run."""
        aim = request.aim
        weights = aim.goal_weights(spec.cases) if aim.regime or aim.weights else None
        return cls(request.goal, thresholds, noise_floor, aim.objective, weights, aim.target)

    def counted(self, spec: TargetSpec) -> tuple[Case, ...]:
        """The tuning cases that count for the goal."""
        return tuple(case for case in spec.tuning_cases if self.weights is None or case.name in self.weights)

    def evidence(self, standing: Standing, correctness: Correctness) -> Evidence:
        """Of a candidate that has come through the gate, or has not; nothing is measured yet."""
        return Evidence(
            standing.name,
            standing.best_name,
            self.goal,
            correctness,
            noise_floor=self.noise_floor,
            objective=self.objective,
            weights=self.weights,
            target=self.target,
        )


@dataclass(frozen=True)
class Standing:
    """A candidate, and the best one so far (None: only the original)."""

    name: str
    source: SourceRef
    text: str
    best_name: str | None = None
    best_source: SourceRef | None = None
