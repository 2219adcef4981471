"""Owns the standings at one case: the latest reading of every choice, and who is measured longer.

Successive halving: short runs of all, longer ones of those close to the best, until few are left. A reading that is
suddenly much better than all others is repeated alone before it counts (pytorch/helion#2377).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warpsmith.search.tuning.catalogue import Catalogue
from warpsmith.search.tuning.rungs import NOT_TIMED, REPEATED, RUNGS, Stopwatch
from warpsmith.search.tuning.space import ORIGINAL_KEY, Key, label

#: Chosen: a reading that is so many times as fast as the second is not believed at once.
SUSPICIOUS = 1.15
#: Chosen: a repeated reading that is so much slower than the first is told.
DISAGREES = 1.05
#: So few go on to the full comparison without rungs between.
FEW = 4


@dataclass(frozen=True)
class Score:
    """`ratio` is the share of the original's time; `note` tells of a first reading that was not believed."""

    ratio: float
    rung: int
    note: str = ""


@dataclass
class Standings:
    """`original_ms` is the original's time in the first comparison; None until there was one."""

    stopwatch: Stopwatch
    catalogue: Catalogue
    scores: dict[Key, Score] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)
    original_ms: float | None = None
    _repeated: set[Key] = field(default_factory=set, init=False)

    def ratio(self, key: Key) -> float:
        """Share of the original's time, by what stands for these settings; infinite where that is not known."""
        representative = self.catalogue.representative(key)
        score = self.scores.get(representative) if representative is not None else None
        return float("inf") if score is None else score.ratio

    def ranked(self, least_rung: int = 0) -> list[Key]:
        """What was read at that rung or a later one, fastest first, without the original."""
        read = (key for key, score in self.scores.items() if key and score.rung >= least_rung)
        return sorted(read, key=lambda key: (self.scores[key].ratio, key))

    @property
    def best_ratio(self) -> float:
        return min((score.ratio for score in self.scores.values()), default=1.0)

    def told(self) -> str:
        """Such as "best num_warps=8, 1.26× the original"."""
        best = min(self.scores, key=lambda key: (self.scores[key].ratio, key), default=ORIGINAL_KEY)
        if not best:
            return "nothing faster than the original yet"
        return f"best {label(dict(best))}, {1 / self.scores[best].ratio:.2f}× the original"

    def unread(self, keys: Sequence[Key]) -> list[Key]:
        """What stands for these settings and was not tried yet, each once."""
        found = (self.catalogue.representative(key) for key in keys)
        waiting = (key for key in found if key and key not in self.scores and key not in self.failures)
        return list(dict.fromkeys(waiting))

    def read(self, keys: Sequence[Key], rung: int) -> None:
        """Measures representatives by the rung's plan. Raises WorkerError where the original cannot be timed."""
        times = self.stopwatch.read(keys, RUNGS[rung].plan)
        if times.original_ms is None:
            return
        if self.original_ms is None:
            self.original_ms = times.original_ms
        self.scores[ORIGINAL_KEY] = Score(1.0, rung)
        for key, ratio in times.ratios.items():
            note = self.scores[key].note if key in self.scores else ""
            self.scores[key] = Score(ratio, rung, note)
        self._take_failures(times.failures)
        self._repeat_suspicious()

    def _take_failures(self, failures: dict[Key, str]) -> None:
        for key, why in failures.items():
            if why != NOT_TIMED:
                self.failures[key] = why
                self.scores.pop(key, None)

    def _repeat_suspicious(self) -> None:
        """Repeats the best alone for as long as one that was not repeated stands out."""
        while (suspect := self._suspect()) is not None:
            self._repeated.add(suspect)
            before = self.scores[suspect]
            times = self.stopwatch.read([suspect], REPEATED)
            self._take_failures(times.failures)
            if (ratio := times.ratios.get(suspect)) is not None:
                note = ""
                if ratio > before.ratio * DISAGREES:
                    note = f"read as {1 / before.ratio:.2f}× the original once, as {1 / ratio:.2f}× alone"
                self.scores[suspect] = Score(ratio, before.rung, note)

    def _suspect(self) -> Key | None:
        in_order = sorted(self.scores, key=lambda key: (self.scores[key].ratio, key))
        if len(in_order) < 2 or not in_order[0] or in_order[0] in self._repeated:
            return None
        first, second = (self.scores[key].ratio for key in in_order[:2])
        return in_order[0] if second > SUSPICIOUS * first else None


def halve(standings: Standings, limit_ms: float) -> None:
    """Measures those close to the best longer, rung by rung, as far as the limit allows. Raises WorkerError."""
    spending = standings.stopwatch.spending
    until_ms = spending.planned_ms + limit_ms
    total = len(standings.ranked())
    for number, rung in enumerate(RUNGS[1:], 1):
        close = [
            key for key in standings.ranked(number - 1) if standings.ratio(key) <= rung.within * standings.best_ratio
        ]
        close = close[: max(rung.at_least, int(total * rung.share))]
        if len(close) <= FEW or spending.is_over():
            return
        affordable = standings.stopwatch.affordable(rung.plan, until_ms - spending.planned_ms)
        if affordable < len(close):
            spending.fall_short()
        if affordable < 1:
            return
        standings.read(close[:affordable], number)
