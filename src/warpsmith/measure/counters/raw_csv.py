"""Reads `ncu --csv --page raw`: a header, a row of units, then one row a kernel launch, with messages anywhere between.

Pure. What ncu could not count is absent from a row, and a metric that no row has is named. A launch whose row is
damaged is a row without figures: left out, it would make a sum over the launches too small.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from warpsmith.contracts.counters import CounterRow
from warpsmith.measure.counters.figures import decimal_mark, number, scale
from warpsmith.measure.counters.metrics import METRICS, OTHER_NAMES

#: Columns that say which launch a row is of.
_NUMBER, _KERNEL, _GRID, _BLOCK = "ID", "Kernel Name", "Grid Size", "Block Size"
#: The kernel of a launch whose row is damaged before its name ends.
UNREADABLE = "a launch that cannot be read"

#: The first two cells of a row; the row of units has no number.
_ROW = r'"(?:[0-9]*|ID)","'
#: What ncu says amid the table, with its line break if it has one. A progress line grows while the kernel is replayed,
#: and what follows it need not begin a line.
_SAID = re.compile(
    r"(?:(?:==PROF== Profiling [^\n]*?: 0%)?\.{4}[0-9]+%(?:\.{4}(?:[0-9]+%)?)*(?: - [0-9]+ pass(?:es)?)?"
    rf"|==[A-Z]+==[^\n]*?(?=\n|{_ROW}|\Z))(?P<end>\n?)"
)
#: Where such a line break was: the line that it broke may go on after it.
_BREAK = "\0"
_SHAPE = re.compile(r"\([0-9]+, ?[0-9]+, ?[0-9]+\)")


@dataclass(frozen=True)
class _Launch:
    """A row under its header: metric or column -> cell, and metric -> unit where there was a row of units."""

    cells: Mapping[str, str]
    units: Mapping[str, str]


def parse_raw_csv(text: str, wanted: Sequence[str] = METRICS) -> tuple[tuple[CounterRow, ...], tuple[str, ...]]:
    """The launches with those of the wanted metrics that have a number there, and the metrics that no launch has.

    Values are in base units, whichever the table is in: bytes, nanoseconds, percent, per second. Without a table there
    is no launch.
    """
    launches = list(_launches(text))
    mark = decimal_mark(cell for each in launches for name, cell in each.cells.items() if "__" in name)
    rows = tuple(_row(each, wanted, mark) for each in launches)
    present = {name for row in rows for name in row.metrics}
    return rows, tuple(name for name in wanted if name not in present)


def _launches(text: str) -> Iterator[_Launch]:
    """In the order of the table. ncu begins a new one, with a header of its own, for each process."""
    header: list[str] = []
    units: dict[str, str] = {}
    for line in _lines(text):
        held = ""
        for piece in line:
            held += piece
            cells = _cells(held)
            if not header or len(cells) != len(header) or cells[0] == _NUMBER:
                continue
            if cells[0].isdigit():
                yield _Launch(dict(zip(header, cells, strict=True)), units)
            else:
                units = dict(zip(header, cells, strict=True))
            held = ""
        cells = _cells(held)
        if cells[:1] == [_NUMBER] and _KERNEL in cells:
            header, units = cells, {}
        elif header and re.match(r'"[0-9]+",', held):
            yield _damaged(held, header)


def _lines(text: str) -> list[list[str]]:
    """Each line without ncu's messages, in the pieces that they left of it."""
    plain = text.replace(_BREAK, "\ufffd").replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n")
    rest = _SAID.sub(lambda said: _BREAK if said["end"] else "", plain)
    return [line.split(_BREAK) for line in rest.split("\n")]


def _cells(text: str) -> list[str]:
    """Those of the row in the text, after whatever the program printed before it. None of a text that is no CSV to its
    end, or has a cell of more than 128 KiB."""
    begin = re.search(_ROW, text)
    try:
        return next(csv.reader([text[begin.start() :]], strict=True), []) if begin else []
    except csv.Error:
        return []


def _damaged(text: str, header: Sequence[str]) -> _Launch:
    """A launch by its name alone, if what stands beside that is where it belongs."""
    try:
        cells = dict(zip(header, next(csv.reader([text]), []), strict=False))
    except csv.Error:
        cells = {}
    whole = all(_SHAPE.fullmatch(cells.get(name, "")) for name in (_GRID, _BLOCK))
    told = {name: cells[name] if whole else "" for name in (_KERNEL, _GRID, _BLOCK)}
    return _Launch(told if whole else {**told, _KERNEL: UNREADABLE}, {})


def _row(launch: _Launch, wanted: Sequence[str], mark: str | None) -> CounterRow:
    figures = {name: value for name in wanted if (value := _figure(launch, name, mark)) is not None}
    kernel, grid, block = (launch.cells.get(name, "") for name in (_KERNEL, _GRID, _BLOCK))
    return CounterRow(kernel=kernel, grid=grid, block=block, metrics=figures)


def _figure(launch: _Launch, metric: str, mark: str | None) -> float | None:
    """In base units, by whichever of its names the metric has there."""
    for name in (metric, OTHER_NAMES.get(metric, metric)):
        if name in launch.cells and name in launch.units:
            value, factor = number(launch.cells[name], mark), scale(launch.units[name])
            # ncu counts nothing below 0; what is, or overflows, is a damaged figure.
            if value is not None and factor is not None and 0 <= value * factor < math.inf:
                return value * factor
    return None
