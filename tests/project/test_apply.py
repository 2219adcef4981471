"""The production file is the old one or the new one, and never what somebody else wrote in between."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.contracts.errors import ExitCode, PreflightError, Unavailable
from warpsmith.project.apply import apply, clear, revert, with_line_endings_of
from warpsmith.project.snapshot import SnapshotMismatch, sha256_of

ORIGINAL, WINNER = b"x = 1\r\n# \xe9 in latin-1\r\n", b"x = 2\r\n# \xe9 in latin-1\r\n"


@pytest.fixture
def production(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_bytes(ORIGINAL)
    path.chmod(0o754)
    return path


def test_the_winners_bytes_go_in_and_the_originals_come_back_with_the_mode_kept(production: Path) -> None:
    apply(production, WINNER, expected_sha256=sha256_of(ORIGINAL))
    assert production.read_bytes() == WINNER
    assert stat.S_IMODE(production.stat().st_mode) == 0o754

    revert(production, ORIGINAL, expected_sha256=sha256_of(WINNER))
    assert production.read_bytes() == ORIGINAL
    assert stat.S_IMODE(production.stat().st_mode) == 0o754
    assert list(production.parent.iterdir()) == [production]


def test_a_file_that_changed_since_is_not_overwritten(production: Path) -> None:
    production.write_bytes(b"edited")

    for change in (apply, revert):
        with pytest.raises(SnapshotMismatch) as caught:
            change(production, WINNER, expected_sha256=sha256_of(ORIGINAL))
        assert caught.value.exit_code is ExitCode.REJECTED
        assert caught.value.message == (
            f"{production} has changed: expected sha256 {sha256_of(ORIGINAL)[:12]}, "
            f"found {sha256_of(b'edited')[:12]}; it is left as it is"
        )
        assert production.read_bytes() == b"edited"


def test_reverting_what_is_back_already_writes_nothing(production: Path) -> None:
    before = production.stat()

    revert(production, ORIGINAL, expected_sha256=sha256_of(WINNER))

    assert (production.stat().st_ino, production.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_failed_write_leaves_the_original(production: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(Unavailable, match="the disk is full"):
        apply(production, WINNER, expected_sha256=sha256_of(ORIGINAL))

    assert {path.name: path.read_bytes() for path in production.parent.iterdir()} == {"kernel.py": ORIGINAL}


def test_a_missing_file_is_a_failed_preflight(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match=r"kernel\.py cannot be read: No such file"):
        apply(tmp_path / "kernel.py", WINNER, expected_sha256=sha256_of(ORIGINAL))


def test_behind_a_symbolic_link_the_file_changes_and_the_link_stays(production: Path) -> None:
    link = production.with_name("link.py")
    link.symlink_to(production)

    apply(link, WINNER, expected_sha256=sha256_of(ORIGINAL))

    assert link.is_symlink()
    assert production.read_bytes() == WINNER


def test_what_a_killed_apply_left_beside_the_file_goes_with_the_next(production: Path) -> None:
    production.with_name(".kernel.py.0a1b2c3d.warpsmith-new").write_bytes(b"half")

    apply(production, WINNER, expected_sha256=sha256_of(ORIGINAL))

    assert list(production.parent.iterdir()) == [production]


@pytest.mark.parametrize(
    ("original", "content", "expected"),
    [
        (b"a\r\nb\r\n", b"c\nd\n", b"c\r\nd\r\n"),
        (b"a\nb\n", b"c\r\nd\r\n", b"c\nd\n"),
        (b"a\rb\r", b"c\nd\r\n", b"c\rd\r"),
        (b"a\r\nb\nc\n", b"d\r\n", b"d\n"),
        (b"no ending", b"c\r\nd\n", b"c\r\nd\n"),
        (b"a\r\n", b"\xe9 \\r\\n", b"\xe9 \\r\\n"),
    ],
)
def test_content_takes_the_line_endings_of_the_original(original: bytes, content: bytes, expected: bytes) -> None:
    assert with_line_endings_of(original, content) == expected


@settings(deadline=None)
@given(st.binary(max_size=30), st.text(alphabet="ab\r\n", max_size=30).map(str.encode))
def test_taking_line_endings_twice_changes_nothing_more_and_keeps_the_lines(original: bytes, content: bytes) -> None:
    once = with_line_endings_of(original, content)

    assert with_line_endings_of(original, once) == once
    assert once.splitlines() == content.splitlines()


def test_what_a_killed_command_left_beside_the_file_is_cleared_away_and_nothing_else_is(production: Path) -> None:
    production.with_name(".kernel.py.0a1b2c3d.warpsmith-new").write_bytes(b"half")
    production.with_name(".warpsmith-style-kernel.py-abc").mkdir()
    production.with_name(".warpsmith-style-kernel.py-abc").joinpath("kernel.py").write_bytes(b"half")
    others = production.with_name(".warpsmith-style-other.py-abc")
    others.mkdir()

    clear(production)

    assert sorted(production.parent.iterdir()) == [others, production]
