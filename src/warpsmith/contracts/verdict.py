"""Verdicts: what the samples say of a variant."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from warpsmith.contracts.aim import Objective, TargetMetric
from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Mode, Role


class Outcome(str, Enum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    MIXED = "mixed"
    INCONCLUSIVE = "inconclusive"


class Interval(Contract):
    """An estimate and its 95% percentile-bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


class CaseSpeedup(Contract):
    """speedup = baseline_ms / variant_ms at one case and mode. Above 1 is faster."""

    case: str
    role: Role
    mode: Mode
    baseline_ms: float
    variant_ms: float
    speedup: Interval
    #: Holm-adjusted p of "slower by no more than the guardrail"; small means regressed
    regression_p: float
    regressed: bool


class GuardrailResult(Contract):
    """One metric outside the goal: what it was, what it is, what is allowed."""

    metric: str
    baseline: float
    variant: float
    unit: str
    limit: str
    ok: bool


class TargetResult(Contract):
    """Whether a target metric is met: by which figure, in ms, bytes or as a ratio, and at which case it is worst.

    `measured` is None exactly where `reason` says why; the target is not met then.
    """

    target: TargetMetric
    met: bool
    measured: float | None = None
    case: str | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _a_figure_or_a_reason(self) -> TargetResult:
        if (self.measured is None) == (self.reason is None) or (self.met and self.measured is None):
            raise ValueError(f"target {self.target}: measured {self.measured}, met {self.met}, reason {self.reason!r}")
        return self

    def __str__(self) -> str:
        outcome = "met" if self.met else "not met"
        if self.measured is None:
            return f"{outcome}: {self.target} ({self.reason})"
        where = f" at {self.case}" if self.case else ""
        return f"{outcome}: {self.target}; measured {self.target.told(self.measured)}{where}"


class Verdict(Contract):
    """The decision on one variant, against the original, with its reasons in plain words.

    The goal metric is the weighted geometric mean, over the tuning cases that count, of the speed-ups in the goal mode;
    where the objective is memory, of original_bytes / variant_bytes of peak memory. What only another objective or a
    target metric asks for is in the file only where it was asked for.
    """

    outcome: Outcome
    reasons: tuple[str, ...]
    goal_mode: Mode
    #: the goal metric; None where not measured
    goal: Interval | None = None
    #: the same against the best variant so far
    over_best: Interval | None = None
    noise_floor: float | None = None
    cases: tuple[CaseSpeedup, ...] = ()
    guardrails: tuple[GuardrailResult, ...] = ()
    objective: Objective = Objective.SPEED
    #: the speed-up beside the goal metric, where the objective is memory
    speed: Interval | None = None
    #: the ratio of peak memory beside the goal metric, where the objective is balanced; exact
    memory: Interval | None = None
    memory_over_best: Interval | None = None
    target: TargetResult | None = None

    @property
    def speedup(self) -> Interval | None:
        """The speed-up over the original, whatever the objective."""
        return self.speed if self.objective is Objective.MEMORY else self.goal

    @property
    def goal_in_short(self) -> str:
        """The goal metric, and its name where it is not the speed-up."""
        return f"{self.goal} ×" + (" in peak memory" if self.objective is Objective.MEMORY else "")

    @property
    def goal_told(self) -> str | None:
        """The goal metric in words: "1.194 [1.193, 1.195] × the original"."""
        if self.goal is None:
            return None
        if self.objective is Objective.MEMORY:
            return f"the original's peak memory is {self.goal.value:.3f} × its own"
        beside = "" if self.memory is None else f", peak memory {self.memory.value:.3f} × less"
        return f"{self.goal} × the original{beside}"

    @model_serializer(mode="wrap")
    def _without_what_was_not_asked_for(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialize(self)
        for name in ("objective", "speed", "memory", "memory_over_best", "target"):
            if getattr(self, name) == type(self).model_fields[name].default:
                content.pop(name, None)
        return content
