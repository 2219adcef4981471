"""The workers of a GPU: which process answers what, and what may run beside what. Must not know how a worker runs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from warpsmith.contracts.base import Contract
from warpsmith.contracts.measurement import Compilation, Memories
from warpsmith.measure.worker.process import ProcessWorker, answer_or_failure
from warpsmith.measure.worker.protocol import AnyQuestion, WorkerFailure

#: Questions that get a process of their own: what one before them left in it would be in the answer.
ALONE_KINDS = frozenset({"memory", "compilation"})


@dataclass
class LiveWorkers:
    """The worker that measures, and beside it workers that only compile, started when there is much to compile."""

    measuring: ProcessWorker
    compiling: tuple[ProcessWorker, ...]

    def ask(self, question: AnyQuestion) -> Contract:
        if question.kind in ALONE_KINDS:
            return replace(self.measuring, once=True).ask(question)
        return self.measuring.ask(question)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        """Questions that compile, or have a process of their own, run side by side; others would disturb each other, so
        in turn."""
        kinds = {question.kind for question in questions}
        if kinds <= ALONE_KINDS:
            return self._apart(questions)
        if kinds == {"compile"} and len(questions) > 1:
            return _side_by_side(self.compiling[: len(questions)] or (self.measuring,), questions)
        return [answer_or_failure(self, question) for question in questions]

    def close(self) -> None:
        for worker in (self.measuring, *self.compiling):
            worker.close()

    def _apart(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        """As many processes at once as compile; what did not fit beside others is asked again with none beside it."""
        count = min(len(questions), max(1, len(self.compiling)))
        workers = tuple(replace(self.measuring, once=True) for _ in range(count))
        answers = _side_by_side(workers, questions)
        return [
            answer_or_failure(self, question) if _ran_out_of_memory(answer) else answer
            for question, answer in zip(questions, answers, strict=True)
        ]


def _side_by_side(workers: Sequence[ProcessWorker], questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
    with ThreadPoolExecutor(max_workers=len(workers)) as pool:
        idle = list(workers)

        def answer(question: AnyQuestion) -> Contract | WorkerFailure:
            worker = idle.pop()
            try:
                return answer_or_failure(worker, question)
            finally:
                idle.append(worker)

        try:
            return list(pool.map(answer, questions))
        except BaseException:  # an interrupt: leaving the pool waits for its threads, and they for their workers
            for worker in workers:
                worker.stop()
            raise


def _ran_out_of_memory(answer: Contract | WorkerFailure) -> bool:
    if isinstance(answer, WorkerFailure):
        return answer.status == "out_of_memory"
    if isinstance(answer, Compilation):
        return (answer.unavailable or "").startswith("out_of_memory")
    assert isinstance(answer, Memories)
    return any(why.startswith("out_of_memory") for memory in answer.memories for why in memory.failures.values())
