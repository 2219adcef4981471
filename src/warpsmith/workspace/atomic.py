"""Replaces a file in one step: whoever looks sees the old bytes or the new ones. Knows nothing of what is in them."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
from pathlib import Path

from warpsmith.contracts.errors import Unavailable

_TEMPORARY_SUFFIX = ".warpsmith-new"

_ADVICE = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
}


def replace_bytes(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Writes `content` beside `path`, flushes it to the disk and renames it over `path`.

    `mode` are permission bits; None leaves them to the umask. Missing folders are made. Raises Unavailable, with
    `path` as it was, where the disk is full or not writable.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_TEMPORARY_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_through(temporary, content, mode)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):  # the error that stopped the write is the one to tell
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
    with contextlib.suppress(OSError):  # the new bytes are in place; after a power cut it may be the old ones
        sync_directory(path.parent)


def remove_leftovers(path: Path) -> None:
    """Deletes what a killed `replace_bytes` of this path left beside it. Call it only where no other can be writing."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*{_TEMPORARY_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Makes renames in a directory survive a power cut. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwritable(path: Path, error: OSError) -> Unavailable:
    """The error to raise for a failed write: which file, why, what to do."""
    return Unavailable(f"cannot write {path}: {why(error)}. The same command goes on once that is mended")


def why(error: OSError) -> str:
    """What the operating system refused, and what to do where there is something to do. Never empty."""
    return _ADVICE.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__


def _write_through(path: Path, content: bytes, mode: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
