"""What a file was, by content, so that a change under a run's feet is seen. Changes nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

from warpsmith.contracts.errors import PreflightError, Rejected


class SnapshotMismatch(Rejected):
    """A file is not what a decision was made about."""

    def __init__(self, path: Path, *, expected_sha256: str, found_sha256: str) -> None:
        super().__init__(
            f"{path} has changed: expected sha256 {expected_sha256[:12]}, found {found_sha256[:12]}; "
            "it is left as it is"
        )
        self.path = path
        self.expected_sha256 = expected_sha256
        self.found_sha256 = found_sha256


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def file_sha256(path: Path) -> str:
    """Raises PreflightError where the file cannot be read."""
    return sha256_of(read_source(path))


def read_source(path: Path) -> bytes:
    """A file's bytes. Raises PreflightError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise PreflightError(f"{path} cannot be read: {error.strerror}") from error


def expect_sha256(path: Path, expected_sha256: str) -> None:
    """Raises SnapshotMismatch where the file has another content, PreflightError where it cannot be read."""
    found = file_sha256(path)
    if found != expected_sha256:
        raise SnapshotMismatch(path, expected_sha256=expected_sha256, found_sha256=found)
