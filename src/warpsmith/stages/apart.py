"""What needs no quiet GPU, asked side by side, each question in a process of its own: peak memory and cold compilation.

What runs beside a compiler only adds to its time, and the least of its samples is what counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.base import Contract
from warpsmith.contracts.measurement import Compilation, Contender, Memory
from warpsmith.measure.worker.protocol import MeasureCompilation, WorkerError, WorkerFailure
from warpsmith.search.bench import Bench
from warpsmith.stages.timings import heaviest_tuning_case, memories_of, memory_question, peak_memories


def measure_memories(bench: Bench, sides: Sequence[Contender]) -> tuple[Memory, ...]:
    """Peak memory at the tuning cases, every mode. Raises WorkerError."""
    questions = [memory_question(bench, sides, case) for case in bench.spec.tuning_cases]
    bench.report(f"{sides[-1].name}: peak memory at {len(questions)} cases")
    return peak_memories(bench, questions)


def measure_apart(
    bench: Bench, sides: Sequence[Contender], memories: tuple[Memory, ...] = ()
) -> tuple[tuple[Memory, ...], tuple[Compilation, Compilation]]:
    """Peak memory of the sides, unless it is known, and what the first and the last of them take to compile from an
    empty cache. Raises WorkerError."""
    spec, heaviest = bench.spec, heaviest_tuning_case(bench.spec)
    weighing = [] if memories else [memory_question(bench, sides, case) for case in spec.tuning_cases]
    compiling = [
        MeasureCompilation(
            target=bench.target,
            seed=bench.seed,
            source=side.source,
            case=heaviest,
            cases=spec.cases,
            passes=spec.passes,
        )
        for side in (sides[0], sides[-1])
        if side.source is not None
    ]
    weighed = f"peak memory at {len(weighing)} cases, " if weighing else ""
    bench.report(f"{sides[-1].name}: {weighed}cold compile time at {heaviest.name}, specializations")
    answers = bench.worker.ask_all([*compiling, *weighing])
    original, candidate = map(_compilation, answers[: len(compiling)])
    return memories or memories_of(bench, weighing, answers[len(compiling) :]), (original, candidate)


def _compilation(answer: Contract | WorkerFailure) -> Compilation:
    if isinstance(answer, WorkerFailure):
        raise WorkerError(answer)
    assert isinstance(answer, Compilation)
    return answer
