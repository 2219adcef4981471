"""What need not be compiled or timed: knobs that change no machine code, and blocks that no thread can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Knob, KnobKind
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.measurement import SourceRef
from warpsmith.device.architecture import THREADS_PER_WARP
from warpsmith.measure.worker.protocol import Compile, WorkerFailure
from warpsmith.search.bench import Bench
from warpsmith.search.space import VALUES
from warpsmith.search.tuning.catalogue import binary

#: A thread has 255 registers (CUDA programming guide, compute capabilities). A kernel that reduces a row and reads it
#: again holds at least two values of it, most hold three or four: beyond 64 elements a thread they live in memory,
#: and ptxas needs minutes to put them there.
MAX_ELEMENTS_PER_THREAD = 64


@dataclass(frozen=True)
class Probe:
    """The original's launches by case name, and the knobs that turned out to change nothing at any case."""

    launches: dict[str, tuple[LaunchRecord, ...]]
    inert: tuple[Knob, ...]
    failures: dict[str, str]


def probe(bench: Bench, tunable: SourceRef, knobs: Sequence[Knob], mode: Mode) -> Probe:
    """Compiles the original at every tuning case, and beside it each knob but the warps alone, value by value.

    A knob whose values all give the original's machine code has nothing to act on. The number of warps always
    changes the code, so it is not probed.
    """
    probed = [knob for knob in knobs if knob.kind is not KnobKind.NUM_WARPS]
    alone = [{knob.id: value} for knob in probed for value in VALUES[knob.kind]]
    questions = [compile_question(bench, tunable, case, mode, [{}, *alone]) for case in bench.spec.tuning_cases]
    launches: dict[str, tuple[LaunchRecord, ...]] = {}
    failures: dict[str, str] = {}
    changing: set[str] = set()
    told = f"{mode.value}: which of {', '.join(knob.name for knob in knobs)} change the machine code"
    for question, compiled in zip(questions, bench.compile_all(questions, told), strict=True):
        if isinstance(compiled, WorkerFailure):
            failures[question.case.name] = compiled.in_a_line
            continue
        original, *others = compiled
        if original.failure is not None:
            failures[question.case.name] = original.failure
            continue
        launches[question.case.name] = original.launches
        code = binary(original)
        changing |= {next(iter(other.settings)) for other in others if binary(other) not in (code, None)}
    return Probe(launches, tuple(k for k in probed if k.id not in changing and launches), failures)


def compile_question(bench: Bench, tunable: SourceRef, case: Case, mode: Mode, settings: Sequence[Settings]) -> Compile:
    return Compile(target=bench.target, seed=bench.seed, source=tunable, case=case, mode=mode, settings=tuple(settings))


def too_wide(settings: Settings, knobs: Sequence[Knob], launches: Sequence[LaunchRecord]) -> str | None:
    """Why these settings are not worth compiling at a case, judged by the original's block sizes there."""
    for knob in knobs:
        if knob.kind is not KnobKind.NUM_WARPS or knob.id not in settings:
            continue
        for launch in launches:
            if launch.jit_function == knob.jit_function:
                per_thread = block_elements(launch) / (settings[knob.id] * THREADS_PER_WARP)
                if per_thread > MAX_ELEMENTS_PER_THREAD:
                    return f"not compiled: {per_thread:.0f} elements a thread do not fit its registers"
    return None


def block_elements(launch: LaunchRecord) -> int:
    """Elements of the launch's block: the product of its BLOCK constexprs."""
    sizes = [v for name, v in launch.constexprs.items() if "BLOCK" in name.upper() and type(v) is int and v > 0]
    return math.prod(sizes)
