"""Reads a figure as ncu prints it: in whatever way a locale writes numbers, into base units (ns, bytes, per second).

Pure. What could be two numbers, or is in a unit that is not known here, is none: never a guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

#: Between groups of three digits, beside the mark that is not the decimal one: an apostrophe, a space and its kin.
_GAPS = r"'\u2019 \u00a0\u202f"
#: The decimal mark of a locale -> a number in it.
_NUMBERS = {
    mark: re.compile(
        rf"[+-]?(?:[1-9][0-9]{{0,2}}(?P<gap>[{other}{_GAPS}])[0-9]{{3}}(?:(?P=gap)[0-9]{{3}})*(?:[{mark}][0-9]+)?"
        rf"|[0-9]+(?:[{mark}][0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    )
    for mark, other in ((".", ","), (",", "."))
}

#: ncu scales by thousands: 100 KiB of shared memory read "102.40 Kbyte" in its reports, 1024 bytes "1.02 Kbyte/block".
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
#: In ns, by their names since ncu 2024 and before.
_TIMES_NS = {
    **{"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9},
    **{"nsecond": 1.0, "usecond": 1e3, "msecond": 1e6, "second": 1e9},
}
#: What else is counted, in the singular: the recorded outputs have all but instruction.
_COUNTED = frozenset(
    {
        *{"branch", "block", "byte", "cluster", "cycle", "hz", "inst", "instruction", "pass", "register", "request"},
        *{"sample", "sector", "SM", "thread", "warp"},
    }
)
_UNIT = re.compile(r"(?P<prefix>[KMGTP]?)(?P<word>[A-Za-z]+)")


def decimal_mark(cells: Iterable[str]) -> str | None:
    """The mark in the cells that can be read in one way only. None where there is no such cell, or they disagree."""
    marks = {mark for cell in cells if len(readings := _readings(cell)) == 1 for mark in readings}
    return marks.pop() if len(marks) == 1 else None


def number(cell: str, mark: str | None) -> float | None:
    """The number in a cell of a table with that decimal mark; where the mark is not known, the only one it can be.

    None for text, "n/a", "no data" and "nan", and for "1,993" without a mark.
    """
    readings = _readings(cell)
    if mark is not None:
        return readings.get(mark)
    return readings.popitem()[1] if len(set(readings.values())) == 1 else None


def scale(unit: str) -> float | None:
    """What a figure in that unit is multiplied with to be in base units. None for a unit that is not known."""
    above, over, below = unit.strip().partition("/")
    if above in ("", "%"):
        factor: float | None = 1.0
    else:
        factor = _TIMES_NS.get(above) or _counted(above)
    if factor is None or not over:
        return factor
    if below in _TIMES_NS:
        return factor / (_TIMES_NS[below] * 1e-9)
    return factor if _counted(below) == 1.0 else None


def _readings(cell: str) -> dict[str, float]:
    """Decimal mark -> what the cell says where that is the mark. Both, with one value, for a number without any."""
    text, found = cell.strip(), {}
    for mark, form in _NUMBERS.items():
        if (match := form.fullmatch(text)) is not None:
            value = float(text.replace(match["gap"] or " ", "").replace(mark, "."))
            if math.isfinite(value):
                found[mark] = value
    return found


def _counted(text: str) -> float | None:
    match = _UNIT.fullmatch(text)
    if match is None:
        return None
    word = match["word"]
    known = _COUNTED & {word, word.removesuffix("s"), word.removesuffix("es")}
    return _PREFIXES[match["prefix"]] if known else None
