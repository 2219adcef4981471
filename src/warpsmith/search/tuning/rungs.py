"""Owns how long each rung measures and who goes on to the next, and times a list of settings beside the original.

A comparison that takes its worker down is asked again in halves, until it is known whose fault that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from warpsmith.contracts.case import Case
from warpsmith.contracts.measurement import ORIGINAL, Contender, Timing, TimingPlan
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure
from warpsmith.search.tuning.budget import Spending, planned_ms
from warpsmith.search.tuning.catalogue import Searched
from warpsmith.search.tuning.space import Key, label
from warpsmith.verdict.statistics import block_medians


@dataclass(frozen=True)
class Rung:
    """Who is within `within` of the best so far is measured by `plan`, at most a `share` of what there is, but
    `at_least` so many."""

    plan: TimingPlan
    within: float
    share: float
    at_least: int


def _plan(rounds: int, block_ms: float) -> TimingPlan:
    """Of fixed length: no pilot, so that what it takes is known before."""
    return TimingPlan(rounds=rounds, most_rounds=rounds, block_ms=block_ms, rounds_a_placement=min(rounds, 3))


#: Chosen. On an H200, twenty blocks of 2 ms give ±0.15% (shared with the usual plan); so about ±1%, ±0.5% and ±0.3%.
RUNGS = (
    Rung(_plan(2, 0.75), within=float("inf"), share=1.0, at_least=0),
    Rung(_plan(3, 1.0), within=1.5, share=1 / 4, at_least=12),
    Rung(_plan(6, 2.0), within=1.1, share=1 / 12, at_least=8),
)
#: The full comparison: about ±0.2%.
FINAL = _plan(12, 2.0)
FINAL_RUNG = len(RUNGS)
#: What a reading that is suddenly much better is repeated by.
REPEATED = _plan(4, 1.5)
#: Likewise one of the full comparison.
FINAL_REPEATED = _plan(13, 2.0)
#: Chosen: a comparison holds a graph of each contender, and a worker that dies takes it down as a whole.
CONTENDERS_AT_ONCE = 64
NOT_TIMED = "not timed: the search ended before"
#: No other settings would fare better.
FATAL = frozenset({"no_device", "bad_target", "tampered"})


@dataclass
class Times:
    """Of one reading: share of the original's time, and time in ms, by settings; and what failed, with the reason."""

    original_ms: float | None = None
    ratios: dict[Key, float] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)


@dataclass
class Stopwatch:
    """Times settings at one case. Every comparison has the original in it."""

    searched: Searched
    case: Case
    spending: Spending
    _original_runs: bool = field(default=False, init=False)

    def affordable(self, plan: TimingPlan, limit_ms: float) -> int:
        """How many settings can be timed by a plan within a limit, and within what is left of the budget."""
        limit_ms = min(limit_ms, self.spending.left_ms)
        if limit_ms == float("inf"):
            return 1 << 30
        full = planned_ms(plan, CONTENDERS_AT_ONCE + 1)
        whole = int(limit_ms // full)
        rest = int((limit_ms - whole * full) // planned_ms(plan, 1))
        return whole * CONTENDERS_AT_ONCE + max(0, rest - 1)

    def read(self, choices: Sequence[Key], plan: TimingPlan) -> Times:
        """Raises WorkerError where the original itself cannot be timed, or no settings ever could."""
        times = Times()
        for start in range(0, len(choices), CONTENDERS_AT_ONCE):
            self._read(choices[start : start + CONTENDERS_AT_ONCE], plan, times)
        return times

    def _read(self, choices: Sequence[Key], plan: TimingPlan, times: Times) -> None:
        if planned_ms(plan, len(choices) + 1) > self.spending.left_ms:
            times.failures.update(dict.fromkeys(choices, NOT_TIMED))
            self.spending.fall_short()
            return
        self.spending.spend(plan, len(choices) + 1)
        try:
            self._take(choices, self._timed(choices, plan), times)
        except WorkerError as error:
            if error.failure.status in FATAL or not choices:
                raise
            if len(choices) == 1:
                if not self._original_runs:
                    self._read([], plan, times)
                times.failures[choices[0]] = error.failure.in_a_line
                return
            middle = len(choices) // 2
            self._read(choices[:middle], plan, times)
            self._read(choices[middle:], plan, times)

    def _timed(self, choices: Sequence[Key], plan: TimingPlan) -> Timing:
        searched = self.searched
        contenders = [Contender(name=ORIGINAL, source=searched.tunable)]
        for key, name in zip(choices, _names(choices), strict=True):
            contenders.append(Contender(name=name, source=searched.tunable, settings=dict(key)))
        return searched.bench.time(contenders, self.case, searched.mode, plan)

    def _take(self, choices: Sequence[Key], timing: Timing, times: Times) -> None:
        if (why := timing.failures.get(ORIGINAL)) is not None:
            raise WorkerError(_original_failed(self.case, why))
        self._original_runs = True
        original = block_medians(timing, ORIGINAL)
        if times.original_ms is None:
            times.original_ms = float(np.median(original))
        for key, name in zip(choices, _names(choices), strict=True):
            if name in timing.failures:
                times.failures[key] = timing.failures[name]
            else:
                times.ratios[key] = float(np.median(block_medians(timing, name) / original))


def _names(choices: Sequence[Key]) -> list[str]:
    """Labels; where two would be equal, the settings in full."""
    short = [label(dict(key)) for key in choices]
    return short if len(set(short)) == len(short) else [str(dict(key)) for key in choices]


def _original_failed(case: Case, why: str) -> WorkerFailure:
    return WorkerFailure(status="runtime_failed", message=f"the original cannot be timed at {case.name}: {why}")
