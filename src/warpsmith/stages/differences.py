"""Compares one file of a run with what its samples give: JSON by field, CSV by cell, pages and sources by line.

Pure: bytes in, differences out. Must not know where a file lies, nor how it was made.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from warpsmith.contracts.base import Document
from warpsmith.contracts.verification import Difference

#: Chosen: far below anything a page shows, far above what another order of summation does to a float.
RELATIVE_TOLERANCE = 1e-9

_SHOWN_CHARACTERS = 160
#: Every version of matplotlib draws a figure a little otherwise.
_FIGURE = re.compile(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+")
_NOT_THERE = object()


@dataclass(frozen=True)
class Compared:
    """How much was compared in one file, and what differs."""

    numbers: int
    lines: int
    differences: tuple[Difference, ...]


def compare_documents(
    name: str, found: bytes, expected: bytes, document_type: type[Document], left_out: frozenset[str] = frozenset()
) -> Compared:
    """Two JSON documents field by field. `left_out` are fields of the whole that were not recomputed.

    A field that a file lacks has its default, as when it is read.
    """
    try:
        return _compare_documents(name, json.loads(found), expected, document_type, left_out)
    except (ValueError, RecursionError) as error:
        return Compared(0, 0, (Difference(document=name, found=f"is no JSON: {error}"),))


def _compare_documents(
    name: str, there: Any, expected: bytes, document_type: type[Document], left_out: frozenset[str]
) -> Compared:
    with contextlib.suppress(ValidationError):  # told field by field
        there = document_type.model_validate(there).model_dump(mode="json")
    given = {key: value for key, value in json.loads(expected).items() if key not in left_out}
    there = {key: value for key, value in there.items() if key not in left_out} if isinstance(there, dict) else there
    differences = tuple(
        Difference(document=name, place=_text(place), found=_json(here), expected=_json(value))
        for place, here, value in _fields(there, given, "")
    )
    return Compared(_numbers_in(given), 0, differences)


def _fields(found: Any, expected: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Every leaf that differs, with its path."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in dict.fromkeys((*expected, *found)):
            inner = f"{place}.{key}" if place else key
            yield from _fields(found.get(key, _NOT_THERE), expected.get(key, _NOT_THERE), inner)
    elif isinstance(found, list) and isinstance(expected, list):
        for index in range(max(len(found), len(expected))):
            here, given = (each[index] if index < len(each) else _NOT_THERE for each in (found, expected))
            yield from _fields(here, given, f"{place}[{index}]")
    elif not _equal(found, expected):
        yield place, found, expected


def _equal(found: Any, expected: Any) -> bool:
    if _is_number(found) and _is_number(expected):
        try:
            return math.isclose(found, expected, rel_tol=RELATIVE_TOLERANCE, abs_tol=0.0)
        except OverflowError:  # a whole number that no float holds
            return bool(found == expected)
    return type(found) is type(expected) and bool(found == expected)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers_in(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(map(_numbers_in, value.values()))
    if isinstance(value, list):
        return sum(map(_numbers_in, value))
    return int(_is_number(value))


def _json(value: Any) -> str:
    return "not there" if value is _NOT_THERE else _short(_text(json.dumps(value, ensure_ascii=False)))


def compare_tables(name: str, found: bytes, expected: bytes) -> Compared:
    """Two CSV files cell by cell. Rows are numbered from 1, without the header."""
    given = _rows(expected)
    try:
        there = _rows(found)
    except csv.Error as error:
        return Compared(0, 0, (Difference(document=name, found=f"is no CSV: {error}"),))
    differences: list[Difference] = []
    columns = given[0] if given else []
    if there[:1] != given[:1]:
        differences.append(_row(name, "header", there[:1], given[:1]))
    for index in range(1, max(len(given), len(there))):
        here, wanted = there[index : index + 1], given[index : index + 1]
        if here == wanted:
            continue
        if not here or not wanted or len(here[0]) != len(wanted[0]):
            differences.append(_row(name, f"row {index}", here, wanted))
            continue
        differences += [
            Difference(
                document=name, place=f"row {index}, column {column}", found=_short(repr(cell)), expected=repr(want)
            )
            for column, cell, want in zip(columns, here[0], wanted[0], strict=False)
            if cell != want
        ]
    numbers = sum(_reads_as_number(cell) for row in given[1:] for cell in row)
    return Compared(numbers, 0, tuple(differences))


def _rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8", errors="replace"), newline="")))


def _row(name: str, place: str, found: list[list[str]], expected: list[list[str]]) -> Difference:
    here, given = ("not there" if not each else _short(repr(",".join(each[0]))) for each in (found, expected))
    return Difference(document=name, place=place, found=here, expected=given)


def _reads_as_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def compare_texts(name: str, found: bytes, expected: bytes) -> Compared:
    """Two pages or sources line by line, without the figures in them."""
    given, there = _lines(expected), _lines(found)
    differences: list[Difference] = []
    if given != there:
        matcher = difflib.SequenceMatcher(None, there, given, autojunk=False)
        for tag, start, end, given_start, given_end in matcher.get_opcodes():
            if tag != "equal":
                differences += _changed(name, start, there[start:end], given[given_start:given_end])
    return Compared(0, len(given), tuple(differences))


def _lines(content: bytes) -> list[str]:
    text = _FIGURE.sub("a figure", content.decode("utf-8", errors="backslashreplace"))
    return text.split("\n")


def _changed(name: str, start: int, found: list[str], expected: list[str]) -> Iterator[Difference]:
    for index in range(max(len(found), len(expected))):
        here, given = (_short(repr(each[index])) if index < len(each) else "not there" for each in (found, expected))
        yield Difference(document=name, place=f"line {start + index + 1}", found=here, expected=given)


def _text(text: str) -> str:
    """Half a surrogate pair is JSON, but no text that could be written down."""
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
