"""One process of a worker: its start, a line to it and a line from it within limits, and its end with all it started.

Must not know what the lines say.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from warpsmith.contracts.errors import Unavailable
from warpsmith.measure.worker.leftovers import HostMemory, end_all
from warpsmith.measure.worker.output import CappedLog
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure
from warpsmith.measure.worker.scratch import Scratch

#: Chosen: often enough that a worker cannot take much more memory between two looks, seldom enough to disturb nothing.
LOOK_EVERY_S = 0.1

#: Chosen: no answer comes near it. The raw samples of the longest comparison are some megabytes.
LONGEST_ANSWER_BYTES = 1 << 28

_READ_BYTES = 1 << 16
#: Chosen: what was printed before an answer is a few reads; a thread that prints for ever is not waited for.
_READS_AFTER_AN_ANSWER = 64


@dataclass
class Spawned:
    """A process that leads a group and a session of its own. `mark` is in its environment, and in what it starts."""

    process: subprocess.Popen[bytes]
    mark: str
    scratch: Scratch
    output: CappedLog
    memory: HostMemory

    @classmethod
    def start(
        cls,
        module: str,
        *,
        mark: str,
        scratch: Scratch,
        log: IO[bytes],
        environment: Mapping[str, str],
        memory_limit_bytes: int | None = None,
    ) -> Spawned:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=scratch.work,
            env=dict(environment),
            start_new_session=True,
        )
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        return cls(process, mark, scratch, CappedLog(log), HostMemory(process.pid, memory_limit_bytes))

    @property
    def is_fit(self) -> bool:
        """Whether it can be asked: it runs, and where it runs is as it was made."""
        return self.process.poll() is None and self.scratch.is_whole

    def ask(self, line: bytes, limit_s: float) -> bytes:
        """The line that it answers; b"" where it ended instead.

        Raises WorkerError where it took too long (timeout), or the machine's memory (out_of_memory), or answered what
        is not one line (died): it has to be ended then.
        """
        assert self.process.stdin is not None
        deadline = time.monotonic() + limit_s
        try:
            self.process.stdin.write(line)
        except BrokenPipeError:
            return b""
        try:
            return self._answered(deadline, limit_s)
        finally:
            self._take_what_is_printed(_READS_AFTER_AN_ANSWER)
            self.output.flush()

    def end(self) -> frozenset[int]:
        """Ends it with all that it started, and removes its scratch folder. Returns the ids of what was ended.

        Raises Unavailable where it does not end.
        """
        try:
            ended = end_all(self.process, self.mark)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"process {self.process.pid} of a worker was killed and does not end: the GPU's driver holds it",
                next_command="nvidia-smi",
            ) from error
        finally:
            self._take_what_is_printed(_READS_AFTER_AN_ANSWER)
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()
            self.output.close()
            self.memory.close()
            self.scratch.remove()
        return ended

    def stop(self) -> None:
        """Kills its group, whoever is waiting for its answer: that one then ends the rest."""
        with contextlib.suppress(ProcessLookupError):  # it was gone already
            os.killpg(self.process.pid, signal.SIGKILL)

    def _answered(self, deadline: float, limit_s: float) -> bytes:
        assert self.process.stdout is not None and self.process.stderr is not None
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            answers = selector.register(self.process.stdout, selectors.EVENT_READ)
            selector.register(self.process.stderr, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                ready = [key for key, _ in selector.select(timeout=LOOK_EVERY_S)]
                if time.monotonic() > deadline:
                    raise _no_answer("timeout", f"no answer within {limit_s:g} s")
                if (taken := self.memory.taken()) is not None:
                    raise _no_answer("out_of_memory", taken)
                if answers in ready:
                    chunk = os.read(self.process.stdout.fileno(), _READ_BYTES)
                    if not chunk:
                        return b""
                    received += chunk
                elif not ready and self.process.poll() is not None:
                    return b""  # what it started may hold its end of the pipe
                if ready and not self._take_what_is_printed(1) and self.process.stderr in selector.get_map():
                    selector.unregister(self.process.stderr)
                if len(received) > LONGEST_ANSWER_BYTES:
                    raise _no_answer("died", f"the worker answered more than {LONGEST_ANSWER_BYTES} bytes")
        if received.count(b"\n") > 1:
            raise _no_answer("died", "the worker answered more than it was asked")
        return bytes(received)

    def _take_what_is_printed(self, reads: int) -> bool:
        """Puts what is there into the log. False where nothing will come any more."""
        assert self.process.stderr is not None
        for _ in range(reads):
            try:
                printed = os.read(self.process.stderr.fileno(), _READ_BYTES)
            except BlockingIOError:
                return True
            if not printed:
                return False
            self.output.write(printed)
        return True


def _no_answer(status: str, message: str) -> WorkerError:
    return WorkerError(WorkerFailure.model_validate({"status": status, "message": message}))
