"""Reads `ncu --csv --page raw`: a header, a row of units, then one row a kernel launch, with ncu's messages between.

Pure. What ncu could not count is absent from a row, and a metric that no row has is named.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence

from warpsmith.contracts.measurement import CounterRow
from warpsmith.measure.counters.metrics import METRICS

#: Columns that say which launch a row is of.
_NUMBER, _KERNEL, _GRID, _BLOCK = "ID", "Kernel Name", "Grid Size", "Block Size"


def parse_raw_csv(text: str, wanted: Sequence[str] = METRICS) -> tuple[tuple[CounterRow, ...], tuple[str, ...]]:
    """The launches with those of the wanted metrics that have a number there, and the metrics that no launch has.

    Values are in the units of `--print-units base`: bytes, nanoseconds, percent. Without a table there is no launch.
    """
    header: list[str] = []
    launches: list[CounterRow] = []
    for cells in (_cells(line) for line in text.splitlines() if line.startswith('"')):
        if _NUMBER in cells and _KERNEL in cells:
            header = cells
        elif header and len(cells) == len(header):
            row = dict(zip(header, cells, strict=True))
            if row[_NUMBER].isdigit():  # the row of units has no number
                launches.append(_launch(row, wanted))
    present = {name for launch in launches for name in launch.metrics}
    return tuple(launches), tuple(name for name in wanted if name not in present)


def _cells(line: str) -> list[str]:
    """None of a line that the csv module refuses to read: a cell of more than 128 KiB, a NUL."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _launch(row: dict[str, str], wanted: Sequence[str]) -> CounterRow:
    found = {name: value for name in wanted if (value := _number(row.get(name, ""))) is not None}
    return CounterRow(kernel=row[_KERNEL], grid=row[_GRID], block=row[_BLOCK], metrics=found)


def _number(cell: str) -> float | None:
    """A number as ncu prints it, with or without thousands separators; None for "n/a", "no data", "nan" and text."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
