from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.device import Environment
from warpsmith.contracts.measurement import Compilation, Memories, SourceRef
from warpsmith.measure.worker import process
from warpsmith.measure.worker.failures import is_sticky
from warpsmith.measure.worker.live import LiveWorkers
from warpsmith.measure.worker.process import ProcessWorker, compile_once
from warpsmith.measure.worker.protocol import (
    Compile,
    Identify,
    MeasureCompilation,
    MeasureMemory,
    TargetRef,
    WorkerError,
    WorkerFailure,
)

HERE = Path(__file__).parent


def wish(text: str) -> Identify:
    return Identify(target=TargetRef(path=text, root="", sha256="0" * 64))


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessWorker]:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    worker = ProcessWorker(tmp_path, tmp_path / "worker.log", module="misbehaving_worker", writable=(tmp_path,))
    yield worker
    worker.close()


def pid_of(worker: ProcessWorker) -> str:
    answer = worker.ask(wish("obey"))
    assert isinstance(answer, Environment)
    return answer.gpu_name


def test_one_process_answers_many_questions(worker: ProcessWorker) -> None:
    assert pid_of(worker) == pid_of(worker)


def test_what_a_kernel_prints_is_never_taken_for_an_answer(worker: ProcessWorker) -> None:
    answer = worker.ask(wish("print"))
    assert isinstance(answer, Environment)
    assert "forged" in worker.log.read_text()


def test_a_dead_worker_is_named_with_its_last_words_and_replaced(worker: ProcessWorker) -> None:
    before = pid_of(worker)
    with pytest.raises(WorkerError) as error:
        worker.ask(wish("die"))
    assert error.value.failure.status == "died"
    assert "status 9" in error.value.failure.message
    assert "my last words" in error.value.failure.message
    assert pid_of(worker) != before


def test_code_that_ends_the_process_in_order_is_told_as_what_it_raised(worker: ProcessWorker) -> None:
    before = pid_of(worker)
    with pytest.raises(WorkerError) as error:
        worker.ask(wish("exit"))
    assert error.value.failure == WorkerFailure(status="runtime_failed", message="SystemExit: 3")
    assert pid_of(worker) == before


def test_code_that_ends_the_process_at_once_is_told_with_its_status(worker: ProcessWorker) -> None:
    with pytest.raises(WorkerError) as error:
        worker.ask(wish("vanish"))
    message = "the worker ended with status 3, by what it ran, while answering 'identify', without a word"
    assert error.value.failure == WorkerFailure(status="died", message=message, exit_status=3)


def test_a_hanging_worker_is_killed_at_its_limit_and_replaced(
    worker: ProcessWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pid_of(worker)
    monkeypatch.setitem(process.TIME_LIMIT_S, "identify", 0.3)
    with pytest.raises(WorkerError) as error:
        worker.ask(wish("hang"))
    assert error.value.failure.status == "timeout"
    monkeypatch.setitem(process.TIME_LIMIT_S, "identify", 60)
    assert pid_of(worker) != before


def test_a_sticky_device_error_replaces_the_worker(worker: ProcessWorker) -> None:
    before = pid_of(worker)
    with pytest.raises(WorkerError) as error:
        worker.ask(wish("raise"))
    assert (error.value.failure.status, error.value.failure.sticky) == ("runtime_failed", True)
    assert pid_of(worker) != before


def test_a_worker_that_retires_answers_once_more_and_is_replaced(worker: ProcessWorker) -> None:
    before = pid_of(worker)
    answer = worker.ask(wish("retire"))
    assert isinstance(answer, Environment)
    assert answer.gpu_name == before
    after = pid_of(worker)
    assert (after != before, pid_of(worker)) == (True, after)


def test_a_refusal_leaves_the_worker_alive(worker: ProcessWorker) -> None:
    before = pid_of(worker)
    with pytest.raises(WorkerError) as error:
        worker.ask(wish("refuse"))
    assert error.value.failure.status == "bad_target"
    assert pid_of(worker) == before


def test_closing_ends_the_process(worker: ProcessWorker) -> None:
    before = pid_of(worker)
    worker.close()
    assert not Path(f"/proc/{before}").exists()


def test_a_kernel_that_reads_finds_no_question(worker: ProcessWorker) -> None:
    answer = worker.ask(wish("read"))
    assert isinstance(answer, Environment)
    assert answer.gpu_name == "''"


CASE = Case(axes={"M": 1}, dtype=DType.FLOAT32)
SOURCE = SourceRef(path="", sha256="0" * 64)


def memory_wish(text: str) -> MeasureMemory:
    return MeasureMemory(target=wish(text).target, contenders=(), case=CASE, modes=(Mode.FORWARD,))


def compilation_wish(text: str) -> MeasureCompilation:
    return MeasureCompilation(target=wish(text).target, source=SOURCE, case=CASE, cases=(CASE,), passes=(Mode.FORWARD,))


def answering_pid(answer: object) -> int:
    if isinstance(answer, Compilation):
        return answer.specializations["a"]
    assert isinstance(answer, Memories)
    return answer.memories[0].peak_bytes["a"]


def live(worker: ProcessWorker, *, compiling: int = 2) -> LiveWorkers:
    return LiveWorkers(worker, tuple(replace(worker) for _ in range(compiling)))


@pytest.mark.parametrize("asked", [memory_wish, compilation_wish])
def test_what_must_be_alone_has_a_process_of_its_own_that_is_gone_when_the_answer_is_there(
    worker: ProcessWorker, asked: Callable[[str], MeasureMemory | MeasureCompilation]
) -> None:
    measuring, workers = int(pid_of(worker)), live(worker)
    answers = [workers.ask(asked("obey")), *workers.ask_all([asked("obey")] * 3)]

    pids = {answering_pid(answer) for answer in answers}
    assert len(pids) == 4 and measuring not in pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert int(pid_of(worker)) == measuring


def test_memory_is_measured_side_by_side(
    worker: ProcessWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(process.TIME_LIMIT_S, "memory", 60)
    os.mkfifo(tmp_path / "pipe")
    answers = live(worker).ask_all([memory_wish(f"{end} {tmp_path / 'pipe'}") for end in "rw"])

    assert all(isinstance(answer, Memories) for answer in answers)


def test_what_does_not_fit_beside_others_is_measured_again_alone(worker: ProcessWorker, tmp_path: Path) -> None:
    crowded = memory_wish(f"crowded {tmp_path / 'tried'}")
    again, other, full = live(worker).ask_all([crowded, memory_wish("obey"), memory_wish("full")])

    assert answering_pid(again) != answering_pid(other)
    assert full == WorkerFailure(status="out_of_memory", message="too large")


def test_a_process_for_one_question_that_dies_is_told_and_the_rest_is_answered(worker: ProcessWorker) -> None:
    died, answered = live(worker).ask_all([compilation_wish("die"), compilation_wish("obey")])

    assert isinstance(died, WorkerFailure) and died.status == "died"
    assert isinstance(answered, Compilation)


PARENT = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Identify, TargetRef
folder, pipe = map(Path, sys.argv[1:])
worker = ProcessWorker(folder, folder / "worker.log", module="misbehaving_worker", writable=(folder,))
worker.ask(Identify(target=TargetRef(path=f"start another {{pipe}}", root="", sha256="0" * 64)))
"""


def test_a_worker_whose_parent_is_killed_ends_at_once_with_all_that_it_started(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[2] / "src")])}
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), str(pipe)], env=environment) as parent:
        try:
            with pipe.open("rb", buffering=0) as held:  # both the worker and what it started hold the other end
                assert held.readline() == b"running\n"
                parent.kill()
                assert held.read() == b""
        finally:
            parent.kill()


class Interrupted(BaseException):
    pass


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGUSR1 raises Interrupted, as Ctrl-C raises in the command line."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_does_not_wait_for_workers_that_compile(
    worker: ProcessWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = live(worker)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    case = Case(axes={"M": 1}, dtype=DType.FLOAT32)
    ref = SourceRef(path="", sha256="0" * 64)
    questions = [
        Compile(target=wish(text).target, seed=0, source=ref, case=case, mode=Mode.FORWARD, settings=({},))
        for text in ("hang", f"tell {pipe}", "hang", "hang")
    ]

    def interrupt() -> None:
        pipe.read_text()
        os.kill(os.getpid(), signal.SIGUSR1)

    Thread(target=interrupt, daemon=True).start()
    with pytest.raises(Interrupted):
        workers.ask_all(questions)

    with pytest.raises(WorkerError, match="the worker was stopped"):
        workers.compiling[0].ask(wish("obey"))
    assert pid_of(worker)  # what measures was not asked, and can still be


@pytest.mark.parametrize(
    ("message", "sticky"),
    [
        ("CUDA error: an illegal memory access was encountered", True),
        ("CUDA error: device-side assert triggered", True),
        (
            "CUDA error: operation not permitted\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
            False,
        ),
        ("Triton Error [CUDA]: out of resource: shared memory", False),
    ],
)
def test_only_an_error_that_breaks_the_context_is_sticky(message: str, sticky: bool) -> None:
    assert is_sticky(RuntimeError(message)) is sticky


def test_who_starts_workers_leaves_the_bytecode_that_they_cannot_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    for name, text in (("sound", "x = 1\n"), ("broken", "x = (\n")):
        (inner / f"{name}.py").write_text(text)
    compile_once(tmp_path / "package")
    kept = [path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")]
    assert kept == ["sound"]
