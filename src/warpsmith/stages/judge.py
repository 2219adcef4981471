"""Judges one candidate: admission, compilation, correctness, interleaved timing, guardrails, verdict.

Each step is cheaper than the next, and the first that fails ends the judgement. None of the failures is a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.examination import Examination, Fault
from warpsmith.contracts.measurement import (
    ORIGINAL,
    Contender,
    Correctness,
    HostTime,
    Memory,
    SourceRef,
    Timing,
    TimingPlan,
)
from warpsmith.contracts.sanitizing import SanitizerTool
from warpsmith.contracts.variant import VariantStatus
from warpsmith.contracts.verdict import Outcome, Verdict
from warpsmith.measure.worker.protocol import (
    Check,
    Compile,
    CompiledAnswer,
    MeasureHostTime,
    WorkerError,
)
from warpsmith.search.bench import Bench
from warpsmith.source.admit import admit
from warpsmith.stages.apart import measure_apart, measure_memories
from warpsmith.stages.examining import fault_of, findings_of
from warpsmith.stages.rules import Rules, Standing
from warpsmith.stages.sanitizing import Sanitizer
from warpsmith.stages.timings import (
    COPY,
    GUARDED,
    contenders,
    pairs,
    smallest_tuning_case,
)
from warpsmith.verdict.decision import decide, too_few_rounds
from warpsmith.verdict.evidence import Evidence
from warpsmith.verdict.metrics import metrics_of
from warpsmith.verdict.peaks import memory_ratio
from warpsmith.verdict.statistics import goal_speedup

#: What is inconclusive by the usual plan is measured longer once.
LONGER = TimingPlan(rounds=48, most_rounds=120, half_width=0.001, cap_s=20.0)


@dataclass(frozen=True)
class Judgement:
    """`examination` is what the gate found, where it was not passed."""

    status: VariantStatus
    detail: str | None = None
    verdict: Verdict | None = None
    timings: tuple[Timing, ...] = ()
    memories: tuple[Memory, ...] = ()
    examination: Examination | None = None


def judge(bench: Bench, standing: Standing, rules: Rules, original_text: str) -> Judgement:
    """The judgement on a candidate. Never raises for what the candidate does wrong."""
    if reasons := admit(original_text, standing.text):
        found = Examination(findings=findings_of(original_text, standing.text))
        return Judgement(VariantStatus.NOT_ADMITTED, "; ".join(reasons), examination=found)
    correctness = None
    try:
        if fault := _compile_failure(bench, standing):
            told = f"{fault.case}, {fault.message}"
            return Judgement(VariantStatus.COMPILE_FAILED, told, examination=Examination(faults=(fault,)))
        bench.report(f"{standing.name}: checking {len(bench.spec.cases)} cases against float64")
        correctness = check_all(bench, standing.source)
        if not correctness.passed:
            return _incorrect(standing, rules, correctness)
        return _measure(bench, standing, rules, correctness)
    except WorkerError as error:
        found = Examination(faults=(fault_of(error.failure),), correctness=correctness)
        return Judgement(VariantStatus.FAILED, str(error), examination=found)


def check_all(bench: Bench, source: SourceRef) -> Correctness:
    """The correctness gate at every case. Raises WorkerError."""
    question = Check(
        target=bench.target, seed=bench.seed, original=bench.original, candidate=source, cases=bench.spec.cases
    )
    return bench.ask(question, Correctness)


def _compile_failure(bench: Bench, standing: Standing) -> Fault | None:
    pairs = [(case, mode) for case in bench.spec.tuning_cases for mode in bench.spec.passes]
    for index, (case, mode) in enumerate(pairs):
        bench.report(f"{standing.name}: compiling for {case.name} {mode.value}", index, len(pairs))
        question = Compile(
            target=bench.target, seed=bench.seed, source=standing.source, case=case, mode=mode, launch=True
        )
        (compiled,) = bench.ask(question, CompiledAnswer).compiled
        if compiled.failure is not None:
            return Fault(status="compile_failed", message=f"{mode.value}: {compiled.failure}", case=case.name)
    return None


def _measure(bench: Bench, standing: Standing, rules: Rules, correctness: Correctness) -> Judgement:
    """Tuning cases in the goal mode first; all the rest only if those leave something to win."""
    sides = _sides(bench, standing)
    goal_pairs = [(case, rules.goal) for case in rules.counted(bench.spec)]
    timings = time_pairs(bench, sides, goal_pairs)
    memories = () if rules.objective is Objective.SPEED else measure_memories(bench, sides)
    evidence = replace(rules.evidence(standing, correctness), timings=timings, memories=memories)
    if hopeless := _hopeless(standing, evidence):
        return Judgement(VariantStatus.JUDGED, None, hopeless, timings, memories)
    rest = [(case, mode) for mode in bench.spec.modes for case in bench.spec.cases if (case, mode) not in goal_pairs]
    both = [sides[0], sides[-1]]
    timings += time_pairs(bench, both, rest, GUARDED)
    evidence = replace(evidence, timings=timings)
    verdict = decide(evidence, rules.thresholds)
    if verdict.outcome in (Outcome.REJECTED, Outcome.MIXED):
        return Judgement(VariantStatus.JUDGED, None, verdict, timings, memories)
    memories, compilations = measure_apart(bench, both, memories)
    host_times = measure_host_times(bench, both)
    evidence = replace(evidence, memories=memories, compilations=compilations, host_times=host_times)
    verdict = decide(evidence, rules.thresholds)
    if verdict.outcome is Outcome.INCONCLUSIVE:
        bench.report(f"{standing.name}: inconclusive, measuring longer once")
        longer = time_pairs(bench, sides, goal_pairs, plan=LONGER)
        timings = longer + timings[len(goal_pairs) :]
        verdict = decide(replace(evidence, timings=timings, longer=True), rules.thresholds)
    if verdict.outcome is Outcome.ACCEPTED:
        correctness = Sanitizer.of(bench).examine(standing.source, correctness, (SanitizerTool.MEMCHECK,))
        if not correctness.passed:
            return _incorrect(standing, rules, correctness)
    return Judgement(VariantStatus.JUDGED, None, verdict, timings, memories)


def _incorrect(standing: Standing, rules: Rules, correctness: Correctness) -> Judgement:
    verdict = decide(replace(rules.evidence(standing, correctness), best=None, noise_floor=None), rules.thresholds)
    found = Examination(correctness=correctness)
    return Judgement(VariantStatus.INCORRECT, "; ".join(verdict.reasons), examination=found)


def _hopeless(standing: Standing, evidence: Evidence) -> Verdict | None:
    """A rejection where the cases that count alone show that the candidate is no better than what it builds on."""
    base, weights, memory = standing.best_name or ORIGINAL, evidence.weights, None
    if {ORIGINAL, base, standing.name} & {name for timing in evidence.timings for name in timing.failures}:
        return None
    if too_few_rounds(evidence.timings, ORIGINAL, base, standing.name):
        return None
    gain = goal_speedup(evidence.timings, base, standing.name, weights=weights)
    if evidence.objective is not Objective.SPEED:
        memory = memory_ratio(evidence.memories, evidence.goal_mode, evidence.goal_weights, base, standing.name)
        if memory is None or memory.value > 1:
            return None
    if gain.high >= 1 and evidence.objective is not Objective.MEMORY:
        return None
    against = "the original" if base == ORIGINAL else f"the best so far, {base}"
    metrics = metrics_of(evidence, goal_speedup(evidence.timings, ORIGINAL, standing.name, weights=weights))
    slower = f"slower than {against} over the tuning cases: {gain}"
    heavier = "" if memory is None else f"no less peak memory than {against} over the tuning cases: {memory.value:.3f}×"
    told = {Objective.SPEED: (slower,), Objective.MEMORY: (heavier,), Objective.BALANCED: (slower, heavier)}
    rejected = Verdict(
        outcome=Outcome.REJECTED,
        reasons=told[evidence.objective],
        goal_mode=evidence.goal_mode,
        noise_floor=evidence.noise_floor,
        objective=evidence.objective,
    )
    return rejected.model_copy(update=metrics.by_objective(evidence.objective))


def _sides(bench: Bench, standing: Standing) -> list[Contender]:
    sides = [Contender(name=ORIGINAL, source=bench.original)]
    if standing.best_name is not None:
        sides.append(Contender(name=standing.best_name, source=standing.best_source))
    return [*sides, Contender(name=standing.name, source=standing.source)]


def time_pairs(
    bench: Bench, sides: Sequence[Contender], pairs: Sequence[tuple[Case, Mode]], plan: TimingPlan | None = None
) -> tuple[Timing, ...]:
    """One interleaved comparison a pair. Raises WorkerError."""
    timings: list[Timing] = []
    for index, (case, mode) in enumerate(pairs):
        bench.report(f"{sides[-1].name}: timing {case.name} {mode.value}", index, len(pairs))
        timings.append(bench.time(sides, case, mode, plan))
    return tuple(timings)


def time_copy(bench: Bench, rules: Rules, text: str) -> tuple[Timing, ...]:
    """The original and an identical copy of itself at the cases that count, as a candidate is timed: longer once where
    the rounds were too few. Raises WorkerError."""
    sides = contenders(**{ORIGINAL: bench.original, COPY: bench.keep(COPY, text)})
    places = pairs(rules.counted(bench.spec), [rules.goal])
    timings = time_pairs(bench, sides, places)
    return time_pairs(bench, sides, places, LONGER) if too_few_rounds(timings, ORIGINAL, COPY) else timings


def measure_host_times(bench: Bench, sides: Sequence[Contender]) -> tuple[HostTime, ...]:
    """Host time a call at the smallest tuning case, where it is what a user feels. Raises WorkerError."""
    smallest = smallest_tuning_case(bench.spec)
    host_times: list[HostTime] = []
    for index, mode in enumerate(bench.spec.passes):
        bench.report(f"{sides[-1].name}: host time of {mode.value}", index, len(bench.spec.passes))
        question = MeasureHostTime(
            target=bench.target, seed=bench.seed, contenders=tuple(sides), case=smallest, mode=mode
        )
        host_times.append(bench.ask(question, HostTime))
    return tuple(host_times)
