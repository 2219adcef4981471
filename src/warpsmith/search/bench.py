"""What a search may use: a worker to ask, a place to keep sources, and the facts of target and device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.launch import CompiledSettings
from warpsmith.contracts.measurement import Contender, SourceRef, Timing
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import (
    Answer,
    AnyQuestion,
    Compile,
    CompiledAnswer,
    TargetRef,
    Time,
    Worker,
    WorkerFailure,
    answer_of,
)


@dataclass(frozen=True)
class Bench:
    """`keep(name, text)` saves a source under a name and returns its reference. `report(text)` tells a person."""

    worker: Worker
    target: TargetRef
    spec: TargetSpec
    device: DeviceFacts
    original: SourceRef
    keep: Callable[[str, str], SourceRef]
    report: Callable[[str], None]
    seed: int = 0

    def ask(self, question: AnyQuestion, answer_type: type[Answer]) -> Answer:
        """The answer. Raises WorkerError where there is none."""
        return answer_of(self.worker, question, answer_type)

    def time(
        self, contenders: Sequence[Contender], case: Case, mode: Mode, *, rounds: int = 20, block_ms: float = 2.0
    ) -> Timing:
        """Interleaved timing of the contenders. Raises WorkerError."""
        question = Time(
            target=self.target,
            seed=self.seed,
            contenders=tuple(contenders),
            case=case,
            mode=mode,
            rounds=rounds,
            block_ms=block_ms,
        )
        return self.ask(question, Timing)

    def compile_all(self, questions: Sequence[Compile]) -> list[tuple[CompiledSettings, ...] | WorkerFailure]:
        """What each question's settings compile to, or why the question failed as a whole. Runs side by side."""
        results: list[tuple[CompiledSettings, ...] | WorkerFailure] = []
        for answer in self.worker.ask_all(questions):
            if isinstance(answer, WorkerFailure):
                results.append(answer)
            else:
                assert isinstance(answer, CompiledAnswer)
                results.append(answer.compiled)
        return results
