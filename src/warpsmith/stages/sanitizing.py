"""Has compute-sanitizer look at a source, and adds what it finds to the answer of the correctness gate.

Owns at which cases, and that a source is held to nothing that the original does not keep to.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.case import Case
from warpsmith.contracts.measurement import CaseCheck, CheckFailure, Correctness, SourceRef
from warpsmith.contracts.sanitizing import Sanitization, SanitizerTool
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Sanitize, WorkerError
from warpsmith.search.bench import Bench

#: Chosen: beside the smallest of each dtype. Each is watched access by access, a hundred times slower than it runs.
_SMALLEST_CASES = 3


def sanitized(bench: Bench, source: SourceRef, correctness: Correctness, tools: Sequence[SanitizerTool]) -> Correctness:
    """The gate's answer with a failure where a tool finds an error, or with the reason why it could not be asked."""
    cases = small_cases(bench.spec)
    for tool in tools:
        bench.report(f"{tool.value} at {len(cases)} small cases")
        found = _asked(bench, source, tool, cases)
        if found.errors and not (known := _asked(bench, bench.original, tool, cases)).clean:
            found = _not_held(tool, known)
        if found.unavailable is not None:
            bench.report(f"{tool.value}: {found.unavailable}")
        correctness = correctness.model_copy(
            update={"checks": tuple(_with(each, found, cases) for each in correctness.checks)}
        )
    return correctness


def small_cases(spec: TargetSpec) -> tuple[Case, ...]:
    """The smallest of all and the smallest of each dtype that have any element, in the target's order."""

    def size(case: Case) -> int:
        return spec.costs[case.name][spec.modes[0]].bytes_moved

    some = sorted((case for case in spec.cases if all(n > 0 for n in case.axes.values())), key=size)
    of_each_dtype = {case.dtype: case for case in reversed(some)}.values()
    chosen = {case.name for case in (*some[:_SMALLEST_CASES], *of_each_dtype)}
    return tuple(case for case in spec.cases if case.name in chosen)


def _asked(bench: Bench, source: SourceRef, tool: SanitizerTool, cases: tuple[Case, ...]) -> Sanitization:
    """The answer. A worker that does not come back from the tool says nothing against the source."""
    question = Sanitize(target=bench.target, seed=bench.seed, source=source, tool=tool, cases=cases)
    try:
        return bench.ask(question, Sanitization)
    except WorkerError as error:
        return Sanitization(tool=tool, unavailable=error.failure.in_a_line)


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
