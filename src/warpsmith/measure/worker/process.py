"""The parent's side: a worker process of its own group, with a time limit for every question.

Owns which process answers what, and what may run beside what. Must not know how anything is measured.
"""

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import IO

from warpsmith.contracts.base import Contract
from warpsmith.contracts.measurement import Memories
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
    "memory": 600,
    "compilation": 600,
    "host_time": 180,
    "count": 300,
}

#: Questions that get a process of their own: what one before them left in it would be in the answer.
ALONE_KINDS = frozenset({"memory", "compilation"})


@dataclass
class ProcessWorker:
    """One spawned worker. It starts at the first question and is replaced after a death, a hang or a sticky error.

    `gpu_uuid` None leaves the choice of GPU to CUDA. `module` is what the process runs. With `once` it is ended after
    every answer, before that is returned.
    """

    root: Path
    log: Path
    gpu_uuid: str | None = None
    module: str = "warpsmith.measure"
    once: bool = False
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)
    _stopped: bool = field(default=False, init=False, repr=False)

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
            if self.once:
                self._kill()
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
        if question.kind in ALONE_KINDS:
            return replace(self.measuring, once=True).ask(question)
        return self.measuring.ask(question)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        """Questions that compile, or ask for memory, run side by side; others would disturb each other, so in turn."""
        kinds = {question.kind for question in questions}
        if kinds == {"memory"}:
            return self._memories(questions)
        if kinds == {"compile"} and len(questions) > 1:
            return _side_by_side(self.compiling[: len(questions)] or (self.measuring,), questions)
        return [answer_or_failure(self, question) for question in questions]

    def close(self) -> None:
        for worker in (self.measuring, *self.compiling):
            worker.close()

    def _memories(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        """As many processes at once as compile; what did not fit beside others is asked again with none beside it."""
        count = min(len(questions), max(1, len(self.compiling)))
        workers = tuple(replace(self.measuring, once=True) for _ in range(count))
        answers = _side_by_side(workers, questions)
        return [
            answer_or_failure(self, question) if _ran_out_of_memory(answer) else answer
            for question, answer in zip(questions, answers, strict=True)
        ]


def _side_by_side(workers: Sequence[ProcessWorker], questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
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


def _ran_out_of_memory(answer: Contract | WorkerFailure) -> bool:
    if isinstance(answer, WorkerFailure):
        return answer.status == "out_of_memory"
    assert isinstance(answer, Memories)
    return any(why.startswith("out_of_memory") for memory in answer.memories for why in memory.failures.values())


def answer_or_failure(worker: ProcessWorker | LiveWorkers, question: AnyQuestion) -> Contract | WorkerFailure:
    """The answer, or why there is none, as a value."""
    try:
        return worker.ask(question)
    except WorkerError as error:
        return error.failure


def _read_available(stream: IO[bytes]) -> bytes:
    return os.read(stream.fileno(), 1 << 16)
