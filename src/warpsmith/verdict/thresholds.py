"""Owns the limits that a verdict goes by, with their defaults. Knows nothing of where a user changes them."""

from __future__ import annotations

from pydantic import Field

from warpsmith.contracts.base import Contract


class Thresholds(Contract):
    """Shares are fractions (0.01 is 1%). All defaults are chosen; warpsmith.yaml changes them.

    Attributes:
        minimum_effect: least gain of the goal metric that counts as one.
        case_regression: slow-down of a single case of the goal mode that is still no regression.
        pass_tradeoff: slow-down of a single case of a mode outside the goal (within goal `full`: of one pass).
        memory: growth of a mode's largest peak over the cases.
        host_time: growth of host time a call; it counts only if it is above `host_time_us` as well.
        compile_time: growth of cold compile time; it counts only if it is above `compile_time_s` as well.
        specializations: growth of the number of kernels that all cases compile; 1.0 is twice as many.
        significance: level of the Holm-adjusted test for regressions.
    """

    minimum_effect: float = Field(default=0.01, gt=0)
    case_regression: float = Field(default=0.02, ge=0)
    pass_tradeoff: float = Field(default=0.10, ge=0)
    memory: float = Field(default=0.05, ge=0)
    host_time: float = Field(default=0.10, ge=0)
    host_time_us: float = Field(default=3.0, ge=0)
    compile_time: float = Field(default=0.50, ge=0)
    compile_time_s: float = Field(default=0.2, ge=0)
    specializations: float = Field(default=1.0, ge=0)
    significance: float = Field(default=0.05, gt=0, lt=1)

    def bar(self, noise_floor: float | None) -> float:
        """The speed-up a winner must reach: the minimum effect or twice the noise floor, whichever is more."""
        return 1 + max(self.minimum_effect, 2 * (noise_floor or 0.0))
