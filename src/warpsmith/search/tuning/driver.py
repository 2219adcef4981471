"""Owns the course of a search over one pass, from knobs to finalists at every case.

Cases in turn, the heaviest first, its winners among the starts of the next; then the best of all cases at every case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import SourceRef
from warpsmith.measure.worker.protocol import WorkerError
from warpsmith.search.bench import Bench
from warpsmith.search.tuning.budget import Budget, Spending, planned_ms
from warpsmith.search.tuning.catalogue import Catalogue, Searched, compile_into, originals
from warpsmith.search.tuning.constraints import why_not
from warpsmith.search.tuning.exploring import Exploration
from warpsmith.search.tuning.finalists import Final, compare, shared
from warpsmith.search.tuning.halving import Standings, halve
from warpsmith.search.tuning.memory import within_memory
from warpsmith.search.tuning.probing import inert_knobs
from warpsmith.search.tuning.readings import readings_at
from warpsmith.search.tuning.results import Reading, Tuning
from warpsmith.search.tuning.rungs import FATAL, FINAL, Stopwatch
from warpsmith.search.tuning.space import Key, Space
from warpsmith.search.tuning.values import space_at

#: Chosen: of a case's device time so much may go to first readings, the rest to longer ones.
FIRST_READINGS = 0.7
#: Chosen: full comparisons of so many a case are kept back, but no more than half of the budget.
KEPT_BACK = 5
#: Chosen: the best of so many other cases are where a case's search starts.
MOST_WINNERS = 4


def tune(bench: Bench, tunable: SourceRef, knobs: Sequence[Knob], mode: Mode, budget: Budget) -> Tuning:
    """The settings of `knobs` that are fastest at each tuning case of the target.

    A case that cannot be compiled or timed is left out and noted, and settings that need more memory than a guardrail
    allows are not tried. Raises WorkerError where no case can be compiled, weighed or timed.
    """
    searched = Searched(bench, tunable, mode)
    catalogues, failures = originals(searched)
    notes = [f"{name} was left out: {why}" for name, why in failures.items()]
    spaces = {name: space_at(knobs, each.launches, bench.device) for name, each in catalogues.items()}
    inert = inert_knobs(searched, catalogues, spaces, knobs)
    inert_ids = {knob.id for knob in inert}
    spaces = {name: space.without(inert_ids) for name, space in spaces.items()}
    spaces, weighed = within_memory(searched, catalogues, spaces)
    notes += weighed
    with_values = {axis.knob.id for space in spaces.values() for axis in space.axes}
    live = tuple(knob for knob in knobs if knob.id in with_values)
    course = _Course(searched, catalogues, spaces, Spending(budget), notes)
    finals: dict[str, Final] = {}
    if any(space.axes for space in spaces.values()):
        course.explore()
        finals = course.compare()
    elif spaces:
        notes.append("no knob has values that make a difference")
    readings = [r for name in course.standings for r in course.readings(name, finals.get(name))]
    spending = course.spending
    return Tuning(
        mode=mode,
        knobs=live,
        inert_knobs=inert,
        cases=tuple(finals[case.name].result for case in bench.spec.tuning_cases if case.name in finals),
        readings=tuple(readings),
        device_time_ms=spending.planned_ms,
        stopped=spending.stopped,
        notes=tuple(notes),
    )


@dataclass
class _Course:
    """A search over cases. `standings` has those that were explored, in that order."""

    searched: Searched
    catalogues: Mapping[str, Catalogue]
    spaces: Mapping[str, Space]
    spending: Spending
    notes: list[str]
    standings: dict[str, Standings] = field(default_factory=dict)

    def explore(self) -> None:
        """First and longer readings at every case. Raises WorkerError where no case can be timed."""
        cases = _heaviest_first(self.searched, [each.case for each in self.catalogues.values()])
        explorations = {case.name: self._exploration(case) for case in cases}
        few = {case.name: explorations[case.name].all_of_few() for case in cases}
        told = f"{self.searched.mode.value}: compiling all settings of the cases that have few"
        every = ((self.catalogues[name], choices) for name, choices in few.items() if choices is not None)
        compile_into(self.searched, every, told)
        self.spending.kept_back_ms = min(len(cases) * planned_ms(FINAL, KEPT_BACK), self.spending.left_ms / 2)
        failure: WorkerError | None = None
        for number, case in enumerate(cases):
            if self.spending.is_over():
                self.notes.append(f"{case.name} was left out: there was no time left for it")
                continue
            limit_ms = self.spending.left_ms / (len(cases) - number)
            try:
                self._explore(explorations[case.name], few[case.name], limit_ms)
            except WorkerError as error:
                if error.failure.status in FATAL:
                    raise
                failure = error
                self.notes.append(f"{case.name} was left out: {error.failure.in_a_line}")
        if failure is not None and not self.standings:
            raise failure

    def compare(self) -> dict[str, Final]:
        """The full comparison at every case that was explored, by case name. Raises WorkerError."""
        self.spending.kept_back_ms = 0.0
        weights = {name: each.catalogue.case.weight for name, each in self.standings.items()}
        for_all = shared(self.standings, weights)
        told = f"{self.searched.mode.value}: compiling the best settings of each case for all cases"
        choices = ((each.catalogue, self._worthwhile(name, for_all)) for name, each in self.standings.items())
        compile_into(self.searched, choices, told)
        finals: dict[str, Final] = {}
        for number, (name, standings) in enumerate(self.standings.items()):
            told = f"{name} {self.searched.mode.value}: comparing the best, {standings.told()}"
            self.searched.bench.report(told, number, len(self.standings))
            try:
                final = compare(standings, for_all, self.spending.left_ms / (len(self.standings) - number))
            except WorkerError as error:
                if error.failure.status in FATAL or len(self.standings) == 1:
                    raise
                self.notes.append(f"{name} was left out: {error.failure.in_a_line}")
                continue
            if final is None:
                self.notes.append(f"{name} was left out: the budget allows no comparison")
            else:
                finals[name] = final
        return finals

    def readings(self, name: str, final: Final | None) -> list[Reading]:
        return readings_at(self.standings[name], self.spaces[name], self.searched.mode, final)

    def _worthwhile(self, name: str, keys: Sequence[Key]) -> list[Settings]:
        """Settings of other cases that may run at this one."""
        case, device = self.catalogues[name].case, self.searched.bench.device
        return [dict(key) for key in keys if why_not(self.spaces[name], dict(key), case, device) is None]

    def _exploration(self, case: Case) -> Exploration:
        stopwatch = Stopwatch(self.searched, case, self.spending)
        standings = Standings(stopwatch, self.catalogues[case.name])
        return Exploration(self.searched, self.spaces[case.name], standings)

    def _explore(self, exploration: Exploration, few: Sequence[Settings] | None, limit_ms: float) -> None:
        before_ms, standings = self.spending.planned_ms, exploration.standings
        exploration.begin(limit_ms * FIRST_READINGS)
        if few is not None and exploration.fits(len(standings.catalogue.distinct)):
            exploration.try_all(few)
        else:
            exploration.climb(self._winners(standings.catalogue.case))
        self.standings[standings.catalogue.case.name] = standings
        if exploration.note is not None:
            self.notes.append(exploration.note)
        halve(standings, limit_ms - (self.spending.planned_ms - before_ms))
        self.searched.bench.report(f"{standings.catalogue.case.name} {self.searched.mode.value}: {standings.told()}")

    def _winners(self, case: Case) -> list[Settings]:
        """The best settings of the cases explored so far, those of the nearest first."""
        near = sorted(self.standings.values(), key=lambda each: _distance(each.catalogue.case, case))
        best = [each.ranked()[:1] for each in near]
        found = dict.fromkeys(key for keys in best for key in keys)
        return [dict(key) for key in found][:MOST_WINNERS]


def _heaviest_first(searched: Searched, cases: Sequence[Case]) -> list[Case]:
    def weight(case: Case) -> tuple[int, int]:
        cost = searched.bench.spec.costs[case.name][searched.mode]
        return cost.bytes_moved, cost.flops

    return sorted(cases, key=weight, reverse=True)


def _distance(one: Case, other: Case) -> tuple[bool, float]:
    """Of the same dtype first, then by how many times longer the axes are."""
    shared_axes = one.axes.keys() & other.axes.keys()
    ratios = (abs(math.log(max(1, one.axes[a]) / max(1, other.axes[a]))) for a in sorted(shared_axes))
    return one.dtype is not other.dtype, math.fsum(ratios)
