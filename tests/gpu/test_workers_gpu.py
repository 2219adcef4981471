"""Questions that have a process of their own, asked of real workers; and what breaks a CUDA context."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import ORIGINAL, Compilation, Contender, Memories, SourceRef
from warpsmith.measure.worker.live import LiveWorkers
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import (
    Compile,
    CompiledAnswer,
    MeasureCompilation,
    MeasureMemory,
    TargetRef,
    WorkerError,
)

pytestmark = pytest.mark.gpu

CASES = tuple(Case(axes={"M": rows, "N": 2048}, dtype=DType.BFLOAT16) for rows in (300, 600))
PASSES = (Mode.FORWARD, Mode.BACKWARD)
KERNEL = "src/warpsmith/kernels/rms_norm.py"

BREAKS_THE_CONTEXT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def wild_kernel(x_ptr, AWAY: tl.constexpr):
    tl.store(x_ptr + AWAY, 1.0)


def rms_norm(x, weight, eps, *, offset, casting):
    wild_kernel[(1,)](x, AWAY=1 << 44)
    torch.cuda.synchronize()
    return x
"""


def ref(path: Path) -> SourceRef:
    return SourceRef(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture
def target_file(root: Path) -> TargetRef:
    file = root / "benchmark" / "benchmark_rms_norm.py"
    return TargetRef(path=str(file), root=str(root), sha256=ref(file).sha256)


@pytest.fixture
def workers(root: Path, tmp_path: Path) -> Iterator[LiveWorkers]:
    def worker() -> ProcessWorker:
        return ProcessWorker(root, tmp_path / "worker.log")

    workers = LiveWorkers(worker(), (worker(), worker()))
    yield workers
    workers.close()


def test_peak_memory_grows_with_the_rows_and_is_the_same_alone_and_side_by_side(
    workers: LiveWorkers, target_file: TargetRef, root: Path
) -> None:
    sides = (Contender(name=ORIGINAL, source=ref(root / KERNEL)), Contender(name="torch"))
    questions = [MeasureMemory(target=target_file, contenders=sides, case=case, modes=PASSES) for case in CASES]
    answers = workers.ask_all(questions)

    assert workers.ask(questions[0]) == answers[0]
    small, large = (each for each in answers if isinstance(each, Memories))
    for mode, few, many in zip(PASSES, small.memories, large.memories, strict=True):
        assert (few.mode, few.failures, many.failures) == (mode, {}, {})
        assert 0 < few.peak_bytes[ORIGINAL] < many.peak_bytes[ORIGINAL]
        assert 0 < few.peak_bytes["torch"] < many.peak_bytes["torch"]


def test_a_source_is_compiled_cold_every_time(workers: LiveWorkers, target_file: TargetRef, root: Path) -> None:
    question = MeasureCompilation(
        target=target_file, source=ref(root / KERNEL), case=CASES[0], cases=CASES, passes=PASSES
    )
    found = workers.ask(question)

    assert isinstance(found, Compilation) and found.unavailable is None
    assert min(found.cold_s) > 0.05
    assert set(found.specializations) == {"_rms_norm_forward_kernel", "_rms_norm_backward_kernel"}


def test_a_worker_whose_context_is_broken_is_replaced_and_answers_the_next(
    workers: LiveWorkers, target_file: TargetRef, root: Path, tmp_path: Path
) -> None:
    wild = tmp_path / "wild.py"
    wild.write_text(BREAKS_THE_CONTEXT)

    def question(source: Path) -> Compile:
        return Compile(target=target_file, source=ref(source), case=CASES[0], mode=Mode.FORWARD, launch=True)

    with pytest.raises(WorkerError) as error:
        workers.ask(question(wild))
    assert (error.value.failure.status, error.value.failure.sticky) == ("runtime_failed", True)
    answer = workers.ask(question(root / KERNEL))
    assert isinstance(answer, CompiledAnswer) and answer.compiled[0].failure is None


def test_a_broken_context_ends_a_memory_question_and_nothing_else(
    workers: LiveWorkers, target_file: TargetRef, root: Path, tmp_path: Path
) -> None:
    wild = tmp_path / "wild.py"
    wild.write_text(BREAKS_THE_CONTEXT)
    sides = (Contender(name="wild", source=ref(wild)), Contender(name=ORIGINAL, source=ref(root / KERNEL)))
    alone = MeasureMemory(target=target_file, contenders=sides, case=CASES[0], modes=(Mode.FORWARD,))
    broken, whole = workers.ask_all([alone, alone.model_copy(update={"contenders": sides[1:]})])

    assert not isinstance(broken, Memories)
    assert isinstance(whole, Memories) and whole.memories[0].failures == {}
