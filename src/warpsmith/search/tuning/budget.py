"""Owns how much device time a search may plan, and what it has planned so far.

Planned, never read from a clock: a run that is resumed or replayed must ask the same questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
