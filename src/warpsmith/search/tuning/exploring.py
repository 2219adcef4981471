"""Owns which settings are tried at a case: all of them where they are few, else a pattern search from several starts.

The search moves one knob one step at a time, two at once where that helps no more, and remembers where it was. It ends
where every start has come to a local optimum, and the neighbours of all that is nearly as good are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from warpsmith.contracts.base import Settings
from warpsmith.search.tuning.catalogue import Searched, compile_into
from warpsmith.search.tuning.constraints import why_not
from warpsmith.search.tuning.halving import Standings
from warpsmith.search.tuning.rungs import CONTENDERS_AT_ONCE, RUNGS
from warpsmith.search.tuning.space import Point, Space, key_of

#: Up to so many settings are all tried.
EXHAUSTIVE = 300
#: Chosen: so many combinations are looked through for those that are worth compiling.
ENUMERABLE = 20_000
#: Chosen: a pattern search times no more settings than an exhaustive one.
MOST_TIMED = EXHAUSTIVE
#: Chosen: points spread over the space, and how many of them are climbed from; half of both beside winners.
SPREAD, CLIMBED = 16, 4
#: Chosen, below what a first reading resolves: less is no step forward.
LEAST_GAIN = 0.003
#: Chosen: the neighbours of so many of the best are known in the end, if they are within a first reading's noise.
POLISHED, NEARLY_AS_GOOD = 4, 1.03


@dataclass
class Exploration:
    """The search at one case. `note` says what cut it short, but for the budget."""

    searched: Searched
    space: Space
    standings: Standings
    note: str | None = field(default=None, init=False)
    _until_ms: float = field(default=float("inf"), init=False)

    def begin(self, limit_ms: float) -> None:
        """From now on first readings may take so much device time."""
        self._until_ms = self.standings.stopwatch.spending.planned_ms + limit_ms

    def worthwhile(self, points: Iterable[Point]) -> list[Settings]:
        """Settings that are worth compiling; the others are noted with the reason."""
        catalogue, device = self.standings.catalogue, self.searched.bench.device
        found: list[Settings] = []
        for point in points:
            settings = self.space.settings(point)
            reason = why_not(self.space, settings, catalogue.case, device) if point != self.space.origin else None
            if reason is None:
                found.append(settings)
            else:
                catalogue.refused[key_of(settings)] = reason
        return found

    def all_of_few(self) -> list[Settings] | None:
        """All settings that are worth compiling, those that change least first; None where they are many."""
        found: list[Settings] = []
        if self.space.size <= ENUMERABLE:
            for point in self.space.by_changes():
                found += self.worthwhile([point])
                if len(found) > EXHAUSTIVE:
                    break
            else:
                return found
        self.standings.catalogue.refused.clear()
        return None

    def fits(self, count: int) -> bool:
        """Whether so many settings can be read within the limit."""
        return count <= self.standings.stopwatch.affordable(RUNGS[0].plan, self._left_ms)

    def try_all(self, choices: Sequence[Settings]) -> None:
        """Reads every distinct choice. Raises WorkerError where the original cannot be timed."""
        self._compile(choices)
        waiting = self.standings.unread([key_of(settings) for settings in choices])
        for start in range(0, len(waiting), CONTENDERS_AT_ONCE):
            if self.standings.stopwatch.spending.is_over():
                return
            told = f"{self._told}: timing distinct settings, {self.standings.told()}"
            self.searched.bench.report(told, start, len(waiting))
            self.standings.read(waiting[start : start + CONTENDERS_AT_ONCE], 0)

    def climb(self, winners: Sequence[Settings]) -> None:
        """A pattern search from the original, winners of other cases, and points spread over the space."""
        sown = [self.space.origin, *(self.space.nearest(settings) for settings in winners)]
        fewer = 2 if winners else 1
        spread = self._spread(SPREAD // fewer)
        self._visit([*sown, *spread])
        seeds = sorted(spread, key=self._ratio)[: CLIMBED // fewer]
        tops = self._ascend(list(dict.fromkeys([*sown, *seeds])))
        self._polish(tops)

    @property
    def _told(self) -> str:
        return f"{self.standings.catalogue.case.name} {self.searched.mode.value}"

    @property
    def _left_ms(self) -> float:
        return self._until_ms - self.standings.stopwatch.spending.planned_ms

    def _ratio(self, point: Point) -> float:
        return self.standings.ratio(key_of(self.space.settings(point)))

    def _spread(self, count: int) -> list[Point]:
        found: list[Point] = []
        for point, _ in zip(self.space.spread(), range(20 * count), strict=False):
            if len(found) == count:
                break
            if point not in found and self.worthwhile([point]):
                found.append(point)
        return found

    def _visit(self, points: Sequence[Point]) -> bool:
        """Compiles and reads points that are new. False where the search has to end there."""
        standings = self.standings
        if not self._room() or standings.stopwatch.spending.is_over():
            return False
        choices = self.worthwhile(points)
        self._compile(choices)
        waiting, room = standings.unread([key_of(settings) for settings in choices]), self._room()
        told = f"{self._told}: searching {self.space.size} settings, {standings.told()}"
        self.searched.bench.report(told, len(standings.scores), MOST_TIMED)
        if waiting or not standings.scores:
            standings.read(waiting[:room], 0)
        return len(waiting) <= room

    def _room(self) -> int:
        """How many settings may still be read. Where there are none it is noted why."""
        tried = len(self.standings.scores) + len(self.standings.failures)
        affordable = self.standings.stopwatch.affordable(RUNGS[0].plan, self._left_ms)
        if tried >= MOST_TIMED:
            self.note = f"{self._told}: the search ended at {MOST_TIMED} of {self.space.size} settings"
        elif affordable < 1:
            self.standings.stopwatch.spending.fall_short()
        return max(0, min(MOST_TIMED - tried, affordable))

    def _compile(self, choices: Sequence[Settings]) -> None:
        compile_into(self.searched, [(self.standings.catalogue, choices)], f"{self._told}: compiling settings")

    def _ascend(self, starts: list[Point]) -> list[Point]:
        """The local optimum above each start; all take their steps together, so that much is compiled at once."""
        tops: list[Point] = []
        here = starts
        while here:
            moved = self._step(here, self.space.neighbours)
            stuck = [point for point in here if point not in moved]
            moved |= self._step(stuck, self.space.diagonals)
            tops += [point for point in stuck if point not in moved]
            here = [point for point in dict.fromkeys(moved.values()) if point not in tops]
        return tops

    def _step(self, here: Sequence[Point], around: Callable[[Point], list[Point]]) -> dict[Point, Point]:
        """Where each point moves to: the best of those around it, if that is better."""
        near = {point: around(point) for point in here}
        if not self._visit([each for points in near.values() for each in points]):
            return {}
        best = {point: min(points, key=self._ratio, default=point) for point, points in near.items()}
        return {p: b for p, b in best.items() if self._ratio(b) < self._ratio(p) * (1 - LEAST_GAIN)}

    def _polish(self, expanded: Iterable[Point]) -> None:
        """Reads around everything that is nearly as good as the best, where noise may have misled a step."""
        done = set(expanded)
        while True:
            best = self.standings.best_ratio
            ranked = [self.space.nearest(dict(key)) for key in self.standings.ranked()[:POLISHED]]
            todo = [p for p in ranked if self._ratio(p) <= best * NEARLY_AS_GOOD and p not in done]
            if not todo or not self._visit([each for point in todo for each in self.space.neighbours(point)]):
                return
            done |= set(todo)
