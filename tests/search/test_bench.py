"""Many settings are compiled side by side, and a person is told how many are done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simulated_gpu import SimulatedGpu

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Mode
from warpsmith.measure.worker.protocol import AnyQuestion, Compile, WorkerFailure
from warpsmith.search.bench import QUESTIONS_AT_ONCE, Bench


@dataclass
class Counting:
    """The GPU, and how many questions it was asked at once."""

    gpu: SimulatedGpu
    asked: list[int] = field(default_factory=list)

    def ask(self, question: AnyQuestion) -> Contract:
        return self.gpu.ask(question)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        self.asked.append(len(questions))
        return self.gpu.ask_all(questions)

    def close(self) -> None: ...


def test_compiling_is_counted_in_settings_and_answers_keep_their_order(bench: Bench, gpu: SimulatedGpu) -> None:
    worker, told = Counting(gpu), list[tuple[str, int | None, int | None]]()
    bench = replace(bench, worker=worker, report=lambda *told_now: told.append(told_now))
    case = bench.spec.tuning_cases[0]
    question = Compile(target=bench.target, source=bench.original, case=case, mode=Mode.FORWARD, settings=({}, {}))
    other = question.model_copy(update={"settings": ({},)})

    compiled = bench.compile_all([question] * QUESTIONS_AT_ONCE + [other], "compiling")

    assert worker.asked == [QUESTIONS_AT_ONCE, 1]
    settings = 2 * QUESTIONS_AT_ONCE
    assert told == [("compiling", 0, settings + 1), ("compiling", settings, settings + 1)]
    assert [len(each) for each in compiled if not isinstance(each, WorkerFailure)] == [2] * QUESTIONS_AT_ONCE + [1]


def test_where_there_is_nothing_to_compile_nothing_is_told(bench: Bench, gpu: SimulatedGpu) -> None:
    told: list[str] = []
    assert replace(bench, report=lambda text, *_: told.append(text)).compile_all([], "compiling") == []
    assert told == []
