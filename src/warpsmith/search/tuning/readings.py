"""Owns the account of a search at one case: one reading for all settings that it came across, timed or not."""

from __future__ import annotations

from warpsmith.contracts.case import Mode
from warpsmith.search.tuning.catalogue import binary
from warpsmith.search.tuning.finalists import Final
from warpsmith.search.tuning.halving import Standings
from warpsmith.search.tuning.results import Reading
from warpsmith.search.tuning.rungs import FINAL_RUNG, NOT_TIMED
from warpsmith.search.tuning.space import Key, Space, label


def readings_at(standings: Standings, space: Space, mode: Mode, final: Final | None) -> list[Reading]:
    """A reading for all settings that were considered, in the order of the space, the original first."""
    catalogue = standings.catalogue
    keys = dict.fromkeys([*catalogue.compiled, *catalogue.refused])
    in_order = sorted(keys, key=lambda key: (key != (), space.nearest(dict(key)), key))
    return [_reading(standings, key, mode, final) for key in in_order]


def _reading(standings: Standings, key: Key, mode: Mode, final: Final | None) -> Reading:
    catalogue = standings.catalogue
    representative = catalogue.representative(key)
    ratio, rung, note = _latest(standings, representative, final)
    if representative is None:
        note = catalogue.failure(key) or ""
    elif representative != key:
        same = f"same machine code and grid as {label(dict(representative))}"
        note = f"{same}; {note}" if note else same
    original_ms = final.result.original_ms if final is not None else standings.original_ms
    compiled = catalogue.compiled.get(key)
    return Reading(
        case=catalogue.case,
        mode=mode,
        settings=dict(key),
        binary=None if compiled is None else binary(compiled),
        time_ms=None if ratio is None or original_ms is None else ratio * original_ms,
        final=rung == FINAL_RUNG,
        rung=rung,
        note=note,
    )


def _latest(standings: Standings, key: Key | None, final: Final | None) -> tuple[float | None, int, str]:
    """Share of the original's time, the rung that it was read at, and what there is to say of it."""
    if key is None:
        return None, 0, ""
    if final is not None and key in final.ratios:
        return final.ratios[key], FINAL_RUNG, final.notes.get(key, "")
    failure = standings.failures.get(key) or (final.failures.get(key) if final is not None else None)
    if failure is not None:
        return None, 0, failure
    score = standings.scores.get(key)
    return (None, 0, NOT_TIMED) if score is None else (score.ratio, score.rung, score.note)
