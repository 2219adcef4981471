"""Kernels that are only a formula: how long settings take, what they compile to, and what goes wrong with some.

A worker that answers from them counts what it is asked, so that a search can be held to an exhaustive one.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from simulated_gpu import DEVICE

from warpsmith.contracts.audit import Knob, KnobKind, KnobOrigin
from warpsmith.contracts.base import Contract, Settings
from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.launch import CompiledFacts, CompiledSettings, LaunchRecord
from warpsmith.contracts.measurement import (
    ORIGINAL,
    Block,
    Memories,
    Memory,
    SourceRef,
    Timing,
    TimingMethod,
    TimingPlan,
)
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import (
    AnyQuestion,
    Compile,
    CompiledAnswer,
    MeasureMemory,
    TargetRef,
    Time,
    WorkerError,
    WorkerFailure,
)
from warpsmith.search.bench import Bench
from warpsmith.search.tuning.budget import planned_ms
from warpsmith.search.tuning.constraints import why_not
from warpsmith.search.tuning.space import Space
from warpsmith.search.tuning.values import space_at

KERNEL = "kernel"
TUNABLE = SourceRef(path="tunable.py", sha256="a" * 64)

#: The values of all knobs, by name: those of the settings, else the original's.
Values = Mapping[str, int]


def knob(name: str, kind: KnobKind, listed: tuple[int, ...] = ()) -> Knob:
    return Knob(
        id=f"{KERNEL}.{name}",
        kind=kind,
        jit_function=KERNEL,
        host_function="host",
        name=name,
        origin=KnobOrigin.LITERAL,
        variable=name.lower(),
        line=1,
        anchor_line=1,
        expression="1",
        tunable=True,
        listed=listed,
    )


def case_of(**axes: int) -> Case:
    return Case(axes=axes, dtype=DType.BFLOAT16)


def never(case: Case, values: Values) -> str | None:
    return None


@dataclass(frozen=True)
class Landscape:
    """`original` gives a case's own values by knob name; `time_us` the time with all values given.

    `in_code` are the knobs that the machine code depends on, `programs` the grid, `noise` the scatter of a sample,
    `peak_bytes` what a call needs.
    """

    knobs: tuple[Knob, ...]
    cases: tuple[Case, ...]
    original: Callable[[Case], Values]
    time_us: Callable[[Case, Values], float]
    in_code: frozenset[str]
    programs: Callable[[Case, Values], int] = lambda case, values: 4096
    compile_failure: Callable[[Case, Values], str | None] = never
    run_failure: Callable[[Case, Values], str | None] = never
    shared_bytes: int = 0
    matrix: bool = False
    registers: int = 32
    noise: float = 0.004
    peak_bytes: Callable[[Case, Values], int] = lambda case, values: 0

    def values(self, case: Case, settings: Settings) -> Values:
        return {**self.original(case), **{name.rpartition(".")[2]: v for name, v in settings.items()}}

    def launches(self, case: Case, settings: Settings) -> tuple[LaunchRecord, ...]:
        values = self.values(case, settings)
        code = repr(sorted((name, value) for name, value in values.items() if name in self.in_code))
        return (
            LaunchRecord(
                jit_function=KERNEL,
                host_function="host",
                line=1,
                grid=(self.programs(case, values),),
                constexprs={n: v for n, v in values.items() if "BLOCK" in n or n in ("LOOP_STAGES", "GROUP_TILES")},
                host_integers={n.lower(): v for n, v in values.items()},
                host_tensors={},
                compiled=CompiledFacts(
                    binary_sha256=hashlib.sha256(code.encode()).hexdigest(),
                    registers=self.registers,
                    spills=0,
                    shared_bytes=self.shared_bytes,
                    num_warps=values.get("num_warps", 4),
                    num_stages=values.get("num_stages", 3),
                    matrix_instructions={"wgmma": 1} if self.matrix else {},
                ),
            ),
        )


@dataclass
class Arithmetic:
    """A worker that answers for a landscape. `outlier` multiplies what a contender reads as.

    `dies_of` are settings that take a whole comparison down. `interrupt_after` so many questions it is interrupted.
    """

    landscape: Landscape
    asked: list[AnyQuestion] = field(default_factory=list)
    outlier: Callable[[Time, Values], float] = lambda question, values: 1.0
    dies_of: Callable[[Case, Values], bool] = lambda case, values: False
    question_failure: Callable[[AnyQuestion], WorkerFailure | None] = lambda question: None
    interrupt_after: int | None = None

    def ask(self, question: AnyQuestion) -> Contract:
        if self.interrupt_after is not None and len(self.asked) >= self.interrupt_after:
            raise KeyboardInterrupt
        self.asked.append(question)
        if (failure := self.question_failure(question)) is not None:
            raise WorkerError(failure)
        if isinstance(question, Compile):
            return CompiledAnswer(compiled=tuple(self._compiled(question.case, each) for each in question.settings))
        if isinstance(question, MeasureMemory):
            return self._weighed(question)
        assert isinstance(question, Time)
        return self._timed(question)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        answers: list[Contract | WorkerFailure] = []
        for question in questions:
            try:
                answers.append(self.ask(question))
            except WorkerError as error:
                answers.append(error.failure)
        return answers

    def close(self) -> None: ...

    @property
    def timings(self) -> list[Time]:
        return [question for question in self.asked if isinstance(question, Time)]

    def _compiled(self, case: Case, settings: Settings) -> CompiledSettings:
        failure = self.landscape.compile_failure(case, self.landscape.values(case, settings)) if settings else None
        if failure is not None:
            return CompiledSettings(settings=settings, failure=failure)
        return CompiledSettings(settings=settings, launches=self.landscape.launches(case, settings))

    def _weighed(self, question: MeasureMemory) -> Memories:
        case, (mode,) = question.case, question.modes
        values = {each.name: self.landscape.values(case, each.settings) for each in question.contenders}
        peaks = {name: self.landscape.peak_bytes(case, found) for name, found in values.items()}
        return Memories(memories=(Memory(case=case, mode=mode, peak_bytes=peaks),))

    def _timed(self, question: Time) -> Timing:
        landscape, case = self.landscape, question.case
        blocks, failures = [], {}
        for contender in question.contenders:
            values = landscape.values(case, contender.settings)
            if contender.name != ORIGINAL and self.dies_of(case, values):
                raise WorkerError(WorkerFailure(status="died", message="signal 11"))
            if contender.name != ORIGINAL and (why := landscape.run_failure(case, values)):
                failures[contender.name] = why
                continue
            time_ms = landscape.time_us(case, values) / 1e3 * self.outlier(question, values)
            for number in range(question.plan.rounds):
                draw = random.Random(f"{question.identity} {contender.name} {number}")
                samples = max(1, round(question.plan.block_ms / 0.25))
                samples_ms = tuple(time_ms * (1 + draw.gauss(0, landscape.noise)) for _ in range(samples))
                blocks.append(Block(contender=contender.name, round=number, samples_ms=samples_ms))
        return Timing(
            case=case,
            mode=question.mode,
            method=TimingMethod.GRAPH,
            calls_per_sample=1,
            input_sets=1,
            same_addresses=True,
            blocks=tuple(blocks),
            failures=failures,
        )


def bench_of(landscape: Landscape, worker: Arithmetic) -> Bench:
    cases = landscape.cases
    bytes_moved = {case.name: 4 * math.prod(case.axes.values()) for case in cases}
    spec = TargetSpec(
        name=KERNEL,
        source="kernel.py",
        module=KERNEL,
        target_file="target.py",
        source_sha256="b" * 64,
        cases=cases,
        modes=(Mode.FORWARD,),
        differentiable=(),
        overwrites=(),
        costs={name: {Mode.FORWARD: Cost(bytes_moved=count, flops=0)} for name, count in bytes_moved.items()},
        providers=(),
        missing_providers={},
        tests=(),
        plot_axis="N",
    )

    def keep(name: str, text: str) -> SourceRef:
        raise AssertionError("a search writes no source")

    return Bench(
        worker=worker,
        target=TargetRef(path="target.py", root=".", sha256="0" * 64),
        spec=spec,
        device=DEVICE,
        original=TUNABLE,
        keep=keep,
        report=lambda text, done=None, total=None: None,
    )


def space_of(landscape: Landscape, case: Case) -> Space:
    return space_at(landscape.knobs, landscape.launches(case, {}), DEVICE)


def runnable(landscape: Landscape, case: Case) -> list[Settings]:
    """All settings of a case that an exhaustive search would time, identical ones one by one."""
    space = space_of(landscape, case)
    found = (space.settings(point) for point in space.points())
    return [
        settings
        for settings in found
        if why_not(space, settings, case, DEVICE) is None
        and landscape.compile_failure(case, landscape.values(case, settings)) is None
        and landscape.run_failure(case, landscape.values(case, settings)) is None
    ]


def exhaustive_best_us(landscape: Landscape, case: Case) -> float:
    return min(landscape.time_us(case, landscape.values(case, settings)) for settings in runnable(landscape, case))


def exhaustive_ms(landscape: Landscape) -> float:
    """Device time to time everything that runs to the usual ±0.25%: at least the usual plan's rounds of it all."""
    return sum(planned_ms(TimingPlan(), len(runnable(landscape, case))) for case in landscape.cases)
