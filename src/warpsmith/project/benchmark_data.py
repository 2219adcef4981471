"""Puts rows into a repository's own benchmark data, a CSV, and leaves every other row as it is, to the byte.

A row takes the place of one of the same kernel, provider, mode, metric, size, configuration and GPU. Columns are those
that the file has; must not know what the rows mean.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.documents import write_bytes

#: What a row is found again by.
KEY = (
    "kernel_name",
    "kernel_provider",
    "kernel_operation_mode",
    "metric_name",
    "x_name",
    "x_value",
    "extra_benchmark_config_str",
    "gpu_name",
)


def put_rows(path: Path, rows: Sequence[Mapping[str, str]]) -> tuple[int, int]:
    """How many rows were replaced and how many added. Raises UsageError where the file is no such CSV."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    updated, replaced = with_rows(content, rows, str(path))
    if updated != content:
        write_bytes(path, updated)
    return replaced, len(rows) - replaced


def with_rows(content: bytes, rows: Sequence[Mapping[str, str]], name: str) -> tuple[bytes, int]:
    """The content with these rows, and how many of them took the place of one. Raises UsageError."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error.reason} at byte {error.start}") from error
    mark = content[:3] if content.startswith(b"\xef\xbb\xbf") else b""
    line_end = "\r\n" if "\r\n" in text else "\n"
    records = _records(text)
    header = records[0][1] if records else []
    if missing := [column for column in KEY if column not in header]:
        raise UsageError(f"{name} has no column {missing[0]}: expected the columns of Liger-Kernel's benchmark data")
    places = [header.index(column) for column in KEY]
    ours = {tuple(row[column] for column in KEY): row for row in rows}
    written: set[tuple[str, ...]] = set()
    lines: list[str] = []
    for raw, cells in records:
        key = tuple(cells[place] if place < len(cells) else "" for place in places)
        if key not in ours or raw is records[0][0]:
            lines.append(raw)
        elif key not in written:
            written.add(key)
            lines.append(_line(header, ours[key], line_end))
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += line_end
    lines += [_line(header, row, line_end) for key, row in ours.items() if key not in written]
    return mark + "".join(lines).encode(), len(written)


def _records(text: str) -> list[tuple[str, list[str]]]:
    """Each record as it is written, with its cells."""
    raw = io.StringIO(text, newline="").readlines()  # str.splitlines ends a line at characters that CSV does not
    reader, found, begun = csv.reader(io.StringIO(text, newline="")), list[tuple[str, list[str]]](), 0
    for cells in reader:
        found.append(("".join(raw[begun : reader.line_num]), cells))
        begun = reader.line_num
    return found


def _line(header: Sequence[str], row: Mapping[str, str], line_end: str) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator=line_end).writerow([row.get(column, "") for column in header])
    return out.getvalue()
