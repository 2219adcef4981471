"""A file is what its hash says, or the difference is told."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from warpsmith.contracts.errors import PreflightError
from warpsmith.project.snapshot import SnapshotMismatch, expect_sha256, file_sha256


def test_a_file_is_known_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(b"x = 1\r\n")

    assert file_sha256(path) == hashlib.sha256(b"x = 1\r\n").hexdigest()
    expect_sha256(path, file_sha256(path))


def test_another_content_is_told_with_both_hashes(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(b"x = 1\n")

    with pytest.raises(SnapshotMismatch) as caught:
        expect_sha256(path, "0" * 64)

    assert (caught.value.path, caught.value.expected_sha256, caught.value.found_sha256) == (
        path,
        "0" * 64,
        file_sha256(path),
    )


def test_a_missing_file_is_a_failed_preflight(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="cannot be read: No such file or directory"):
        file_sha256(tmp_path / "absent.py")
