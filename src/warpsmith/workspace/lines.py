"""Append-only files of one JSON object a line. A kill can tear only the last line, and a torn line is no line."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.atomic import unwritable

_CHUNK_BYTES = 1 << 16


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Appends one record and flushes it to the disk; a torn last line is mended first.

    Raises Unavailable where it cannot, with the file as it was; ValueError for a float that is not finite.
    """
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            end = _mend(descriptor)
            if os.write(descriptor, line) != len(line):
                os.ftruncate(descriptor, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unwritable(path, error) from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Every record in order; none where there is no file. A torn last line is left out.

    Raises UsageError where any other line is no JSON object.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    *lines, tail = content.split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        record = _parsed(line)
        if record is None:
            raise UsageError(
                f"{path}, line {number}: expected one JSON object, found {line[:40]!r}",
                next_command=f"delete line {number} of {path}   (what it held is measured again)",
            )
        records.append(record)
    last = _parsed(tail)
    return records if last is None else [*records, last]


def _mend(descriptor: int) -> int:
    """Ends the file with a whole line. Returns its length in bytes."""
    size = os.fstat(descriptor).st_size
    start, tail = size, b""
    while start > 0 and b"\n" not in tail:
        step = min(_CHUNK_BYTES, start)
        start -= step
        tail = os.pread(descriptor, step, start) + tail
    tail = tail.rpartition(b"\n")[2]
    if not tail:
        return size
    if _parsed(tail) is not None:
        os.write(descriptor, b"\n")
        return size + 1
    os.ftruncate(descriptor, size - len(tail))
    return size - len(tail)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
