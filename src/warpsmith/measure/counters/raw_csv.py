"""Reads `ncu --csv --page raw`: a header, a row of units, then one row a kernel launch, with ncu's messages between.

Pure. What ncu could not count is absent from a row, and a metric that no row has is named.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

from warpsmith.contracts.measurement import CounterRow

#: Columns that say which launch a row is of.
_KERNEL, _GRID, _BLOCK = "Kernel Name", "Grid Size", "Block Size"


def parse_raw_csv(text: str, wanted: Sequence[str] = ()) -> tuple[tuple[CounterRow, ...], tuple[str, ...]]:
    """The launches, and those of the wanted metrics that no launch has.

    With `wanted` empty every numeric column is kept. Raises ValueError where there is no table at all.
    """
    rows = list(csv.reader(line for line in text.splitlines() if _is_table(line)))
    start = next((index for index, row in enumerate(rows) if _KERNEL in row), None)
    if start is None:
        raise ValueError("no table in ncu's output")
    header, launches = rows[start], rows[start + 2 :]
    found = tuple(_row(dict(zip(header, row, strict=True)), wanted) for row in launches if len(row) == len(header))
    present = {name for row in found for name in row.metrics}
    return found, tuple(name for name in wanted if name not in present)


def _is_table(line: str) -> bool:
    """A CSV line is quoted from its first character; ncu's messages and the program's own output are not."""
    return line.startswith('"')


def _row(cells: dict[str, str], wanted: Iterable[str]) -> CounterRow:
    names = list(wanted) or [name for name in cells if name not in (_KERNEL, _GRID, _BLOCK)]
    metrics = {name: value for name in names if (value := _number(cells.get(name, ""))) is not None}
    return CounterRow(kernel=cells[_KERNEL], grid=cells[_GRID], block=cells[_BLOCK], metrics=metrics)


def _number(cell: str) -> float | None:
    """A number as ncu prints it, with or without thousands separators; None for "n/a", "no data" and text."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if value == value and abs(value) != float("inf") else None
