"""Has compute-sanitizer look at a source, and adds what it finds to the answer of the correctness gate.

Owns at which cases, and that a source is held to nothing that the original does not keep to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from warpsmith.contracts.case import Case
from warpsmith.contracts.measurement import CaseCheck, CheckFailure, Correctness, SourceRef
from warpsmith.contracts.sanitizing import Sanitization, SanitizerTool
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Sanitize, TargetRef, Worker, WorkerError, answer_of
from warpsmith.search.bench import Bench

#: Chosen: beside the smallest of each dtype. Each is watched access by access, a hundred times slower than it runs.
_SMALLEST_CASES = 3


@dataclass(frozen=True)
class Sanitizer:
    """Asks a worker for compute-sanitizer's word on a source of the target, at those cases."""

    worker: Worker
    target: TargetRef
    original: SourceRef
    cases: tuple[Case, ...]
    seed: int
    report: Callable[[str], object]

    @classmethod
    def of(cls, bench: Bench) -> Sanitizer:
        return cls(bench.worker, bench.target, bench.original, small_cases(bench.spec), bench.seed, bench.report)

    def examine(self, source: SourceRef, correctness: Correctness, tools: Iterable[SanitizerTool]) -> Correctness:
        """The gate's answer, with a failure where a tool finds an error, or the reason why it could not be asked."""
        for tool in tools:
            self.report(f"{tool.value}: compute-sanitizer at {len(self.cases)} cases")
            found = self._asked(source, tool)
            if found.errors and not (known := self._asked(self.original, tool)).clean:
                found = _not_held(tool, known)
            if found.unavailable is not None:
                self.report(f"{tool.value}: {found.unavailable}")
            checks = tuple(_with(each, found, self.cases) for each in correctness.checks)
            asked = (*correctness.sanitizations, found)
            correctness = correctness.model_copy(update={"checks": checks, "sanitizations": asked})
        return correctness

    def _asked(self, source: SourceRef, tool: SanitizerTool) -> Sanitization:
        """The answer. A worker that does not come back from the tool says nothing against the source."""
        question = Sanitize(target=self.target, seed=self.seed, source=source, tool=tool, cases=self.cases)
        try:
            return answer_of(self.worker, question, Sanitization)
        except WorkerError as error:
            return Sanitization(tool=tool, unavailable=error.failure.in_a_line)


def small_cases(spec: TargetSpec) -> tuple[Case, ...]:
    """The smallest of all and the smallest of each dtype that have any element, in the target's order."""

    def size(case: Case) -> int:
        return spec.costs[case.name][spec.modes[0]].bytes_moved

    some = sorted((case for case in spec.cases if all(n > 0 for n in case.axes.values())), key=size)
    of_each_dtype = {case.dtype: case for case in reversed(some)}.values()
    chosen = {case.name for case in (*some[:_SMALLEST_CASES], *of_each_dtype)}
    return tuple(case for case in spec.cases if case.name in chosen)


def _not_held(tool: SanitizerTool, known: Sanitization) -> Sanitization:
    why = known.unavailable or f"it finds {known.first or f'{known.errors} errors'} in the original too"
    return Sanitization(tool=tool, unavailable=why)


def _with(check: CaseCheck, found: Sanitization, cases: Sequence[Case]) -> CaseCheck:
    if check.case not in cases:
        return check
    if found.unavailable is not None:
        return check.model_copy(update={"skipped": {**check.skipped, found.tool.value: found.unavailable}})
    at = found.first.case if found.first is not None else None
    if not found.errors or check.case.name != (at or cases[0].name):
        return check
    told = str(found.first.model_copy(update={"case": None})) if found.first is not None else "not told which"
    message = f"compute-sanitizer counts {found.errors} errors, the first: {told}"
    failure = CheckFailure(check=found.tool.value, message=message)
    return check.model_copy(update={"failures": (*check.failures, failure)})
