"""Runs: their ids, and how a finished one makes way for the next. Never deletes what a run wrote."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shlex
from datetime import datetime
from pathlib import Path

from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.request import Request
from warpsmith.workspace.atomic import sync_directory, unwritable
from warpsmith.workspace.bench_layout import BenchWorkspace
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

_MOVING = ".moving-"
#: The folder of what lay there without a request.json, which alone would name its run.
_UNNAMED = "without-request"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


def new_run_id(now: datetime) -> str:
    """An id that sorts by time: "20260131T235959Z-1a2b3c". `now` is in UTC."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def archive(workspace: Workspace) -> Path | None:
    """Moves everything of the current run to history/<run id>/ and returns that folder; None where there is nothing.

    What lies there without a request.json is no part of the next run either, and moves to history/without-request/.
    request.json moves last, so that a killed archive still is this run and is gone on with when called again.
    Raises UsageError where request.json is damaged, Unavailable where the disk does not let files be moved.
    """
    _finish_interrupted(workspace)
    run_id = _run_id(workspace)
    moving = workspace.history / f"{_MOVING}{run_id}"
    try:
        if run_id == _UNNAMED and not moving.is_dir() and not _of_the_run(workspace):
            return None
        moving.mkdir(parents=True, exist_ok=True)
        for path in _of_the_run(workspace):
            os.replace(path, moving / path.name)
        if workspace.request.is_file():
            os.replace(workspace.request, moving / workspace.request.name)
        return _in_place(workspace, moving)
    except OSError as error:
        raise unwritable(workspace.history / run_id, error) from error


def _run_id(workspace: Workspace) -> str:
    """The name of the current run's folder in the history. Raises UsageError."""
    if not workspace.request.is_file():
        return _UNNAMED
    run_id = read_document(workspace.request, Request).run_id
    if not _RUN_ID.fullmatch(run_id) or run_id == _UNNAMED:
        raise UsageError(
            f"{workspace.request}: run_id {run_id!r} cannot be the name of a folder",
            next_command=f"mv {shlex.quote(str(workspace.request))} {shlex.quote(f'{workspace.request}.damaged')}",
        )
    return run_id


def _of_the_run(workspace: Workspace) -> list[Path]:
    """All but the history, what `bench` measured, hidden files (the lock) and the request."""
    if not workspace.directory.is_dir():
        return []
    kept = (workspace.history, BenchWorkspace(workspace.root, workspace.kernel).directory, workspace.request)
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
    name = moving.name.removeprefix(_MOVING)
    names = (name if count == 1 else f"{name}-{count}" for count in itertools.count(1))
    place = next(path for path in (workspace.history / each for each in names) if not path.exists())
    os.rename(moving, place)
    sync_directory(workspace.history)
    sync_directory(workspace.directory)
    return place
