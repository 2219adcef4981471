from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.launch import CompiledFacts, CompiledSettings, LaunchRecord
from warpsmith.contracts.measurement import SourceRef
from warpsmith.contracts.profile import OfflineCompilation
from warpsmith.contracts.target import ALL_MODES, TargetSpec
from warpsmith.device.known_gpus import known_gpu
from warpsmith.measure.worker.protocol import CompiledAnswer, CompileOffline, TargetRef, WorkerError, WorkerFailure
from warpsmith.stages.offline import compile_offline
from warpsmith.stages.session import Session

GPU = known_gpu("H200")
SOURCE = SourceRef(path="original.py", sha256="a" * 64)
TARGET = TargetRef(path="benchmark.py", root=".", sha256="b" * 64)
CASES = tuple(
    Case(axes={"N": size}, dtype=DType.BFLOAT16, role=role)
    for size, role in ((1024, Role.TUNING), (2048, Role.TUNING), (3000, Role.HELD_OUT))
)
SPEC = TargetSpec(
    name="scale",
    source="scale.py",
    module="scale",
    target_file="benchmark.py",
    source_sha256="a" * 64,
    cases=CASES,
    modes=ALL_MODES,
    differentiable=("x",),
    overwrites=(),
    costs={case.name: {mode: Cost(bytes_moved=1, flops=1) for mode in ALL_MODES} for case in CASES},
    providers=(),
    missing_providers={},
    tests=(),
    plot_axis="N",
)


def launch(question: CompileOffline) -> LaunchRecord:
    return LaunchRecord(
        jit_function=f"{question.mode.value}_kernel",
        host_function="run",
        line=1,
        grid=(question.case.axes["N"], 1, 1),
        constexprs={},
        host_integers={},
        host_tensors={},
        compiled=CompiledFacts(
            binary_sha256="c" * 64, registers=32, spills=0, shared_bytes=0, num_warps=4, num_stages=3
        ),
    )


def compiles(question: CompileOffline) -> CompiledSettings:
    return CompiledSettings(settings={}, launches=(launch(question),), notes=("one stands in for all",))


@dataclass
class Asked:
    """A session whose worker answers by a function, and what it was asked."""

    answer: Callable[[CompileOffline], CompiledSettings]
    questions: list[CompileOffline] = field(default_factory=list)

    target = TARGET
    request = SimpleNamespace(seed=7)
    worker = SimpleNamespace(triton=lambda: "3.5.9")
    progress = SimpleNamespace(note=lambda text, done=None, total=None: None)

    def ask(self, question: CompileOffline, answer_type: type[Contract]) -> CompiledAnswer:
        assert answer_type is CompiledAnswer
        self.questions.append(question)
        return CompiledAnswer(compiled=(self.answer(question),))


def compiled(answer: Callable[[CompileOffline], CompiledSettings]) -> tuple[OfflineCompilation, Asked]:
    asked = Asked(answer)
    return compile_offline(cast(Session, asked), SPEC, SOURCE, GPU), asked


def expected(**changes: Any) -> OfflineCompilation:
    given: dict[str, Any] = {
        "gpu": GPU,
        "triton": "3.5.9",
        "origin": Origin(kind=OriginKind.PREDICTED, gpu="NVIDIA H200"),
        "launches": {},
    }
    return OfflineCompilation(**{**given, **changes})


def test_every_tuning_case_is_compiled_in_every_pass() -> None:
    found, asked = compiled(compiles)

    every = [
        CompileOffline(target=TARGET, seed=7, source=SOURCE, case=case, mode=mode, gpu=GPU)
        for case in CASES[:2]
        for mode in (Mode.FORWARD, Mode.BACKWARD)
    ]
    assert sorted(asked.questions, key=str) == sorted(every, key=str)
    assert found == expected(
        launches={
            case.name: {q.mode: (launch(q),) for q in every if q.case == case} for case in CASES[:2]
        },
        notes=("one stands in for all",),
    )  # fmt: skip


def test_a_case_that_has_no_launches_is_a_reason_beside_the_others() -> None:
    def answer(question: CompileOffline) -> CompiledSettings:
        if question.mode is Mode.FORWARD:
            return compiles(question)
        return CompiledSettings(settings={}, failure="too much" if question.case is CASES[0] else None)

    found, _ = compiled(answer)

    assert set(found.launches) == {"1024-bf16", "2048-bf16"}
    assert all(set(by_mode) == {Mode.FORWARD} for by_mode in found.launches.values())
    assert found.unavailable == "1024-bf16 backward: too much; 2048-bf16 backward: the call launches no jit function"


def test_a_reason_that_many_cases_have_is_told_once_without_the_source_that_the_compiler_quotes() -> None:
    words = "the Triton compiler refused: CompilationError: at 3:8:\n  x = y\n  ^\nNameError('y is not defined')"
    found, _ = compiled(lambda question: CompiledSettings(settings={}, failure=words))

    told = "the Triton compiler refused: CompilationError: at 3:8: NameError('y is not defined')"
    assert found.unavailable == f"1024-bf16 forward (and 3 more): {told}"


def test_a_compiler_that_does_not_know_the_gpu_is_asked_once() -> None:
    def answer(question: CompileOffline) -> CompiledSettings:
        raise WorkerError(WorkerFailure(status="compile_failed", message="triton 3.6.0 cannot compile for NVIDIA Z900"))

    found, asked = compiled(answer)

    assert len(asked.questions) == 1
    assert found == expected(unavailable="compile_failed: triton 3.6.0 cannot compile for NVIDIA Z900")


def test_a_case_that_times_out_is_a_reason_and_the_next_is_asked() -> None:
    def answer(question: CompileOffline) -> CompiledSettings:
        raise WorkerError(WorkerFailure(status="timeout", message="no answer within 300 s"))

    found, asked = compiled(answer)

    assert len(asked.questions) > 1
    assert found == expected(unavailable="timeout: no answer within 300 s")
