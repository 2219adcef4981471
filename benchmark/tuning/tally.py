"""Counts the device time that is spent on answers, by their samples, whoever asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.base import Contract
from warpsmith.contracts.measurement import Timing
from warpsmith.measure.worker.protocol import AnyQuestion, Worker, WorkerFailure


def device_time_ms(timing: Timing) -> float:
    """All that was timed, the pilot too. What went before, to warm up and to clear L2, is not in a sample."""
    blocks = (*timing.pilot, *timing.blocks)
    return sum(timing.calls_per_sample * sample for block in blocks for sample in block.samples_ms)


@dataclass
class Tally:
    """A worker in front of another. `device_time_ms` is the sum over the timings that were asked for through it."""

    worker: Worker
    device_time_ms: float = 0.0

    def ask(self, question: AnyQuestion) -> Contract:
        answer = self.worker.ask(question)
        self._count(answer)
        return answer

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        answers = self.worker.ask_all(questions)
        for answer in answers:
            self._count(answer)
        return answers

    def close(self) -> None:
        self.worker.close()

    def _count(self, answer: Contract) -> None:
        if isinstance(answer, Timing):
            self.device_time_ms += device_time_ms(answer)
