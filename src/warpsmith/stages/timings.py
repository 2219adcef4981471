"""The measuring questions that stages share: which contenders stand together, and apart where one cannot be captured.

The same questions have the same answers: what one stage measured, or a recording holds, is there for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Case, Mode, Role
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.measurement import Contender, Memories, Memory, SourceRef, Timing, TimingMethod, TimingPlan
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import MeasureHostTime, MeasureMemory, WorkerError, WorkerFailure
from warpsmith.search.bench import Bench

#: The original again, from a second file: what differs between the two is noise.
COPY = "original_copy"

#: Chosen: torch.compile compiles every shape anew, which takes longer than all else together.
COMPILED_PROVIDERS = frozenset({"torch_compile"})


#: Chosen: what must only be shown to stay within a guardrail of 2% or more needs no sharper interval.
GUARDED = TimingPlan(rounds=8, most_rounds=24, half_width=0.006)


def providers_at(spec: TargetSpec, case: Case) -> tuple[str, ...]:
    """The baseline providers that are measured at a case: those that compile only at tuning cases."""
    tuning = {c.name for c in spec.tuning_cases}
    return tuple(p for p in spec.providers if p not in COMPILED_PROVIDERS or case.name in tuning)


def everyone_at(spec: TargetSpec, sources: Sequence[Contender], case: Case) -> tuple[Contender, ...]:
    """Sources, then the baseline providers that are measured at a case."""
    return (*sources, *(Contender(name=name) for name in providers_at(spec, case)))


def with_providers(
    bench: Bench, sources: Sequence[Contender], case: Case, mode: Mode, plan: TimingPlan | None = None
) -> tuple[Timing, ...]:
    """Sources and baseline providers in one comparison, or, where a provider cannot be captured, apart: sources first.

    Sources are timed by graph replay either way; a provider that cannot be is compared with the first source by
    the method that it allows, in a comparison of its own. Where a method was asked for, all are timed by that.
    A provider that takes the whole comparison down is told, and is among the failures of the sources' own.
    No plan is the usual one at tuning cases, and at held-out ones what a guardrail needs. Raises WorkerError where
    the sources alone cannot be timed.
    """
    if plan is None and case.role is Role.HELD_OUT:
        plan = GUARDED
    everyone = everyone_at(bench.spec, sources, case)
    providers = everyone[len(sources) :]
    try:
        together = bench.time(everyone, case, mode, plan)
        if together.method is TimingMethod.GRAPH or bench.method is not None or not providers:
            return (together,)
    except WorkerError:
        if not providers:
            raise
    of_sources, apart = bench.time(sources, case, mode, plan), []
    for provider in providers:
        try:
            apart.append(bench.time([sources[0], provider], case, mode, plan))
        except WorkerError as error:
            why = error.failure.in_a_line
            bench.report(f"{case.name} {mode.value}: without {provider.name}, {why}")
            of_sources = of_sources.model_copy(update={"failures": {**of_sources.failures, provider.name: why}})
    return (of_sources, *apart)


def memory_question(bench: Bench, sides: Sequence[Contender], case: Case) -> MeasureMemory:
    """Peak memory of these contenders at a case, in every mode."""
    modes = bench.spec.modes
    return MeasureMemory(target=bench.target, seed=bench.seed, contenders=tuple(sides), case=case, modes=modes)


def peak_memories(bench: Bench, questions: Sequence[MeasureMemory]) -> tuple[Memory, ...]:
    """The answers, all asked at once: each has a process of its own. One that has none is asked again without baseline
    providers, and of each provider alone. Raises WorkerError where the sources alone have none."""
    return memories_of(bench, questions, bench.worker.ask_all(questions))


def memories_of(
    bench: Bench, questions: Sequence[MeasureMemory], answers: Sequence[Contract | WorkerFailure]
) -> tuple[Memory, ...]:
    """The same of answers that are there already."""
    memories: list[Memory] = []
    for question, answer in zip(questions, answers, strict=True):
        if isinstance(answer, WorkerFailure):
            memories.extend(_memories_apart(bench, question, answer))
        else:
            assert isinstance(answer, Memories)
            memories.extend(answer.memories)
    return tuple(memories)


def _memories_apart(bench: Bench, question: MeasureMemory, failure: WorkerFailure) -> list[Memory]:
    providers = [each for each in question.contenders if each.source is None]
    if not providers:
        raise WorkerError(failure)

    def of(*alone: Contender) -> tuple[Memory, ...]:
        return bench.ask(question.model_copy(update={"contenders": alone}), Memories).memories

    of_sources, apart = list(of(*(each for each in question.contenders if each.source is not None))), list[Memory]()
    for provider in providers:
        try:
            apart.extend(of(provider))
        except WorkerError as error:
            why = error.failure.in_a_line
            bench.report(f"{question.case.name}: peak memory without {provider.name}, {why}")
            of_sources = [m.model_copy(update={"failures": {**m.failures, provider.name: why}}) for m in of_sources]
    return [*of_sources, *apart]


def host_time_question(bench: Bench, timings: Sequence[Timing], everyone: Sequence[Contender]) -> MeasureHostTime:
    """Host time a call of those that could be timed in these comparisons of one case and mode."""
    ran = {block.contender for timing in timings for block in timing.blocks}
    hosted = tuple(contender for contender in everyone if contender.name in ran)
    case, mode = timings[0].case, timings[0].mode
    return MeasureHostTime(target=bench.target, seed=bench.seed, contenders=hosted, case=case, mode=mode)


def smallest_tuning_case(spec: TargetSpec) -> Case:
    """The one that moves the fewest bytes."""
    return min(spec.tuning_cases, key=lambda case: spec.costs[case.name][spec.modes[0]].bytes_moved)


def heaviest_tuning_case(spec: TargetSpec) -> Case:
    """The one that moves the most bytes."""
    return max(spec.tuning_cases, key=lambda case: spec.costs[case.name][spec.modes[0]].bytes_moved)


def fits_l2(spec: TargetSpec, device: DeviceFacts, case: Case, mode: Mode) -> bool:
    """Whether all that a call must move fits L2, so that calls in a row may find it there."""
    return spec.costs[case.name][mode].bytes_moved <= device.l2_bytes


def contenders(**sources: SourceRef) -> list[Contender]:
    return [Contender(name=name, source=source) for name, source in sources.items()]


def pairs(cases: Iterable[Case], modes: Sequence[Mode]) -> list[tuple[Case, Mode]]:
    return [(case, mode) for case in cases for mode in modes]
