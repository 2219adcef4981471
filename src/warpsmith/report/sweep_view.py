"""A sweep's rows arranged for a picture: which knobs matter most, and each case's times over its best. Pure.

Reads the columns of sweep.csv: case, mode, one a knob ("<jit function>.<name>"), median_ms, speedup, binary.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.report.tables import joined, sweep_frame
from warpsmith.search.tuning.results import Tuning
from warpsmith.search.tuning.values import own_value
from warpsmith.verdict.statistics import geometric_mean

#: Chosen: as many panels as fit a page's width in two rows.
MOST_CASES = 6


@dataclass(frozen=True)
class SweptFunction:
    """One jit function swept in one mode. `originals` and `winners` are the settings by case, as far as known."""

    jit_function: str
    mode: Mode
    originals: Mapping[str, Settings]
    winners: Mapping[str, Settings]

    def stem(self, number: int) -> str:
        """The name of its plot in the notes of that variant."""
        return f"sweep_{self.jit_function.lstrip('_')}_{self.mode.value}_v{number}"


@dataclass(frozen=True)
class CasePanel:
    """Times over the best of the case, (values of the second knob, values of the first); NaN: no such setting ran.

    `refused`, in the same shape, is where settings were tried and none ran or compiled; elsewhere NaN says that none
    was tried. With one knob there is one row. `original` and `winner` are (column, row), None where not on the grid.
    """

    case: str
    relative: NDArray[np.float64]
    refused: NDArray[np.bool_]
    best_ms: float
    original_ms: float | None
    original: tuple[int, int] | None
    winner: tuple[int, int] | None


@dataclass(frozen=True)
class SweepView:
    """`knobs` are one or two names with their values, the one that matters most first; `others` are at their best."""

    function: SweptFunction
    knobs: tuple[tuple[str, tuple[int, ...]], ...]
    others: tuple[str, ...]
    panels: tuple[CasePanel, ...]
    #: cases that were swept and are not shown, being the lightest
    left_out: int


def searched_rows(by_variant: Mapping[int, Sequence[Tuning]]) -> pd.DataFrame:
    """The rows of sweep.csv: those of every search through settings, by the number of the variant that it was for."""
    frames = []
    for number, sweeps in by_variant.items():
        frames.append(sweep_rows(sweeps))
        frames[-1].insert(0, "variant", f"v{number}")
    return joined(frames)


def sweep_rows(sweeps: Sequence[Tuning]) -> pd.DataFrame:
    """The rows of the searches of one variant."""
    readings = [reading for sweep in sweeps for reading in sweep.readings]
    original_ms = {(each.case.name, sweep.mode): each.original_ms for sweep in sweeps for each in sweep.cases}
    return sweep_frame(readings, original_ms=original_ms)


def sweep_views(sweeps: Sequence[Tuning]) -> tuple[SweepView, ...]:
    """Of each jit function that was swept and has a knob that was timed at two values."""
    if not sweeps:
        return ()
    rows = sweep_rows(sweeps)
    views = (sweep_view(rows, function) for function in swept_functions(sweeps))
    return tuple(view for view in views if view is not None)


def swept_functions(sweeps: Sequence[Tuning]) -> tuple[SweptFunction, ...]:
    """Each jit function of these sweeps, in their order."""
    return tuple(
        SweptFunction(
            name,
            sweep.mode,
            {c.case.name: original_settings(c.original_launches, sweep.knobs) for c in sweep.cases},
            {c.case.name: c.best[0] for c in sweep.cases if c.best[0]},
        )
        for sweep in sweeps
        for name in dict.fromkeys(knob.jit_function for knob in sweep.knobs)
    )


def original_settings(launches: Sequence[LaunchRecord], knobs: Sequence[Knob]) -> Settings:
    """What the original has for each knob at one case, as far as its launches tell."""
    found: Settings = {}
    for knob in knobs:
        launch = next((each for each in launches if each.jit_function == knob.jit_function), None)
        value = None if launch is None else own_value(knob, launch)
        if value is not None:
            found[knob.id] = value
    return found


def sweep_view(frame: pd.DataFrame, function: SweptFunction) -> SweepView | None:
    """None where no knob was timed at two values."""
    rows = frame[frame["mode"] == function.mode.value]
    ids = [c for c in rows.columns if c.rpartition(".")[0] == function.jit_function and rows[c].notna().any()]
    rows = rows[rows[ids].notna().any(axis=1)] if ids else rows.iloc[:0]
    timed = _timed(rows, ids)
    spreads = {knob: spread for knob in ids if (spread := _spread(timed, knob)) is not None}
    shown = sorted(spreads, key=lambda knob: (-spreads[knob], knob))[:2]
    if not shown:
        return None
    knobs = tuple((knob, tuple(sorted({int(v) for v in rows[knob].dropna()}))) for knob in shown)
    heaviest = sorted(timed["case"].unique(), key=lambda case: -_original_or_best_ms(timed, case))
    return SweepView(
        function=function,
        knobs=knobs,
        others=tuple(knob for knob in spreads if knob not in shown),
        panels=tuple(_panel(timed, rows, case, knobs, function) for case in heaviest[:MOST_CASES]),
        left_out=max(0, len(heaviest) - MOST_CASES),
    )


def _timed(rows: pd.DataFrame, ids: Sequence[str]) -> pd.DataFrame:
    """The rows with a time, and those of the same machine code, which were not timed because they have the same."""
    timed, untimed = rows[rows["median_ms"].notna()], rows[rows["median_ms"].isna() & rows["binary"].notna()]
    alike = untimed[["case", "binary", *ids]].merge(timed, on=["case", "binary"], suffixes=("", "_of_timed"))
    for knob in ids:
        alike[knob] = alike[knob].fillna(alike[f"{knob}_of_timed"])
    return pd.concat([timed, alike[list(timed.columns)]], ignore_index=True) if len(alike) else timed


def _spread(timed: pd.DataFrame, knob: str) -> float | None:
    """How much longer the worst value of a knob takes than the best, all others at their best; None for one value."""
    ratios = []
    for _, rows in timed.groupby("case"):
        best = rows.groupby(knob)["median_ms"].min()
        if len(best) > 1:
            ratios.append(float(best.max() / best.min()))
    return geometric_mean(ratios) if ratios else None


def _original_ms(timed: pd.DataFrame, case: str) -> float | None:
    rows = timed[(timed["case"] == case) & timed["speedup"].notna()]
    return None if rows.empty else float(rows["median_ms"].iloc[0] * rows["speedup"].iloc[0])


def _original_or_best_ms(timed: pd.DataFrame, case: str) -> float:
    return _original_ms(timed, case) or float(timed[timed["case"] == case]["median_ms"].min())


def _panel(
    timed: pd.DataFrame,
    tried: pd.DataFrame,
    case: str,
    knobs: Sequence[tuple[str, tuple[int, ...]]],
    function: SweptFunction,
) -> CasePanel:
    rows = timed[timed["case"] == case]
    best_ms = float(rows["median_ms"].min())
    shape = (len(knobs[1][1]) if len(knobs) > 1 else 1, len(knobs[0][1]))
    times, refused = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    for row in rows.to_dict("records"):
        if not any(pd.isna(row[knob]) for knob, _ in knobs):
            cells = _cells(row, knobs)
            times[cells] = np.fmin(times[cells], row["median_ms"])
    for row in tried[(tried["case"] == case) & tried["median_ms"].isna() & tried["binary"].isna()].to_dict("records"):
        refused[_cells(row, knobs)] = True
    return CasePanel(
        case=case,
        relative=times / best_ms,
        refused=refused & np.isnan(times),
        best_ms=best_ms,
        original_ms=_original_ms(timed, case),
        original=_place(function.originals.get(case, {}), knobs),
        winner=_place(function.winners.get(case, {}), knobs),
    )


def _cells(row: Mapping[Hashable, Any], knobs: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[slice, slice]:
    """The rows and columns of the grid that a setting is at: all of them for a knob that it leaves as it is."""
    places = [slice(None) if pd.isna(row[knob]) else _one(values.index(int(row[knob]))) for knob, values in knobs]
    column, line = places if len(places) > 1 else (places[0], slice(None))
    return line, column


def _one(index: int) -> slice:
    return slice(index, index + 1)


def _place(settings: Settings, knobs: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[int, int] | None:
    """(column, row) of settings on the grid; None where a knob has no value, or one that was not tried."""
    places = [values.index(settings[knob]) for knob, values in knobs if settings.get(knob) in values]
    return None if len(places) < len(knobs) else (places[0], places[1] if len(places) > 1 else 0)
