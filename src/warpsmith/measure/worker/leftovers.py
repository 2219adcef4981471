"""Ends a worker with all that it started, also what left its group and session; and sees what memory it holds.

Reads /proc. A process that a worker started is known as below it, as long as it lives, and by a mark in the
environment that it was started with. Not found is what was started with another environment by a worker that is dead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

#: The environment variable that marks a worker and what it starts.
MARK = "WARPSMITH_WORKER"

#: Chosen: what is killed may have started another process just before; one that does so faster than this is not caught.
_PASSES = 20

#: Chosen: a process that a GPU's driver holds is gone in seconds; one that is not after this will not be.
GONE_WITHIN_S = 120.0

#: Chosen: a worker that holds nine tenths of all that it could have is ended, before the machine stands still.
_SPARE = 9

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def end_all(process: subprocess.Popen[bytes], mark: str) -> frozenset[int]:
    """Kills a worker, its group and what it started, and reaps it. Returns the ids of all that were found.

    Raises TimeoutExpired where it does not end.
    """
    ended: set[int] = {process.pid}
    for _ in range(_PASSES):
        found = started_by(process.pid, mark)
        with contextlib.suppress(ProcessLookupError):  # it was gone already
            os.killpg(process.pid, signal.SIGKILL)
        kill(found)
        ended |= found
        if not found:
            break
    process.wait(GONE_WITHIN_S)
    kill(started_by(process.pid, mark))  # of what it started while it was killed
    return frozenset(ended)


def kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def started_by(pid: int, mark: str | None = None) -> set[int]:
    """What runs below a process, or carries its mark; itself excepted."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if name.isdecimal() and (parent := _parent_of_running(name)) is not None:
            parents[int(name)] = parent
            if mark is not None and f"{MARK}={mark}".encode() in _environment(name).split(b"\0"):
                found.add(int(name))
    below = {pid}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return (found | below) - {pid}


def _parent_of_running(name: str) -> int | None:
    """None for what is gone, also where nobody has asked yet how it ended."""
    try:
        fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[1])


def _environment(name: str) -> bytes:
    try:
        return Path("/proc", name, "environ").read_bytes()
    except OSError:  # gone, or another user's
        return b""


class HostMemory:
    """Whether a process takes the memory that the machine has. `limit_bytes` None: nine tenths of what it could have.

    Memory of a GPU, and what is pinned for one, is not counted.
    """

    def __init__(self, pid: int, limit_bytes: int | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._files: list[int] = []
        with contextlib.suppress(OSError):  # without /proc nothing is watched
            for path in (f"/proc/{pid}/statm", "/proc/meminfo"):
                self._files.append(os.open(path, os.O_RDONLY))

    def taken(self) -> str | None:
        """What the process holds, where that is too much."""
        try:
            statm, meminfo = (os.pread(file, 4096, 0) for file in self._files)
            held_bytes = int(statm.split()[1]) * _PAGE_BYTES
            _, _, rest = meminfo.partition(b"MemAvailable:")
            available_bytes = int(rest.split()[0]) * 1024
        except (OSError, ValueError, IndexError):  # it is gone, or not told
            return None
        if self._limit_bytes is None:
            too_much = available_bytes * _SPARE < held_bytes
        else:
            too_much = held_bytes > self._limit_bytes
        told = f"the worker held {held_bytes / 1e9:.2f} GB of the machine's memory"
        return f"{told}, which had {available_bytes / 1e9:.2f} GB left" if too_much else None

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []
