"""Runs: their ids, and how a finished one makes way for the next. Never deletes what a run wrote."""

from __future__ import annotations

import os
import re
import secrets
from datetime import datetime
from pathlib import Path

from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.request import Request
from warpsmith.workspace.atomic import sync_directory, unwritable
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

_MOVING = ".moving-"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


def new_run_id(now: datetime) -> str:
    """An id that sorts by time: "20260131T235959Z-1a2b3c". `now` is in UTC."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def archive(workspace: Workspace) -> Path | None:
    """Moves everything of the current run to history/<run id>/ and returns that folder; None where there is no run.

    request.json moves last, so that a killed archive still is this run and is gone on with when called again.
    Raises UsageError where request.json is damaged, Unavailable where the disk does not let files be moved.
    """
    _finish_interrupted(workspace)
    if not workspace.request.is_file():
        return None
    run_id = read_document(workspace.request, Request).run_id
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"{workspace.request}: run_id {run_id!r} cannot be the name of a folder")
    moving = workspace.history / f"{_MOVING}{run_id}"
    try:
        moving.mkdir(parents=True, exist_ok=True)
        for path in _of_the_run(workspace):
            os.replace(path, moving / path.name)
        os.replace(workspace.request, moving / workspace.request.name)
        return _in_place(workspace, moving)
    except OSError as error:
        raise unwritable(workspace.history / run_id, error) from error


def _of_the_run(workspace: Workspace) -> list[Path]:
    """All but the history, hidden files (the lock) and the request."""
    kept = (workspace.history, workspace.request)
    return sorted(path for path in workspace.directory.iterdir() if path not in kept and not path.name.startswith("."))


def _finish_interrupted(workspace: Workspace) -> None:
    """Gives its name to a run that was moved whole and not yet named."""
    for moving in workspace.history.glob(f"{_MOVING}*"):
        if (moving / workspace.request.name).is_file():
            try:
                _in_place(workspace, moving)
            except OSError as error:
                raise unwritable(moving, error) from error


def _in_place(workspace: Workspace, moving: Path) -> Path:
    place = workspace.history / moving.name.removeprefix(_MOVING)
    os.rename(moving, place)
    sync_directory(workspace.history)
    sync_directory(workspace.directory)
    return place
