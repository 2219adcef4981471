"""Runs a command of the user's with its output in a file, and ends all it started when it has to stop."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.atomic import unwritable

#: A file, not a module: it starts in the bare interpreter, with nothing of the environment's packages.
_SUPERVISOR = Path(__file__).with_name("supervise.py")


@dataclass(frozen=True)
class Finished:
    """How a command ended. `status` None means that it was killed at its time limit."""

    status: int | None
    duration_s: float


def with_this_python(command: Sequence[str]) -> tuple[str, ...]:
    """The command with a first word `python` replaced by the interpreter that is running."""
    return (sys.executable, *command[1:]) if command and command[0] == "python" else tuple(command)


def import_path(root: Path, *first: str) -> str:
    """PYTHONPATH with which a repository's own packages are found before installed ones; `first` before all."""
    return os.pathsep.join(
        path for path in (*first, str(root / "src"), str(root), os.environ.get("PYTHONPATH")) if path
    )


def run_to_file(
    command: Sequence[str], *, root: Path, log_path: Path, timeout_s: float, env: Mapping[str, str] | None = None
) -> Finished:
    """Runs in a process group of its own, in `root`; stdout and stderr go to `log_path`, which starts empty.

    Raises UsageError where there is no such program, Unavailable where the log cannot be written. However it ends,
    at its time limit, by an interrupt or because this process is killed, nothing of the group goes on running.
    """
    try:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log = log_path.open("wb")
    except OSError as error:
        raise unwritable(log_path, error) from error
    began = time.monotonic()
    with log:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR), *command],
                cwd=root,
                env=None if env is None else dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            raise _cannot_run(command[0], error.errno) from error
        try:
            told = _told_within(process, timeout_s)
        finally:
            end_group(process)
    if told is None:
        return Finished(None, time.monotonic() - began)
    if "errno" in told:
        raise _cannot_run(command[0], told["errno"])
    return Finished(told.get("status", process.returncode), time.monotonic() - began)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the group that a process leads, and reaps the process."""
    with contextlib.suppress(ProcessLookupError):  # it was gone already
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # what was left to write has no reader any more
                stream.close()


def _told_within(process: subprocess.Popen[bytes], timeout_s: float) -> dict[str, int] | None:
    """What the supervisor tells: None where that is nothing in time, {} where it was killed itself."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout_s):
            return None
    line = process.stdout.readline()
    return dict(json.loads(line)) if line else {}


def _cannot_run(program: str, error: int | None) -> UsageError:
    return UsageError(f"cannot run {program!r}: {os.strerror(error or 0)}", next_command="edit warpsmith.yaml")


def tail_of(path: Path, limit_bytes: int) -> str:
    """The last lines of a file, at most `limit_bytes` of it, however long it is."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - limit_bytes))
        tail = file.read()
    if size > limit_bytes:
        tail = tail.partition(b"\n")[2] or tail
    return tail.decode("utf-8", errors="replace")
