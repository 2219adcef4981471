"""Who runs detached on a workspace, and how the last one ended.

A detached process inherits an open file on which an exclusive lock is held, and so has it until it ends, however it
ends: a process id that was given to another one by now misleads nobody. Must not know what it runs.
"""

from __future__ import annotations

import fcntl
import os
import time
from datetime import datetime, timezone

from warpsmith.contracts.detached import Detached, DetachedNow
from warpsmith.contracts.errors import Unavailable, UsageError
from warpsmith.workspace.atomic import unwritable
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace

#: Chosen: whoever looks holds the lock, shared, for less than a millisecond.
PATIENCE_S, POLL_S = 1.0, 0.01


def take(workspace: Workspace, command: str) -> int:
    """Writes down that `command` is about to start detached, and returns the open file that its process has to inherit.

    Raises Unavailable where another one runs, or the disk does not let it be written.
    """
    try:
        descriptor = os.open(workspace.detached_lock, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise unwritable(workspace.detached_lock, error) from error
    try:
        _lock(descriptor, workspace)
        log = workspace.relative(workspace.detached_log)
        write_document(workspace.detached, Detached(command=command, log=log, started_at=_now()))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def began(workspace: Workspace) -> None:
    """This process is the detached one."""
    _renew(workspace, pid=os.getpid())


def ended(workspace: Workspace, exit_code: int) -> None:
    """This process is the detached one, and about to end."""
    _renew(workspace, pid=os.getpid(), exit_code=exit_code, ended_at=_now())


def read_detached(workspace: Workspace) -> DetachedNow | None:
    """What was started detached last; None where nothing was, or another command took up the run since."""
    running = _is_running(workspace)
    try:
        found = read_document(workspace.detached, Detached)
    except UsageError:
        return None  # for whoever looks; no run depends on it
    told = found.model_dump(exclude={"schema_version"})
    follow = f"warpsmith status {workspace.kernel}"
    return DetachedNow(kernel=workspace.kernel, running=running, follow=follow, **told)


def _is_running(workspace: Workspace) -> bool:
    try:
        descriptor = os.open(workspace.detached_lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _lock(descriptor: int, workspace: Workspace) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline_s:
                raise Unavailable(
                    f"a detached command works on {workspace.kernel} already; wait until it has ended, or end it",
                    next_command=f"warpsmith status {workspace.kernel}",
                ) from error
        except OSError as error:
            raise unwritable(workspace.detached_lock, error) from error
        time.sleep(POLL_S)


def _renew(workspace: Workspace, **fields: object) -> None:
    found = read_document(workspace.detached, Detached)
    write_document(workspace.detached, Detached.model_validate({**found.model_dump(), **fields}))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
