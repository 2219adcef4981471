"""A command's whole group ends with it, with its time limit, with an interrupt, and with whoever started it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.contracts.errors import UsageError
from warpsmith.project.commands import run_to_file

SRC = Path(__file__).resolve().parents[2] / "src"

#: Starts a process that holds the pipe open for an hour, says that it runs, and does what it is told after that.
STARTS_ANOTHER = """
import os, subprocess, sys, time
pipe = open(sys.argv[1], "w")
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], pass_fds=[pipe.fileno()])
pipe.write("running\\n")
pipe.flush()
"""
HANGS = STARTS_ANOTHER + "time.sleep(3600)\n"


class Pipe:
    """A named pipe that reads to its end only when every process that holds it open has ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a writer can open it only after a reader
        os.set_blocking(self._descriptor, True)

    def read_line(self) -> bytes:
        """Waits for the first writer, and for what it writes."""
        select.select([self._descriptor], [], [])
        return os.read(self._descriptor, 100)

    def read_to_the_end(self) -> bytes:
        return b"".join(iter(lambda: os.read(self._descriptor, 100), b""))

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "pipe")
    yield pipe
    pipe.close()


def command(program: str, pipe: Pipe) -> tuple[str, ...]:
    return (sys.executable, "-c", program, str(pipe.path))


def test_what_a_command_leaves_running_is_ended_when_it_has_ended(tmp_path: Path, pipe: Pipe) -> None:
    finished = run_to_file(command(STARTS_ANOTHER, pipe), root=tmp_path, log_path=tmp_path / "log", timeout_s=60)

    assert (finished.status, pipe.read_to_the_end()) == (0, b"running\n")


def test_the_whole_group_is_ended_at_the_time_limit(tmp_path: Path, pipe: Pipe) -> None:
    finished = run_to_file(command(HANGS, pipe), root=tmp_path, log_path=tmp_path / "log", timeout_s=1)

    assert finished.status is None
    pipe.read_to_the_end()


class Interrupted(BaseException):
    pass


def test_the_whole_group_is_ended_at_an_interrupt(tmp_path: Path, pipe: Pipe) -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted

    interrupts = HANGS.replace("time.sleep", f"os.kill({os.getpid()}, {int(signal.SIGUSR1)}); time.sleep")
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted):
            run_to_file(command(interrupts, pipe), root=tmp_path, log_path=tmp_path / "log", timeout_s=60)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert pipe.read_to_the_end() == b"running\n"


def test_the_whole_group_is_ended_when_whoever_started_it_is_killed(tmp_path: Path, pipe: Pipe) -> None:
    started = ["-c", HANGS, str(pipe.path)]
    parent = f"""
import sys
from pathlib import Path
from warpsmith.project.commands import run_to_file
folder = Path({str(tmp_path)!r})
run_to_file([sys.executable, *{started!r}], root=folder, log_path=folder / "log", timeout_s=3600)
"""
    with subprocess.Popen([sys.executable, "-c", parent], env={**os.environ, "PYTHONPATH": str(SRC)}) as process:
        try:
            assert pipe.read_line() == b"running\n"
        finally:
            process.kill()

    assert pipe.read_to_the_end() == b""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_that_a_signal_ended_says_by_which(tmp_path: Path, number: int) -> None:
    program = (sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})")

    assert run_to_file(program, root=tmp_path, log_path=tmp_path / "log", timeout_s=60).status == -number


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^cannot run 'no-such-program': No such file or directory$"):
        run_to_file(["no-such-program"], root=tmp_path, log_path=tmp_path / "log", timeout_s=60)


def test_a_command_has_no_input_and_its_output_is_the_log_alone(tmp_path: Path) -> None:
    program = "import os, sys; print(sys.stdin.read() == '', flush=True); os.write(2, b'err')"
    run_to_file((sys.executable, "-c", program), root=tmp_path, log_path=tmp_path / "log", timeout_s=60)

    assert (tmp_path / "log").read_text() == "True\nerr"
