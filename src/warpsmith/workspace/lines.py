"""Append-only files of one JSON object a line. A kill can tear only the last line, and a torn line is no line.

A power cut can leave NULs where bytes had been promised and not yet written. JSON has none, so a line with one in it
that is no record was torn too, wherever it stands.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import shlex
import zlib
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
            _write_whole(descriptor, line, _mend(descriptor))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unwritable(path, error) from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Every record in order; none where there is no file. A torn last line is left out.

    A name that ends in .gz is read as gzip. Raises UsageError where any other line is no JSON object.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        command = f"git checkout -- {shlex.quote(str(path))}"
        raise UsageError(f"{path} is damaged: {error}", next_command=command) from error
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    *lines, tail = content.split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        record = _parsed(line)
        if record is not None:
            records.append(record)
        elif line.strip() and b"\0" not in line:
            raise UsageError(
                f"{path}, line {number}: expected one JSON object, found {line[:40]!r}; without that line, what it "
                "held is measured again",
                next_command=f"sed -i.damaged {number}d {shlex.quote(str(path))}",
            )
    last = _parsed(tail)
    return records if last is None else [*records, last]


def _write_whole(descriptor: int, line: bytes, end: int) -> None:
    """Appends the line, or leaves the file at its length `end`. Raises OSError."""
    try:
        if os.write(descriptor, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):  # the error that stopped the write is the one to tell
            os.ftruncate(descriptor, end)
        raise


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
    """The record of a line, with NULs around it left out. None for text that could not be written down again."""
    try:
        text = line.strip(b"\0").decode("utf-8")
        record = json.loads(text)
        if "\\ud" in text.lower():  # half of a surrogate pair is JSON, but no text
            json.dumps(record, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
