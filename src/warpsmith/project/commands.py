"""Runs a command of the user's with its output in a file, and ends all it started when it has to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.atomic import unwritable


@dataclass(frozen=True)
class Finished:
    """How a command ended. `status` None means that it was killed at its time limit."""

    status: int | None
    duration_s: float


def with_this_python(command: Sequence[str]) -> tuple[str, ...]:
    """The command with a first word `python` replaced by the interpreter that is running."""
    return (sys.executable, *command[1:]) if command and command[0] == "python" else tuple(command)


def run_to_file(
    command: Sequence[str], *, root: Path, log_path: Path, timeout_s: float, env: Mapping[str, str] | None = None
) -> Finished:
    """Runs in a process group of its own, in `root`; stdout and stderr go to `log_path`, which starts empty.

    Raises UsageError where there is no such program, Unavailable where the log cannot be written. The whole group is
    killed at the time limit and at an interrupt.
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
                list(command),
                cwd=root,
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(
                f"cannot run {command[0]!r}: {error.strerror}", next_command="edit warpsmith.yaml"
            ) from error
        status: int | None = None
        try:
            status = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            pass  # a result too: `status` stays None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Finished(status, time.monotonic() - began)


def tail_of(path: Path, limit_bytes: int) -> str:
    """The last lines of a file, at most `limit_bytes` of it, however long it is."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - limit_bytes))
        tail = file.read()
    if size > limit_bytes:
        tail = tail.partition(b"\n")[2] or tail
    return tail.decode("utf-8", errors="replace")
