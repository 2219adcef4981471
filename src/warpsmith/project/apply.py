"""The only code that changes a production file, and the way back. Bytes in, bytes out: encoding is never touched.

Must not know why a winner won; whether it may be applied is decided before.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

from warpsmith.project.snapshot import expect_sha256, read_source
from warpsmith.project.style import remove_copies
from warpsmith.workspace.atomic import remove_leftovers, replace_bytes

_LINE_ENDING = re.compile(rb"\r\n|\r|\n")


def apply(production: Path, content: bytes, *, expected_sha256: str) -> None:
    """Replaces a file in one step, keeping its permissions; of a symbolic link, the file it points to.

    Raises SnapshotMismatch where the file is not what `expected_sha256` says, PreflightError where it cannot be read,
    Unavailable where it cannot be written; in each case the file is as it was.
    """
    expect_sha256(production, expected_sha256)
    _replace(production, content)


def revert(production: Path, original: bytes, *, expected_sha256: str) -> None:
    """Puts the original's bytes back over what `apply` wrote. Nothing is written where they are back already.

    Raises as `apply` does: an edit that somebody made in between is not overwritten.
    """
    if read_source(production) == original:
        return
    expect_sha256(production, expected_sha256)
    _replace(production, original)


def clear(production: Path) -> None:
    """Deletes what a killed command left beside the file. Call it only where no other can be at work on it."""
    remove_leftovers(production.resolve())
    remove_copies(production)


def with_line_endings_of(original: bytes, content: bytes) -> bytes:
    """`content` with the line ending that most lines of `original` have: CRLF, CR or LF."""
    endings = _LINE_ENDING.findall(original)
    if not endings:
        return content
    return _LINE_ENDING.sub(max((b"\n", b"\r\n", b"\r"), key=endings.count), content)


def _replace(production: Path, content: bytes) -> None:
    file = production.resolve()
    remove_leftovers(file)
    replace_bytes(file, content, mode=stat.S_IMODE(file.stat().st_mode))
