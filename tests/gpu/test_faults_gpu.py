"""What can go wrong on the GPU itself: after each fault a new worker finds a GPU that computes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import SourceRef
from warpsmith.device.gpus import choose
from warpsmith.measure.worker import process
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Compile, CompiledAnswer, TargetRef, WorkerError, WorkerFailure

pytestmark = pytest.mark.gpu

CASE = Case(axes={"M": 300, "N": 2048}, dtype=DType.BFLOAT16)
KERNEL = "src/warpsmith/kernels/rms_norm.py"

#: Chosen: with it a worker that has started compiles on a busy machine; the loop would go on for ever.
LIMIT_S = 30.0

HEAD = """\
import torch
import triton
import triton.language as tl


"""

NEVER_ENDS = f"""{HEAD}@triton.jit
def looping_kernel(flag_ptr):
    seen = tl.load(flag_ptr, volatile=True)
    while seen == 0:
        seen = tl.load(flag_ptr, volatile=True)


def rms_norm(x, weight, eps, *, offset, casting):
    flag = torch.zeros(1, dtype=torch.int32, device=x.device)
    looping_kernel[(1,)](flag)
    torch.cuda.synchronize()
    return x
"""

ILLEGAL_ADDRESS = f"""{HEAD}@triton.jit
def wild_kernel(x_ptr, AWAY: tl.constexpr):
    tl.store(x_ptr + AWAY, 1.0)


def rms_norm(x, weight, eps, *, offset, casting):
    wild_kernel[(1,)](x, AWAY=1 << 44)
    torch.cuda.synchronize()
    return x
"""

ALL_MEMORY = """\
import torch

HELD = []


def rms_norm(x, weight, eps, *, offset, casting):
    while True:
        HELD.append(torch.empty(1 << 30, dtype=torch.uint8, device=x.device))
"""

ALL_MEMORY_AND_ABORT = ALL_MEMORY.replace("import torch\n", "import os\n\nimport torch\n", 1).replace(
    "    while True:\n        HELD",
    "    while True:\n        if torch.cuda.mem_get_info()[0] < 2 << 30:\n            os.abort()\n        HELD",
)


@pytest.fixture
def worker(root: Path, tmp_path: Path) -> Iterator[ProcessWorker]:
    gpu = choose()
    assert gpu is not None
    worker = ProcessWorker(root, tmp_path / "worker.log", gpu.uuid)
    yield worker
    worker.close()


def source_of(path: Path) -> SourceRef:
    return SourceRef(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def question(worker: ProcessWorker, source: Path) -> Compile:
    file = worker.root / "benchmark" / "benchmark_rms_norm.py"
    target = TargetRef(path=str(file), root=str(worker.root), sha256=source_of(file).sha256)
    return Compile(target=target, source=source_of(source), case=CASE, mode=Mode.FORWARD, launch=True)


def failure_of(worker: ProcessWorker, folder: Path, text: str) -> WorkerFailure:
    source = folder / "faulty.py"
    source.write_text(text, encoding="utf-8")
    with pytest.raises(WorkerError) as error:
        worker.ask(question(worker, source))
    return error.value.failure


def assert_it_answers(worker: ProcessWorker) -> None:
    answer = worker.ask(question(worker, worker.root / KERNEL))
    assert isinstance(answer, CompiledAnswer) and answer.compiled[0].failure is None


def test_after_a_kernel_that_never_ends(worker: ProcessWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_it_answers(worker)
    with monkeypatch.context() as patch:
        patch.setitem(process.TIME_LIMIT_S, "compile", LIMIT_S)
        assert failure_of(worker, tmp_path, NEVER_ENDS).status == "timeout"
    assert_it_answers(worker)


def test_after_an_address_that_is_nobodys(worker: ProcessWorker, tmp_path: Path) -> None:
    failure = failure_of(worker, tmp_path, ILLEGAL_ADDRESS)
    assert (failure.status, failure.sticky) == ("runtime_failed", True)
    assert_it_answers(worker)


def test_after_a_variant_that_took_all_memory(worker: ProcessWorker, tmp_path: Path) -> None:
    assert failure_of(worker, tmp_path, ALL_MEMORY).status == "out_of_memory"
    assert_it_answers(worker)  # though the variant's module would hold it as long as it lives


def test_after_a_worker_that_died_with_all_memory(worker: ProcessWorker, tmp_path: Path) -> None:
    assert failure_of(worker, tmp_path, ALL_MEMORY_AND_ABORT).status == "died"
    assert_it_answers(worker)
