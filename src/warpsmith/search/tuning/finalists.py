"""Owns who comes last and how they are compared: at every case its own best, and the best few of all cases.

A table wants one entry for several cases, and can only have settings that were measured long at each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warpsmith.search.tuning.budget import planned_ms
from warpsmith.search.tuning.halving import SUSPICIOUS, Standings
from warpsmith.search.tuning.results import CaseResult
from warpsmith.search.tuning.rungs import FINAL, FINAL_REPEATED, RUNGS
from warpsmith.search.tuning.space import Key

#: Chosen: so many distinct settings are compared with the original in the end.
MOST_FINALISTS = 8
#: Chosen: so many of them are the same at all cases, and so many are a case's own before those.
MOST_SHARED, OWN = 6, 2
#: Chosen: of each case so many are considered for all cases.
CANDIDATES = 3
#: Chosen: a setting more must bring so much at one case at least, as a logarithm.
WORTH = math.log(1.002)


@dataclass(frozen=True)
class Final:
    """A full comparison. `ratios` are shares of the original's time, by settings, and `failures` have none."""

    result: CaseResult
    ratios: dict[Key, float]
    failures: dict[Key, str]
    notes: dict[Key, str] = field(default_factory=dict)


def shared(standings: Mapping[str, Standings], weights: Mapping[str, float]) -> list[Key]:
    """The few settings with which all cases together come closest to their best, each case taking its best of them.

    Greedy, from the original on: each adds what brings most, as the weighted sum of logarithms.
    """
    candidates = [key for each in standings.values() for key in each.ranked()[:CANDIDATES] if each.ratio(key) < 1]
    candidates = list(dict.fromkeys(candidates))
    best = dict.fromkeys(standings, 0.0)
    chosen: list[Key] = []

    def gain(key: Key) -> float:
        logs = ((name, math.log(ratio)) for name, each in standings.items() if (ratio := each.ratio(key)) < math.inf)
        return sum(weights[name] * max(0.0, best[name] - log) for name, log in logs)

    while len(chosen) < MOST_SHARED:
        left = [key for key in candidates if key not in chosen]
        top = max(left, key=gain, default=None)
        if top is None or gain(top) < WORTH * min(weights.values()):
            return chosen
        chosen.append(top)
        for name, each in standings.items():
            if (ratio := each.ratio(top)) < math.inf:
                best[name] = min(best[name], math.log(ratio))
    return chosen


def finalists(standings: Standings, for_all: Sequence[Key]) -> list[Key]:
    """Settings for the full comparison at one case: its best, those for all cases, and more of its own."""
    close = RUNGS[-1].within * standings.best_ratio
    own = [key for key in standings.ranked() if standings.ratio(key) <= close]
    in_order = list(dict.fromkeys([*own[:OWN], *for_all, *own[OWN:]]))
    chosen: list[Key] = []
    distinct: set[Key] = set()
    for key in in_order:
        representative = standings.catalogue.representative(key)
        known = representative == () or representative in distinct
        if representative is None or representative in standings.failures or key in standings.failures:
            continue
        if known or len(distinct) < MOST_FINALISTS:
            chosen.append(key)
            distinct |= {representative} - {()}
    return chosen


def compare(standings: Standings, for_all: Sequence[Key], limit_ms: float) -> Final | None:
    """The full comparison at one case, of one choice and the original at least. None where the budget allows none.

    Raises WorkerError.
    """
    stopwatch, catalogue = standings.stopwatch, standings.catalogue
    chosen = finalists(standings, for_all)
    measured = list(dict.fromkeys(r for key in chosen if (r := catalogue.representative(key))))
    affordable = stopwatch.affordable(FINAL, max(limit_ms, planned_ms(FINAL, 2)))
    if affordable < len(measured):
        stopwatch.spending.fall_short()
        if not affordable:
            return None
        measured = measured[:affordable]
    times = stopwatch.read(measured, FINAL)
    if times.original_ms is None:
        return None
    notes = _repeat_sudden(standings, times.ratios)
    ratios = {(): 1.0, **times.ratios}
    found = [(key, ratios[r]) for key in chosen if (r := catalogue.representative(key)) is not None and r in ratios]
    found.sort(key=lambda each: each[1])
    original_ms = times.original_ms
    result = CaseResult(
        case=catalogue.case,
        original_launches=catalogue.launches,
        original_ms=original_ms,
        times_ms=tuple((dict(key), ratio * original_ms) for key, ratio in found),
    )
    return Final(result, ratios, times.failures, notes)


def _repeat_sudden(standings: Standings, ratios: dict[Key, float]) -> dict[Key, str]:
    """Repeats alone whatever is suddenly much better than its own last reading, or than all that were read here.

    Mends `ratios`, where what cannot be repeated keeps its reading from before; returns what there is to say of it.
    """
    notes: dict[Key, str] = {}
    for key, ratio in list(ratios.items()):
        before = standings.ratio(key)
        if ratio * SUSPICIOUS >= (standings.best_ratio if before == math.inf else before):
            continue
        again = standings.stopwatch.read([key], FINAL_REPEATED).ratios.get(key, before)
        if again == math.inf:
            del ratios[key]
        else:
            ratios[key] = again
            notes[key] = f"read as {1 / ratio:.2f}× the original once, as {1 / again:.2f}× alone"
    return notes
