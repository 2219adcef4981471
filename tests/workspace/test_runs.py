"""A finished run moves whole into the history, also when the move is killed half-way."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from warpsmith.contracts.errors import Unavailable, UsageError
from warpsmith.contracts.request import Request
from warpsmith.workspace.documents import write_document, write_text
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import run_lock
from warpsmith.workspace.runs import archive, new_run_id

FILES = (
    "benchmarks/v0_baseline.csv",
    "comparison.json",
    "profile.json",
    "request.json",
    "rms_norm_v1.py",
    "scratch/x.py",
)


def finished_run(root: Path, run_id: str) -> Workspace:
    workspace = Workspace(root, "rms_norm")
    workspace.create()
    for name in FILES:
        write_text(workspace.directory / name, f"{name} of {run_id}")
    write_document(workspace.request, Request(kernel="rms_norm", run_id=run_id, created_at="2026-01-31T00:00:00+00:00"))
    return workspace


def files_in(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))


def test_run_ids_sort_by_time_and_differ_within_a_second() -> None:
    earlier = datetime(2026, 1, 31, 23, 59, 58, tzinfo=timezone.utc)
    ids = [new_run_id(earlier), new_run_id(earlier), new_run_id(earlier.replace(second=59))]

    assert len(set(ids)) == 3
    assert max(ids) == ids[2]
    assert ids[0].startswith("20260131T235958Z-")


def test_everything_of_a_run_moves_under_its_id(tmp_path: Path) -> None:
    workspace = finished_run(tmp_path, "r1")

    folder = archive(workspace)

    assert folder == workspace.history / "r1"
    assert files_in(folder) == FILES
    assert list(workspace.directory.iterdir()) == [workspace.history]


def test_the_history_grows(tmp_path: Path) -> None:
    for run_id in ("r1", "r2"):
        archive(finished_run(tmp_path, run_id))
    workspace = Workspace(tmp_path, "rms_norm")

    assert sorted(workspace.history.iterdir()) == [workspace.history / "r1", workspace.history / "r2"]
    assert (workspace.history / "r1" / "profile.json").read_text() == "profile.json of r1"


def test_a_lock_that_is_held_stays_where_it_is(tmp_path: Path) -> None:
    workspace = finished_run(tmp_path, "r1")

    with run_lock(workspace):
        archive(workspace)
        with pytest.raises(Unavailable), run_lock(workspace):
            pass

    assert files_in(workspace.history / "r1") == FILES


def test_without_a_run_nothing_moves(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "rms_norm")

    assert archive(workspace) is None
    assert not workspace.history.exists()


class Killed(BaseException):
    """Stands for a kill."""


#: Five files and folders, then the request, then the name.
@pytest.mark.parametrize("after", range(7))
def test_a_killed_archive_is_gone_on_with_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    workspace = finished_run(tmp_path, "r1")
    moves: list[Path] = []

    def killed_at(move: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def moved(source: Path, destination: Path) -> None:
            if len(moves) == after:
                raise Killed
            moves.append(source)
            move(source, destination)

        return moved

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(os, "replace", killed_at(os.replace))
        patched.setattr(os, "rename", killed_at(os.rename))
        archive(workspace)

    assert workspace.request.is_file() is (after < 6)
    archive(workspace)
    assert list(workspace.history.iterdir()) == [workspace.history / "r1"]
    assert files_in(workspace.history / "r1") == FILES
    assert list(workspace.directory.iterdir()) == [workspace.history]


def test_a_run_id_cannot_lead_out_of_the_history(tmp_path: Path) -> None:
    workspace = finished_run(tmp_path, "../../..")

    with pytest.raises(UsageError, match="cannot be the name of a folder"):
        archive(workspace)

    assert files_in(workspace.directory) == FILES


def test_what_lies_there_without_a_request_is_no_part_of_the_next_run_and_is_kept(tmp_path: Path) -> None:
    for _ in range(2):
        workspace = finished_run(tmp_path, "r1")
        workspace.request.rename(workspace.directory / "request.json.damaged")
        archive(workspace)

    moved = tuple(name for name in FILES if name != "request.json")
    for folder in ("without-request", "without-request-2"):
        assert files_in(workspace.history / folder) == tuple(sorted((*moved, "request.json.damaged")))
    assert list(workspace.directory.iterdir()) == [workspace.history]


#: Four files and folders, then the name.
@pytest.mark.parametrize("after", range(5))
def test_a_killed_move_without_a_request_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    workspace = finished_run(tmp_path, "r1")
    workspace.request.unlink()
    moves: list[Path] = []

    def killed_at(move: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def moved(source: Path, destination: Path) -> None:
            if len(moves) == after:
                raise Killed
            moves.append(source)
            move(source, destination)

        return moved

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(os, "replace", killed_at(os.replace))
        patched.setattr(os, "rename", killed_at(os.rename))
        archive(workspace)

    archive(workspace)
    assert list(workspace.history.iterdir()) == [workspace.history / "without-request"]
    assert files_in(workspace.history / "without-request") == tuple(name for name in FILES if name != "request.json")
