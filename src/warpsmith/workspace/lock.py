"""One run at a time on a workspace, one measurement at a time on a GPU. A killed holder's lock is free at once."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from warpsmith.contracts.errors import Unavailable
from warpsmith.workspace.atomic import replace_bytes, unwritable
from warpsmith.workspace.layout import Workspace


@contextmanager
def run_lock(workspace: Workspace) -> Iterator[None]:
    """Makes and holds a workspace. Raises Unavailable at once, naming the holder, where another process has it."""
    workspace.create()
    with _held(workspace.lock, f"the workspace of {workspace.kernel}", timeout_s=0):
        yield


def holder(workspace: Workspace) -> str | None:
    """Who works on a workspace now, such as "process 17, started 2026-01-31T00:00:00+00:00"; None where nobody does."""
    if not _holder_file(workspace.lock).is_file():
        return None
    lock = FileLock(workspace.lock)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return _told_by(_holder_file(workspace.lock))
    except OSError as error:
        raise unwritable(workspace.lock, error) from error
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
        lock.acquire(timeout=timeout_s)
    except Timeout as error:
        raise Unavailable(f"{what} is in use by {_told_by(told)}; wait until it has ended, or end it") from error
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        replace_bytes(told, json.dumps({"pid": os.getpid(), "started": started}).encode())
        yield
    finally:
        told.unlink(missing_ok=True)
        lock.release()


def _holder_file(lock: Path) -> Path:
    """Taking a lock truncates the lock file, so who holds it stands in a file of its own."""
    return lock.with_name(f"{lock.name}-holder.json")


def _told_by(path: Path) -> str:
    try:
        told: Any = json.loads(path.read_bytes())
        return f"process {told['pid']}, started {told['started']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
