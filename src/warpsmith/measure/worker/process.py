"""The parent's side: a worker process of its own group, with a time limit for every question."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO

from warpsmith.contracts.base import Contract
from warpsmith.measure.worker.protocol import ANSWER_TYPES, AnyQuestion, WorkerError, WorkerFailure
from warpsmith.project.commands import end_group, import_path, tail_of
from warpsmith.workspace.atomic import unwritable

#: Chosen: several times what each kind took on an H200. A limit is for a hang, not for a slow answer.
TIME_LIMIT_S = {
    "describe": 180,
    "identify": 180,
    "inspect": 240,
    "compile": 600,
    "compile_offline": 300,
    "check": 600,
    "time": 300,
    "memory": 300,
    "host_time": 180,
    "count": 300,
}


@dataclass
class ProcessWorker:
    """One spawned worker. It starts at the first question and is replaced after a death, a hang or a sticky error.

    `gpu_uuid` None leaves the choice of GPU to CUDA. `module` is what the process runs.
    """

    root: Path
    log: Path
    gpu_uuid: str | None = None
    module: str = "warpsmith.measure"
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)
    _stopped: bool = field(default=False, repr=False)

    def ask(self, question: AnyQuestion) -> Contract:
        with self._lock:
            process = self._started()
            try:
                assert process.stdin is not None
                process.stdin.write(question.model_dump_json().encode() + b"\n")
                process.stdin.flush()
                line = self._read_line(process, TIME_LIMIT_S[question.kind])
            except BrokenPipeError:
                line = b""
            except BaseException:
                self._kill()
                raise
            if not line:
                raise self._died(question)
        return self._parse(question, line)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        return [answer_or_failure(self, question) for question in questions]

    def close(self) -> None:
        self._kill()

    def stop(self) -> None:
        """Ends what another thread is asking, for good: every question from now on fails."""
        self._stopped = True
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):  # it was gone already
                os.killpg(process.pid, signal.SIGKILL)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._kill()
            with self._opened_log() as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", self.module],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self.root,
                    env=self._environment(),
                    start_new_session=True,
                )
        if self._stopped:
            self._kill()
            raise WorkerError(WorkerFailure(status="died", message="the worker was stopped"))
        return self._process

    def _opened_log(self) -> IO[bytes]:
        """Raises Unavailable."""
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            return self.log.open("ab")
        except OSError as error:
            raise unwritable(self.log, error) from error

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        package_root = str(Path(__file__).resolve().parents[3])
        environment["PYTHONPATH"] = import_path(self.root, package_root)
        if self.gpu_uuid is not None:
            environment["CUDA_VISIBLE_DEVICES"] = self.gpu_uuid
        return environment

    def _read_line(self, process: subprocess.Popen[bytes], limit_s: float) -> bytes:
        """One line, or b"" at end of file. Raises WorkerError (timeout) and kills the group past the limit."""
        assert process.stdout is not None
        deadline = time.monotonic() + limit_s
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(timeout=max(0.0, deadline - time.monotonic())):
                    self._kill()
                    raise WorkerError(WorkerFailure(status="timeout", message=f"no answer within {limit_s:.0f} s"))
                chunk = _read_available(process.stdout)
                if not chunk:
                    return b""
                received += chunk
        return bytes(received)

    def _parse(self, question: AnyQuestion, line: bytes) -> Contract:
        reply = json.loads(line)
        if "failure" in reply:
            failure = WorkerFailure.model_validate(reply["failure"])
            if failure.sticky:
                self._kill()
            raise WorkerError(failure)
        return ANSWER_TYPES[question.kind].model_validate_json(json.dumps(reply["answer"]))

    def _died(self, question: AnyQuestion) -> WorkerError:
        process = self._process
        self._kill()
        code = process.returncode if process else None
        what = f"the worker ended with status {code} while answering {question.kind!r}"
        message = f"{what}; its last words:\n{self._last_words()}"
        return WorkerError(WorkerFailure(status="died", message=message))

    def _last_words(self, lines: int = 8) -> str:
        if not self.log.is_file():
            return "(no log)"
        return "\n".join(tail_of(self.log, 8192).splitlines()[-lines:])

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            end_group(process)


@dataclass
class LiveWorkers:
    """The worker that measures, and beside it workers that only compile, started when there is much to compile."""

    measuring: ProcessWorker
    compiling: tuple[ProcessWorker, ...]

    def ask(self, question: AnyQuestion) -> Contract:
        return self.measuring.ask(question)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        """Compile questions run side by side; anything else would disturb a measurement and runs in turn."""
        if len(questions) < 2 or not all(question.kind == "compile" for question in questions):
            return self.measuring.ask_all(questions)
        workers = self.compiling[: len(questions)] or (self.measuring,)
        with ThreadPoolExecutor(max_workers=len(workers)) as pool:
            idle = list(workers)

            def answer(question: AnyQuestion) -> Contract | WorkerFailure:
                worker = idle.pop()
                try:
                    return answer_or_failure(worker, question)
                finally:
                    idle.append(worker)

            try:
                return list(pool.map(answer, questions))
            except BaseException:  # an interrupt: leaving the pool waits for its threads, and they for their workers
                for worker in workers:
                    worker.stop()
                raise

    def close(self) -> None:
        for worker in (self.measuring, *self.compiling):
            worker.close()


def answer_or_failure(worker: ProcessWorker, question: AnyQuestion) -> Contract | WorkerFailure:
    """The answer, or why there is none, as a value."""
    try:
        return worker.ask(question)
    except WorkerError as error:
        return error.failure


def _read_available(stream: IO[bytes]) -> bytes:
    return os.read(stream.fileno(), 1 << 16)
