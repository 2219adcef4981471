"""Counters of the original, and where ncu refuses, its kernels' durations: at the cases that tell most.

An answer that a recording lacks, or that a tool refuses, is a note and no end of the profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TypeVar

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.counters import Counters, Durations
from warpsmith.contracts.measurement import ORIGINAL, Timing
from warpsmith.diagnose.roofline import least_ms
from warpsmith.measure.worker.protocol import Count, MeasureDurations, WorkerError
from warpsmith.measure.worker.stored import NotRecorded
from warpsmith.search.bench import Bench
from warpsmith.stages.timings import heaviest_tuning_case, pairs
from warpsmith.verdict.statistics import block_medians

_Observed = TypeVar("_Observed", Counters, Durations)


def count_or_time(bench: Bench, timings: Sequence[Timing]) -> tuple[tuple[Counters, ...], tuple[Durations, ...]]:
    """Counters where most can be told; with no ncu, what the profiler says of the kernels there. `timings` are all."""
    places = _telling_places(bench, timings)
    counters = _count(bench, places)
    refused = any(each.unavailable is not None for each in counters)
    return counters, _measure_durations(bench, places) if refused else ()


def _telling_places(bench: Bench, timings: Sequence[Timing]) -> list[tuple[Case, Mode]]:
    """The heaviest tuning case of each pass, then, where that is another, the one at which the pass has most to win."""
    heaviest, passes = heaviest_tuning_case(bench.spec), bench.spec.passes
    most = [(case, mode) for mode in passes for case in _with_most_to_win(bench, timings, mode) if case != heaviest]
    return pairs([heaviest], passes) + most


def _with_most_to_win(bench: Bench, timings: Sequence[Timing], mode: Mode) -> list[Case]:
    """The tuning case with the most time above what its nearer ceiling allows, weighted; none where none has one."""
    won: list[tuple[float, Case]] = []
    for timing in timings:
        of_original = any(block.contender == ORIGINAL for block in timing.blocks)
        if timing.mode is mode and timing.case in bench.spec.tuning_cases and of_original:
            case, time_ms = timing.case, float(median(block_medians(timing, ORIGINAL)))
            least = least_ms(bench.spec.costs[case.name][mode], case.dtype, bench.device)
            won += [] if least is None else [(case.weight * (time_ms - least), case)]
    return [max(won, key=lambda each: each[0])[1]] if won else []


def _count(bench: Bench, places: Sequence[tuple[Case, Mode]]) -> tuple[Counters, ...]:
    """Hardware counters at these places."""
    questions = [
        Count(target=bench.target, seed=bench.seed, source=bench.original, case=case, mode=mode)
        for case, mode in places
    ]
    return _observed(bench, "ncu", questions, Counters)


def _measure_durations(bench: Bench, places: Sequence[tuple[Case, Mode]]) -> tuple[Durations, ...]:
    """The kernels of a call by torch's profiler at these places."""
    questions = [
        MeasureDurations(target=bench.target, seed=bench.seed, source=bench.original, case=case, mode=mode)
        for case, mode in places
    ]
    return _observed(bench, "kernel durations", questions, Durations)


def _observed(
    bench: Bench, tool: str, questions: Sequence[Count | MeasureDurations], answer_type: type[_Observed]
) -> tuple[_Observed, ...]:
    """Up to the first refusal, which is among the answers: what refuses one call refuses them all."""
    found: list[_Observed] = []
    for index, question in enumerate(questions):
        place = f"{question.case.name} {question.mode.value}"
        bench.report(f"{tool}: {place}", index, len(questions))
        try:
            answer = bench.ask(question, answer_type)
        except NotRecorded:
            bench.report(f"{tool}: {place} was not recorded")
            continue
        except WorkerError as error:
            answer = answer_type(case=question.case, mode=question.mode, unavailable=error.failure.in_a_line)
        found.append(answer)
        if answer.unavailable is not None:
            bench.report(f"{tool}: {answer.unavailable}")
            break
    return tuple(found)
