"""Sweeps the settings of one pass: compile everything, group equal machine code, time what differs.

Three filters, each cheaper than the next: settings that do not compile fall out; of settings with identical
machine code one is measured for all; short runs of everything leave the few that get long runs. The
original's own settings are always among the contenders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Knob, KnobKind
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.launch import CompiledSettings, LaunchRecord
from warpsmith.contracts.measurement import Contender, SourceRef
from warpsmith.measure.worker.protocol import Compile, WorkerFailure
from warpsmith.search.bench import Bench
from warpsmith.search.space import DEFAULTS, combinations, compile_knobs, host_knobs, label
from warpsmith.verdict.statistics import median_ms

#: Chosen: a first reading of three blocks of 1 ms resolves about 1%; only what is within 10% of the best goes on.
FIRST_ROUNDS, FIRST_BLOCK_MS = 3, 1.0
FINAL_ROUNDS, FINAL_BLOCK_MS = 12, 2.0
FINALIST_RATIO = 1.10
MAX_FINALISTS = 8
ORIGINAL = "original"


@dataclass(frozen=True)
class Reading:
    """One choice of settings at one case. `time_ms` is None where it was not timed, and `note` says why."""

    case: Case
    mode: Mode
    settings: Settings
    binary: str | None
    time_ms: float | None
    final: bool
    note: str = ""


@dataclass(frozen=True)
class CaseSweep:
    """What a sweep found at one case: the launches of the original, and the finalists' times in ms by settings."""

    case: Case
    original_launches: tuple[LaunchRecord, ...]
    original_ms: float
    finalists: tuple[tuple[Settings, float], ...]

    @property
    def best(self) -> tuple[Settings, float]:
        return min(self.finalists, key=lambda finalist: finalist[1])


@dataclass(frozen=True)
class Sweep:
    mode: Mode
    knobs: tuple[Knob, ...]
    cases: tuple[CaseSweep, ...]
    readings: tuple[Reading, ...]

    @property
    def inert_knobs(self) -> tuple[Knob, ...]:
        """Knobs whose every value compiles to the same machine code at every case: they cannot matter here."""
        host = set(host_knobs(self.knobs))
        return tuple(k for k in self.knobs if k not in host and self._never_changes_the_binary(k))

    def _never_changes_the_binary(self, knob: Knob) -> bool:
        binaries: dict[tuple[str, tuple[tuple[str, int], ...]], set[str]] = {}
        for reading in self.readings:
            if reading.binary is not None:
                others = tuple(sorted((i, v) for i, v in reading.settings.items() if i != knob.id))
                binaries.setdefault((reading.case.name, others), set()).add(reading.binary)
        return bool(binaries) and all(len(found) == 1 for found in binaries.values())


def sweep(bench: Bench, tunable: SourceRef, knobs: Sequence[Knob], mode: Mode) -> Sweep:
    """Sweeps `knobs` of a tunable source over the target's tuning cases in one mode. Raises WorkerError."""
    choices = combinations(compile_knobs(knobs))
    questions = [
        Compile(target=bench.target, seed=bench.seed, source=tunable, case=case, mode=mode, settings=({}, *choices))
        for case in bench.spec.tuning_cases
    ]
    bench.report(f"compiling {len(choices)} settings for each of {len(questions)} cases, {mode.value}")
    case_sweeps: list[CaseSweep] = []
    readings: list[Reading] = []
    for question, compiled in zip(questions, bench.compile_all(questions), strict=True):
        if isinstance(compiled, WorkerFailure):
            bench.report(f"{question.case.name}: {compiled.status}: {compiled.message.splitlines()[0]}")
            continue
        found, read = _sweep_case(bench, tunable, knobs, question, compiled)
        case_sweeps.append(found)
        readings.extend(read)
    return Sweep(mode=mode, knobs=tuple(knobs), cases=tuple(case_sweeps), readings=tuple(readings))


def _sweep_case(
    bench: Bench,
    tunable: SourceRef,
    knobs: Sequence[Knob],
    question: Compile,
    compiled: Sequence[CompiledSettings],
) -> tuple[CaseSweep, list[Reading]]:
    case, mode = question.case, question.mode
    original, *candidates = compiled
    distinct, readings = _distinct(case, mode, candidates, knobs)
    contenders = [Contender(name=ORIGINAL, source=tunable)]
    for settings in distinct:
        for host in combinations(host_knobs(knobs)):
            chosen = {**settings, **host}
            contenders.append(Contender(name=label(chosen), source=tunable, settings=chosen))
    bench.report(f"{case.name} {mode.value}: timing {len(contenders)} distinct settings")
    first = bench.time(contenders, case, mode, rounds=FIRST_ROUNDS, block_ms=FIRST_BLOCK_MS)
    times = {c.name: median_ms(first, c.name).value for c in contenders if c.name not in first.failures}
    finalists = _finalists(contenders, times)
    final = bench.time(finalists, case, mode, rounds=FINAL_ROUNDS, block_ms=FINAL_BLOCK_MS)
    settled = {c.name: median_ms(final, c.name).value for c in finalists if c.name not in final.failures}
    for contender in contenders[1:]:
        time_ms = settled.get(contender.name, times.get(contender.name))
        binary = next((r.binary for r in readings if r.settings.items() <= contender.settings.items()), None)
        note = first.failures.get(contender.name, "")
        readings.append(
            Reading(case, mode, contender.settings, binary, time_ms, final=contender.name in settled, note=note)
        )
    best_name = min(settled, key=lambda name: settled[name])
    gain = settled[ORIGINAL] / settled[best_name]
    bench.report(f"{case.name} {mode.value}: best {best_name}, {gain:.3f}× the original")
    found = CaseSweep(
        case=case,
        original_launches=original.launches,
        original_ms=settled[ORIGINAL],
        finalists=tuple((c.settings, settled[c.name]) for c in finalists if c.name in settled and c.settings),
    )
    return found, readings


def _distinct(
    case: Case, mode: Mode, candidates: Sequence[CompiledSettings], knobs: Sequence[Knob]
) -> tuple[list[Settings], list[Reading]]:
    """One choice for each distinct machine code, the one nearest to Triton's defaults; a reading for each other."""
    defaults = {knob.id: DEFAULTS[knob.kind] for knob in knobs if knob.kind is KnobKind.NUM_STAGES}
    by_binary: dict[str, Settings] = {}
    readings: list[Reading] = []
    ordered = sorted(candidates, key=lambda c: sum(c.settings.get(i) != v for i, v in defaults.items()))
    for candidate in ordered:
        if candidate.failure is not None:
            readings.append(Reading(case, mode, candidate.settings, None, None, final=False, note=candidate.failure))
            continue
        binary = "+".join(launch.compiled.binary_sha256[:12] for launch in candidate.launches)
        same_as = by_binary.setdefault(binary, candidate.settings)
        note = "" if same_as is candidate.settings else f"same machine code as {label(same_as)}"
        readings.append(Reading(case, mode, candidate.settings, binary, None, final=False, note=note))
    return list(by_binary.values()), readings


def _finalists(contenders: Sequence[Contender], times: dict[str, float]) -> list[Contender]:
    best = min(times.values())
    close = sorted(
        (c for c in contenders if times.get(c.name, float("inf")) <= best * FINALIST_RATIO), key=lambda c: times[c.name]
    )
    chosen = close[:MAX_FINALISTS]
    return chosen if any(c.name == ORIGINAL for c in chosen) else [*chosen, contenders[0]]
