"""Files are whole or as they were, whatever fails in between."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from warpsmith.contracts.errors import ExitCode, Unavailable
from warpsmith.workspace.atomic import remove_leftovers, replace_bytes


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.txt"

    replace_bytes(path, b"first")
    replace_bytes(path, b"second")

    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]


def test_the_mode_is_the_umask_unless_one_is_given(tmp_path: Path) -> None:
    usual, given = tmp_path / "usual", tmp_path / "given"
    before = os.umask(0o027)
    try:
        replace_bytes(usual, b"")
        replace_bytes(given, b"", mode=0o755)
    finally:
        os.umask(before)

    assert stat.S_IMODE(usual.stat().st_mode) == 0o640
    assert stat.S_IMODE(given.stat().st_mode) == 0o755


@pytest.mark.parametrize("step", ["replace", "fsync"])
@pytest.mark.parametrize(
    ("code", "why"),
    [
        (errno.ENOSPC, "the disk is full; free some space"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int, why: str
) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(Unavailable) as caught:
        replace_bytes(path, b"new")

    assert caught.value.message == f"cannot write {path}: {why}. The same command goes on once that is mended"
    assert caught.value.exit_code is ExitCode.UNAVAILABLE
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"file.txt": b"old"}


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace_bytes(path, b"new")

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"file.txt": b"old"}


def test_a_folder_in_the_place_of_the_file_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot write"):
        replace_bytes(tmp_path, b"")


def test_what_a_killed_write_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (
        ".kernel.py.0a1b2c3d.warpsmith-new",
        ".other.py.0a1b2c3d.warpsmith-new",
        "kernel.py",
        ".kernel.py.swp",
    ):
        (tmp_path / name).write_bytes(b"")

    remove_leftovers(tmp_path / "kernel.py")

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".kernel.py.swp",
        ".other.py.0a1b2c3d.warpsmith-new",
        "kernel.py",
    ]
