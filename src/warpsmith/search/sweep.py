"""Sweeps the settings of one pass: compile everything, group equal machine code, time what differs.

Three filters, each cheaper than the next: settings that do not compile fall out; of settings with identical
machine code one is measured for all; short runs of everything leave the few that get long runs. The
original's own settings are always among the contenders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.launch import CompiledSettings, LaunchRecord
from warpsmith.contracts.measurement import ORIGINAL, Contender, SourceRef, TimingPlan
from warpsmith.measure.worker.protocol import Compile, WorkerFailure
from warpsmith.search.bench import Bench
from warpsmith.search.pruning import Probe, compile_question, probe, too_wide
from warpsmith.search.space import combinations, compile_knobs, host_knobs
from warpsmith.search.tuning.catalogue import binary
from warpsmith.search.tuning.space import label
from warpsmith.verdict.statistics import median_ms

#: Chosen: a first reading of three blocks of 1 ms resolves about 1%; only what is within 10% of the best goes on.
FIRST = TimingPlan(rounds=3, most_rounds=3, block_ms=1.0, rounds_a_placement=3)
FINAL = TimingPlan(rounds=12, most_rounds=12, rounds_a_placement=3)
FINALIST_RATIO = 1.10
MAX_FINALISTS = 8
#: Chosen: small enough that all compile workers have something to do.
SETTINGS_PER_QUESTION = 4


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
    """A sweep of one pass. `inert_knobs` compile to the same machine code whatever their value."""

    mode: Mode
    knobs: tuple[Knob, ...]
    inert_knobs: tuple[Knob, ...]
    cases: tuple[CaseSweep, ...]
    readings: tuple[Reading, ...]


def sweep(bench: Bench, tunable: SourceRef, knobs: Sequence[Knob], mode: Mode) -> Sweep:
    """Sweeps `knobs` of a tunable source over the target's tuning cases in one mode. Raises WorkerError."""
    probed = probe(bench, tunable, compile_knobs(knobs), mode)
    live = [knob for knob in knobs if knob not in probed.inert]
    cases = [case for case in bench.spec.tuning_cases if case.name in probed.launches]
    swept = _Swept(bench, tunable, live, mode)
    compiled = _compiled(swept, cases, probed)
    case_sweeps: list[CaseSweep] = []
    readings: list[Reading] = []
    for index, case in enumerate(cases):
        bench.report(f"{case.name} {mode.value}: timing its distinct settings", index, len(cases))
        found, read = _sweep_case(swept, case, probed.launches[case.name], compiled[case.name])
        case_sweeps.append(found)
        readings.extend(read)
    return Sweep(mode, tuple(live), probed.inert, tuple(case_sweeps), tuple(readings))


@dataclass(frozen=True)
class _Swept:
    """The knobs of a tunable source that are swept in one mode."""

    bench: Bench
    tunable: SourceRef
    knobs: Sequence[Knob]
    mode: Mode


def _compiled(swept: _Swept, cases: Sequence[Case], probed: Probe) -> dict[str, list[CompiledSettings]]:
    """By case name, what every choice compiles to, or why it does not or was not tried. Compiled side by side."""
    found: dict[str, list[CompiledSettings]] = {case.name: [] for case in cases}
    questions: list[Compile] = []
    for case in cases:
        worthwhile: list[Settings] = []
        for choice in combinations(compile_knobs(swept.knobs)):
            reason = too_wide(choice, swept.knobs, probed.launches[case.name])
            if reason is None:
                worthwhile.append(choice)
            else:
                found[case.name].append(CompiledSettings(settings=choice, failure=reason))
        for start in range(0, len(worthwhile), SETTINGS_PER_QUESTION):
            some = worthwhile[start : start + SETTINGS_PER_QUESTION]
            questions.append(compile_question(swept.bench, swept.tunable, case, swept.mode, some))
    told = f"{swept.mode.value}: compiling settings for {len(cases)} cases"
    for question, answer in zip(questions, swept.bench.compile_all(questions, told), strict=True):
        if isinstance(answer, WorkerFailure):
            why = answer.in_a_line
            found[question.case.name] += [CompiledSettings(settings=each, failure=why) for each in question.settings]
        else:
            found[question.case.name] += answer
    return found


def _sweep_case(
    swept: _Swept, case: Case, launches: tuple[LaunchRecord, ...], candidates: Sequence[CompiledSettings]
) -> tuple[CaseSweep, list[Reading]]:
    """Short runs of all distinct settings at one case, long runs of the best. Raises WorkerError."""
    bench, mode = swept.bench, swept.mode
    distinct, readings = _distinct(case, mode, candidates)
    contenders = [Contender(name=ORIGINAL, source=swept.tunable)]
    for settings in distinct:
        for host in combinations(host_knobs(swept.knobs)):
            chosen = {**settings, **host}
            contenders.append(Contender(name=label(chosen), source=swept.tunable, settings=chosen))
    first = bench.time(contenders, case, mode, FIRST)
    times = {c.name: median_ms(first, c.name).value for c in contenders if c.name not in first.failures}
    finalists = _finalists(contenders, times)
    final = bench.time(finalists, case, mode, FINAL)
    settled = {c.name: median_ms(final, c.name).value for c in finalists if c.name not in final.failures}
    for contender in contenders[1:]:
        time_ms = settled.get(contender.name, times.get(contender.name))
        code = next((r.binary for r in readings if r.settings.items() <= contender.settings.items()), None)
        note = first.failures.get(contender.name, "")
        readings.append(
            Reading(case, mode, contender.settings, code, time_ms, final=contender.name in settled, note=note)
        )
    best_name = min(settled, key=lambda name: settled[name])
    gain = settled[ORIGINAL] / settled[best_name]
    told = f"best {best_name}, {gain:.3f}× the original, of {len(contenders)} distinct settings"
    bench.report(f"{case.name} {mode.value}: {told}")
    found = CaseSweep(
        case=case,
        original_launches=launches,
        original_ms=settled[ORIGINAL],
        finalists=tuple((c.settings, settled[c.name]) for c in finalists if c.name in settled and c.settings),
    )
    return found, readings


def _distinct(case: Case, mode: Mode, candidates: Sequence[CompiledSettings]) -> tuple[list[Settings], list[Reading]]:
    """One choice for each distinct machine code, and a reading for every choice that will not be timed itself."""
    by_binary: dict[str, Settings] = {}
    readings: list[Reading] = []
    for candidate in candidates:
        code = binary(candidate)
        if code is None:
            note = candidate.failure or ""
            readings.append(Reading(case, mode, candidate.settings, None, None, final=False, note=note))
            continue
        same_as = by_binary.setdefault(code, candidate.settings)
        note = "" if same_as is candidate.settings else f"same machine code as {label(same_as)}"
        readings.append(Reading(case, mode, candidate.settings, code, None, final=False, note=note))
    return list(by_binary.values()), readings


def _finalists(contenders: Sequence[Contender], times: dict[str, float]) -> list[Contender]:
    best = min(times.values())
    close = sorted(
        (c for c in contenders if times.get(c.name, float("inf")) <= best * FINALIST_RATIO), key=lambda c: times[c.name]
    )
    chosen = close[:MAX_FINALISTS]
    return chosen if any(c.name == ORIGINAL for c in chosen) else [*chosen, contenders[0]]
