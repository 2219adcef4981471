"""The parent's side: a worker process with a time limit for every question, whatever the kernels in it do.

Owns when a process is started, given up and replaced. Must not know how anything is measured, nor by how many.
"""

from __future__ import annotations

import compileall
import functools
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO

from pydantic import ValidationError

from warpsmith.contracts.base import Contract
from warpsmith.device.gpus import choose
from warpsmith.measure.worker.confinement import WRITABLE, confinement
from warpsmith.measure.worker.leftovers import MARK
from warpsmith.measure.worker.protocol import ANSWER_TYPES, AnyQuestion, Worker, WorkerError, WorkerFailure
from warpsmith.measure.worker.scratch import Scratch, cache_variables, make_devices, writable_places
from warpsmith.measure.worker.spawned import Spawned
from warpsmith.measure.worker.tree import tree_of
from warpsmith.project.commands import import_path, tail_of
from warpsmith.workspace.atomic import unwritable

#: Chosen: several times what each kind took on an H200. A limit is for a hang, not for a slow answer.
TIME_LIMIT_S = {
    "describe": 180,
    "identify": 180,
    "inspect": 240,
    "compile": 600,
    "compile_offline": 600,
    "check": 600,
    "time": 300,
    "memory": 600,
    "compilation": 600,
    "host_time": 180,
    "count": 300,
    "sanitize": 600,
}

#: How Python's faulthandler begins to tell of a crash, and the line of its end that tells nothing.
_CRASH, _MODULES = "Fatal Python error", "Extension modules:"

#: Questions that load no variant.
TRUSTED_KINDS = frozenset({"describe", "identify", "inspect"})

#: Chosen: NVML no longer lists a process that is gone within a second; one that stays longer is not waited for.
GPU_FREE_WITHIN_S = 30.0


@dataclass
class ProcessWorker:
    """One spawned worker. It starts at the first question and is replaced after a death, a hang or a sticky error, and
    where it retires.

    It runs in a scratch folder, and writes there, to caches and to `writable` alone; where this kernel cannot see to
    that, what a variant changed in the repository is put back and the question fails (tampered).

    `gpu_uuid` None leaves the choice of GPU to CUDA. `module` is what the process runs. With `once` it is ended after
    every answer, before that is returned. `interprets`: Triton's interpreter runs kernels, which is for CPU tensors.
    `memory_limit_bytes` is what it may hold of the machine's memory; None is nine tenths of what there is.
    """

    root: Path
    log: Path
    gpu_uuid: str | None = None
    module: str = "warpsmith.measure"
    once: bool = False
    interprets: bool = False
    writable: tuple[Path, ...] = ()
    memory_limit_bytes: int | None = None
    _spawned: Spawned | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)
    _stopped: bool = field(default=False, init=False, repr=False)

    def ask(self, question: AnyQuestion) -> Contract:
        with self._lock:
            if confinement().reason is None or question.kind in TRUSTED_KINDS:
                return self._answer(question)
            return self._watched_answer(question)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        return [answer_or_failure(self, question) for question in questions]

    def close(self) -> None:
        self._end()

    def stop(self) -> None:
        """Ends what another thread is asking, for good: every question from now on fails."""
        self._stopped = True
        spawned = self._spawned
        if spawned is not None:
            spawned.stop()

    def _answer(self, question: AnyQuestion) -> Contract:
        spawned = self._started()
        try:
            line = spawned.ask(question.model_dump_json().encode() + b"\n", TIME_LIMIT_S[question.kind])
        except BaseException:
            self._end(in_order=False)
            raise
        if not line:
            raise self._died(spawned, question)
        if self.once:
            self._end()
        return self._parse(question, line)

    def _watched_answer(self, question: AnyQuestion) -> Contract:
        """The answer, with the repository as it was. Raises WorkerError (tampered) where it was not."""
        tree = tree_of(self.root, self.log.parent)
        tree.begin()
        besides = ""
        try:
            answer: Contract | None = self._answer(question)
        except WorkerError as error:
            answer, besides = None, f"; besides, {error}"
            failure = error
        finally:
            changes = tree.end()
        if changes:
            self._end(in_order=False)
            changes += tree.put_back()  # what it did until it was ended
            message = f"files of the repository were touched: {'; '.join(changes)}{besides}"
            raise WorkerError(WorkerFailure(status="tampered", message=message))
        if answer is None:
            raise failure
        return answer

    def _started(self) -> Spawned:
        if self._spawned is not None and not self._spawned.is_fit:
            self._end(in_order=False)
        if self._spawned is None:
            log = self._opened_log()
            compile_once(Path(__file__).resolve().parents[2])
            mark, scratch = secrets.token_hex(8), Scratch.new(self.root)
            self._spawned = Spawned.start(
                self.module,
                mark=mark,
                scratch=scratch,
                log=log,
                environment=self._environment(mark, scratch),
                memory_limit_bytes=self.memory_limit_bytes,
            )
        if self._stopped:
            self._end()
            raise WorkerError(WorkerFailure(status="died", message="the worker was stopped"))
        return self._spawned

    def _opened_log(self) -> IO[bytes]:
        """Raises Unavailable."""
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            return self.log.open("ab", buffering=0)
        except OSError as error:
            raise unwritable(self.log, error) from error

    def _environment(self, mark: str, scratch: Scratch) -> dict[str, str]:
        environment = dict(os.environ)
        package_root = str(Path(__file__).resolve().parents[3])
        environment["PYTHONPATH"] = import_path(self.root, package_root)
        environment["PYTHONSAFEPATH"] = "1"  # modules are those of the repository, not the links to them
        environment["TMPDIR"] = str(scratch.temporary)
        environment[MARK] = mark
        environment.update(cache_variables(environment, self.root))
        if self.gpu_uuid is not None:
            environment["CUDA_VISIBLE_DEVICES"] = self.gpu_uuid
        if self.interprets:
            environment["TRITON_INTERPRET"] = "1"  # triton reads it when it is imported
        if confinement().reason is None:
            make_devices()
            places = (*writable_places(environment, self.root), scratch.work, scratch.temporary, *self.writable)
            environment[WRITABLE] = json.dumps([str(place) for place in places])
        return environment

    def _parse(self, question: AnyQuestion, line: bytes) -> Contract:
        try:
            reply = json.loads(line)
            failure = WorkerFailure.model_validate(reply["failure"]) if "failure" in reply else None
            answer = None if failure else ANSWER_TYPES[question.kind].model_validate_json(json.dumps(reply["answer"]))
        except (ValueError, ValidationError, KeyError, TypeError) as error:
            self._end(in_order=False)
            message = f"what the worker answered to {question.kind!r} is no answer: {error}"
            raise WorkerError(WorkerFailure(status="died", message=message)) from error
        if reply.get("retired") or (failure is not None and failure.sticky):
            self._end(in_order=False)
        if failure is not None:
            raise WorkerError(failure)
        assert answer is not None
        return answer

    def _died(self, spawned: Spawned, question: AnyQuestion) -> WorkerError:
        self._end(in_order=False)
        code = spawned.process.returncode
        how = _signal_named(code) if code < 0 else ", by what it ran,"
        what = f"the worker ended with status {code}{how} while answering {question.kind!r}"
        words = self._last_words(crashed=code < 0 and code != -signal.SIGKILL)
        message = f"{what}; its last words:\n{words}" if words else f"{what}, without a word"
        return WorkerError(WorkerFailure(status="died", message=message, exit_status=code if code >= 0 else None))

    def _last_words(self, crashed: bool, count: int = 8) -> str:
        """The end of the log; after a crash, where Python says that it was."""
        if not self.log.is_file():
            return "(no log)"
        lines = [line for line in tail_of(self.log, 1 << 14).splitlines() if line and not line.startswith(_MODULES)]
        crashes = [number for number, line in enumerate(lines) if line.startswith(_CRASH)]
        return "\n".join(lines[crashes[-1] :][:count] if crashed and crashes else lines[-count:])

    def _end(self, *, in_order: bool = True) -> None:
        """Where a kernel may have been running, the GPU is free again when this returns, or is not waited for."""
        spawned, self._spawned = self._spawned, None
        if spawned is None:
            return
        ended = spawned.end()
        if in_order or not self.gpu_uuid:
            return
        deadline = time.monotonic() + GPU_FREE_WITHIN_S
        while (gpu := choose(self.gpu_uuid)) and ended & set(gpu.other_processes or ()):
            if time.monotonic() > deadline:
                return
            time.sleep(0.1)


@functools.cache
def compile_once(package: Path) -> None:
    """Bytecode beside the source, where a confined worker cannot write: each would compile what it imports anew, and
    none may hand bytecode to the next. Where nothing can be written, nothing is.
    """
    if not sys.dont_write_bytecode:
        compileall.compile_dir(package, quiet=2)


def answer_or_failure(worker: Worker, question: AnyQuestion) -> Contract | WorkerFailure:
    """The answer, or why there is none, as a value."""
    try:
        return worker.ask(question)
    except WorkerError as error:
        return error.failure


def _signal_named(code: int) -> str:
    """The signal that ended a process, as people know it."""
    by_whom = ", as the kernel sends it where memory runs out" if code == -signal.SIGKILL else ""
    return f" ({signal.Signals(-code).name}{by_whom})"
