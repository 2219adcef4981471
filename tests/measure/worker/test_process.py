from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.contracts.device import Environment
from warpsmith.measure.worker import process
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Identify, TargetRef, WorkerError
from warpsmith.measure.worker.serve import is_sticky

HERE = Path(__file__).parent


def wish(text: str) -> Identify:
    return Identify(target=TargetRef(path=text, root="", sha256="0" * 64))


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessWorker]:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    worker = ProcessWorker(tmp_path, tmp_path / "worker.log", module="misbehaving_worker")
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
