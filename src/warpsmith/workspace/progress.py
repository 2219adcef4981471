"""The small file that says how far the running command has come. For whoever looks; no run depends on it.

Written without waiting for the disk, and never at the cost of the run: what cannot be written is not told.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.progress import RunProgress
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

#: Chosen: twice a second is as often as a person can read it.
WRITE_EVERY_S = 0.5


class ProgressFile:
    """A run's .progress.json, held by the process that has the run's lock. `clock` counts seconds."""

    def __init__(self, workspace: Workspace, clock: Callable[[], float]) -> None:
        self._path, self._clock = workspace.progress, clock
        self._written_s: float | None = None

    def write(self, progress: RunProgress, *, at_once: bool = False) -> None:
        """Replaces the file, unless that was done a moment ago and this is not to be told at once."""
        now_s = self._clock()
        if not at_once and self._written_s is not None and now_s - self._written_s < WRITE_EVERY_S:
            return
        self._written_s = now_s
        beside = self._path.with_name(f"{self._path.name}.new")
        with contextlib.suppress(OSError, ValueError):  # ValueError: a text that is no UTF-8
            beside.write_text(progress.model_dump_json(indent=2) + "\n", encoding="utf-8")
            os.replace(beside, self._path)

    def remove(self) -> None:
        """The command came to its end: there is nothing left to tell."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def read_progress(workspace: Workspace) -> RunProgress | None:
    """What the running command, or one that was cut off, told last. None where there is nothing that can be read."""
    try:
        return read_document(workspace.progress, RunProgress)
    except UsageError:
        return None
