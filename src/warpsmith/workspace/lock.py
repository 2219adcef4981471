"""One run at a time on a workspace, one measurement at a time on a GPU. A killed holder's lock is free at once."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from warpsmith.contracts.detached import Detached
from warpsmith.contracts.errors import Unavailable, UsageError
from warpsmith.workspace.atomic import replace_bytes, unwritable
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

#: Chosen: `holder` takes a lock for less than a millisecond, to see whether it is free. Whoever wants it then waits
#: that out, and a second `holder` at the same moment does not take the first for a run.
PATIENCE_S, LOOK_S, POLL_S = 1.0, 0.05, 0.01


@dataclass(frozen=True)
class Holder:
    """The process that has a lock. None where it has not said so yet."""

    pid: int | None = None
    started: str | None = None

    def __str__(self) -> str:
        return "another process" if self.pid is None else f"process {self.pid}, started {self.started}"


@contextmanager
def run_lock(workspace: Workspace) -> Iterator[None]:
    """Makes and holds a workspace. Raises Unavailable, naming the holder, where another process keeps it."""
    workspace.create()
    with _held(workspace.lock, f"the workspace of {workspace.kernel}", timeout_s=PATIENCE_S):
        _forget_another_detached(workspace)
        yield


def _forget_another_detached(workspace: Workspace) -> None:
    """How a detached command ended matters until another one takes up the run."""
    with contextlib.suppress(UsageError, OSError):
        if read_document(workspace.detached, Detached).pid != os.getpid():
            workspace.detached.unlink()


def holder(workspace: Workspace) -> Holder | None:
    """Who works on a workspace now; None where nobody does."""
    if not _holder_file(workspace.lock).is_file():
        return None
    lock = FileLock(workspace.lock)
    try:
        _acquire(lock, LOOK_S)
    except Timeout:
        return _told_by(_holder_file(workspace.lock))
    except OSError as error:
        raise unwritable(workspace.lock, error) from error
    with contextlib.suppress(OSError):
        _holder_file(workspace.lock).unlink(missing_ok=True)  # its writer was killed
    lock.release()
    return None


@contextmanager
def gpu_lock(uuid: str, *, timeout_s: float = 0) -> Iterator[None]:
    """Holds a GPU among this user's processes, whatever repository they run in.

    Waits up to `timeout_s` seconds, then raises Unavailable, naming the holder. Another user's processes are not
    seen here; `device.gpus` lists them.
    """
    name = re.sub(r"[^A-Za-z0-9-]", "_", uuid)
    with _held(cache_directory() / f"gpu-{name}.lock", f"GPU {uuid}", timeout_s=timeout_s):
        yield


def cache_directory() -> Path:
    """The user's cache: $XDG_CACHE_HOME/warpsmith, or ~/.cache/warpsmith (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "warpsmith"


@contextmanager
def _held(path: Path, what: str, *, timeout_s: float) -> Iterator[None]:
    told = _holder_file(path)
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _acquire(lock, timeout_s)
    except Timeout as error:
        raise Unavailable(f"{what} is in use by {_told_by(told)}; wait until it has ended, or end it") from error
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        replace_bytes(told, json.dumps({"pid": os.getpid(), "started": started}).encode())
        yield
    finally:
        with contextlib.suppress(OSError):  # a name that is left behind names nobody: the lock is what counts
            told.unlink(missing_ok=True)
        lock.release()


def _acquire(lock: FileLock, timeout_s: float) -> None:
    """Takes the lock, trying again for `timeout_s` seconds. Raises Timeout, OSError."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            lock.acquire(timeout=0)
            return
        except Timeout:
            if time.monotonic() >= deadline_s:
                raise
        time.sleep(POLL_S)


def _holder_file(lock: Path) -> Path:
    """Taking a lock truncates the lock file, so who holds it stands in a file of its own."""
    return lock.with_name(f"{lock.name}-holder.json")


def _told_by(path: Path) -> Holder:
    try:
        told: Any = json.loads(path.read_bytes())
        return Holder(int(told["pid"]), str(told["started"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Holder()
