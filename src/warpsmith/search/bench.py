"""What a search may use: a worker to ask, a place to keep sources, and the facts of target and device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.launch import CompiledSettings
from warpsmith.contracts.measurement import (
    L2,
    Contender,
    Memories,
    Memory,
    SourceRef,
    Timing,
    TimingMethod,
    TimingPlan,
)
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import (
    Answer,
    AnyQuestion,
    Compile,
    CompiledAnswer,
    MeasureMemory,
    TargetRef,
    Time,
    Worker,
    WorkerFailure,
    answer_of,
)
from warpsmith.verdict.thresholds import Thresholds

#: Chosen: one question has few settings, so this many keep all compile workers busy and are still done in seconds.
QUESTIONS_AT_ONCE = 32


class Report(Protocol):
    """Tells a person what has happened, or what begins now that `done` of `total` such items are finished."""

    def __call__(self, text: str, done: int | None = None, total: int | None = None) -> None: ...


@dataclass(frozen=True)
class Bench:
    """`keep(name, text)` saves a source under a name and returns its reference. `thresholds` are what a candidate will
    be judged by."""

    worker: Worker
    target: TargetRef
    spec: TargetSpec
    device: DeviceFacts
    original: SourceRef
    keep: Callable[[str, str], SourceRef]
    report: Report
    seed: int = 0
    method: TimingMethod | None = None
    l2: L2 = L2.COLD
    thresholds: Thresholds = field(default_factory=Thresholds)

    def of_cases(self, cases: tuple[Case, ...]) -> Bench:
        """The same bench, for which the target has these cases."""
        return replace(self, spec=self.spec.model_copy(update={"cases": cases}))

    def ask(self, question: AnyQuestion, answer_type: type[Answer]) -> Answer:
        """The answer. Raises WorkerError where there is none."""
        return answer_of(self.worker, question, answer_type)

    def time(self, contenders: Sequence[Contender], case: Case, mode: Mode, plan: TimingPlan | None = None) -> Timing:
        """Interleaved timing of the contenders, by the usual plan where none is given. Raises WorkerError."""
        question = Time(
            target=self.target,
            seed=self.seed,
            contenders=tuple(contenders),
            case=case,
            mode=mode,
            plan=plan or TimingPlan(),
            method=self.method,
            l2=self.l2,
        )
        return self.ask(question, Timing)

    def weigh_all(self, sides: Sequence[tuple[Case, Sequence[Contender]]], mode: Mode) -> list[Memory | WorkerFailure]:
        """Peak memory of the contenders of each case in one mode, or why a case has none. Side by side, each in a
        process of its own."""
        questions = [
            MeasureMemory(target=self.target, seed=self.seed, contenders=tuple(each), case=case, modes=(mode,))
            for case, each in sides
        ]
        weighed: list[Memory | WorkerFailure] = []
        for answer in self.worker.ask_all(questions):
            if isinstance(answer, WorkerFailure):
                weighed.append(answer)
            else:
                assert isinstance(answer, Memories)
                weighed += answer.memories
        return weighed

    def compile_all(
        self, questions: Sequence[Compile], told: str
    ) -> list[tuple[CompiledSettings, ...] | WorkerFailure]:
        """What each question's settings compile to, or why the question failed as a whole. Runs side by side.

        `told` says to a person what is compiled; what is counted are the settings.
        """
        results: list[tuple[CompiledSettings, ...] | WorkerFailure] = []
        total = sum(len(question.settings) for question in questions)
        for start in range(0, len(questions), QUESTIONS_AT_ONCE):
            self.report(told, sum(len(question.settings) for question in questions[:start]), total)
            for answer in self.worker.ask_all(questions[start : start + QUESTIONS_AT_ONCE]):
                if isinstance(answer, WorkerFailure):
                    results.append(answer)
                else:
                    assert isinstance(answer, CompiledAnswer)
                    results.append(answer.compiled)
        return results
