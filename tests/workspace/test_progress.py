"""The running command's file: whole whenever it is read, not written too often, and never a reason to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.progress import RunProgress
from warpsmith.contracts.request import Request
from warpsmith.workspace.documents import write_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.progress import WRITE_EVERY_S, ProgressFile, read_progress
from warpsmith.workspace.runs import archive


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path, "rms_norm")
    workspace.create()
    return workspace


def progress(step: str) -> RunProgress:
    at = "2026-01-31T00:00:00+00:00"
    return RunProgress(run_id="r", pid=1, stage="profile", started_at=at, updated_at=at, step=step)


def test_what_was_written_is_read_back_and_nothing_lies_beside_it(workspace: Workspace) -> None:
    assert read_progress(workspace) is None
    ProgressFile(workspace, Clock()).write(progress("baselines"))
    assert read_progress(workspace) == progress("baselines")
    assert [path.name for path in workspace.directory.iterdir()] == [".progress.json"]


def test_it_is_written_twice_a_second_and_for_a_new_step_at_once(workspace: Workspace) -> None:
    clock = Clock()
    file = ProgressFile(workspace, clock)
    file.write(progress("first"))
    clock.seconds = WRITE_EVERY_S / 2
    file.write(progress("too soon"))
    assert read_progress(workspace) == progress("first")
    file.write(progress("a step"), at_once=True)
    assert read_progress(workspace) == progress("a step")
    clock.seconds += WRITE_EVERY_S
    file.write(progress("later"))
    assert read_progress(workspace) == progress("later")


def test_whoever_reads_has_the_old_text_or_the_new_one(workspace: Workspace) -> None:
    clock = Clock()
    file = ProgressFile(workspace, clock)
    file.write(progress("first"))
    with workspace.progress.open("rb") as opened:
        file.write(progress("second"), at_once=True)
        assert RunProgress.model_validate_json(opened.read()) == progress("first")


def test_what_cannot_be_written_is_not_told_and_harms_nobody(workspace: Workspace) -> None:
    file = ProgressFile(workspace, Clock())
    file.write(progress("a lone \ud800 surrogate"), at_once=True)
    assert read_progress(workspace) is None
    workspace.progress.mkdir(parents=True)
    (workspace.progress / "occupied").touch()
    file.write(progress("a folder is in the way"), at_once=True)
    file.remove()
    assert read_progress(workspace) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"step": "cut"}', b"\xff"])
def test_a_damaged_file_is_no_progress(workspace: Workspace, content: bytes) -> None:
    workspace.progress.write_bytes(content)
    assert read_progress(workspace) is None


def test_it_stays_with_the_workspace_when_a_run_moves_to_history(workspace: Workspace) -> None:
    request = Request(kernel="rms_norm", run_id="20260131T000000Z-000000", created_at="2026-01-31T00:00:00+00:00")
    write_document(workspace.request, request)
    ProgressFile(workspace, Clock()).write(progress("baselines"))
    archived = archive(workspace)
    assert archived is not None
    assert [path.name for path in archived.iterdir()] == ["request.json"]
    assert read_progress(workspace) == progress("baselines")
