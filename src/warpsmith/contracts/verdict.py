"""Verdicts: what the samples say of a variant."""

from __future__ import annotations

from enum import Enum

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


class Verdict(Contract):
    """The decision on one variant, against the original, with its reasons in plain words."""

    outcome: Outcome
    reasons: tuple[str, ...]
    goal_mode: Mode
    #: weighted geometric mean of the tuning cases' speed-ups in the goal mode; None where not measured
    goal: Interval | None = None
    #: the same against the best variant so far
    over_best: Interval | None = None
    noise_floor: float | None = None
    cases: tuple[CaseSpeedup, ...] = ()
    guardrails: tuple[GuardrailResult, ...] = ()
