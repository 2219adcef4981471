"""Owns how much device time a search may plan, and what it has planned so far.

Planned, never read from a clock: a run that is resumed or replayed must ask the same questions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from warpsmith.contracts.measurement import TimingPlan


def planned_ms(plan: TimingPlan, contenders: int) -> float:
    """The length of all blocks of a timing, in ms. Captures, flushes of L2 and warming up are not in it."""
    return plan.rounds * plan.block_ms * contenders


@dataclass(frozen=True)
class Budget:
    """The device time that a search may plan, None for as much as it needs.

    `is_over` is asked between timings of a live run: True ends the search as an empty budget does. What it answers must
    not decide anything else.
    """

    device_time_ms: float | None = None
    is_over: Callable[[], bool] | None = None


@dataclass
class Spending:
    """What a search has planned of its budget. `kept_back_ms` is not to be had yet."""

    budget: Budget
    planned_ms: float = 0.0
    kept_back_ms: float = 0.0
    _short: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)

    @property
    def left_ms(self) -> float:
        """What may still be planned: infinite without a limit."""
        limit_ms = self.budget.device_time_ms
        return math.inf if limit_ms is None else max(0.0, limit_ms - self.kept_back_ms - self.planned_ms)

    @property
    def stopped(self) -> str | None:
        """Why the search ended early. None where it did not."""
        if self._over:
            return "the time for the search was over"
        if self._short:
            return f"the budget of {self.budget.device_time_ms:g} ms of device time was spent"
        return None

    def spend(self, plan: TimingPlan, contenders: int) -> None:
        self.planned_ms += planned_ms(plan, contenders)

    def fall_short(self) -> None:
        """Notes that something was left out for want of budget."""
        self._short = True

    def is_over(self) -> bool:
        """Whether a live run ends now. Once it is over it stays so."""
        self._over = self._over or (self.budget.is_over is not None and self.budget.is_over())
        return self._over
