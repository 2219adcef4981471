"""What is compiled, what is timed, and what is left out with a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from simulated_gpu import SimulatedGpu
from simulated_kernel import BACKWARD, FORWARD

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import SourceRef
from warpsmith.measure.worker.protocol import Time
from warpsmith.search.bench import Bench
from warpsmith.search.space import sweepable
from warpsmith.search.sweep import MAX_FINALISTS, Reading, Sweep, sweep
from warpsmith.search.table import NoTable, settings_table
from warpsmith.source.scan import scan
from warpsmith.source.table import Band
from warpsmith.source.tunable import make_tunable

NARROW = "2048x2048-bf16"
WARPS, STAGES, PROGRAMS = (f"{BACKWARD}.{name}" for name in ("num_warps", "num_stages", "programs_per_sm"))


def tunable(bench: Bench, kernel: str) -> tuple[SourceRef, tuple[Knob, ...]]:
    text = Path(bench.original.path).read_text()
    knobs = sweepable(scan(text).knobs, [kernel])
    return bench.keep("tunable", make_tunable(text, knobs)), knobs


def swept(bench: Bench, kernel: str = BACKWARD, mode: Mode = Mode.BACKWARD) -> Sweep:
    return sweep(bench, *tunable(bench, kernel), mode)


def readings_of(found: Sweep, case: str = NARROW) -> list[Reading]:
    return [reading for reading in found.readings if reading.case.name == case]


def timed(gpu: SimulatedGpu, case: str = NARROW) -> list[list[dict[str, int]]]:
    """The settings of each timing question, in order."""
    asked = [q for q in gpu.asked if isinstance(q, Time) and q.case.name == case]
    return [[contender.settings for contender in question.contenders] for question in asked]


def test_of_settings_with_identical_machine_code_one_is_timed_and_the_others_say_which(
    bench: Bench, gpu: SimulatedGpu
) -> None:
    gpu.also_in_code = lambda work: work.settings.get(STAGES) if work.width == 8192 else None
    found = swept(bench)
    first, final = timed(gpu)

    assert {(s[WARPS], s[STAGES], s[PROGRAMS]) for s in first if s} == {
        (warps, 1, programs) for warps in (1, 2, 4, 8, 16, 32) for programs in (1, 2, 4, 8, 16)
    }
    assert all(settings in first for settings in final)
    same = [reading for reading in readings_of(found) if reading.settings[STAGES] != 1]
    assert len(same) == 6 * 4
    assert {reading.time_ms for reading in same} == {None}
    assert next(reading.note for reading in same if reading.settings == {WARPS: 8, STAGES: 3}) == (
        "same machine code as num_stages=1 num_warps=8"
    )


def test_a_block_that_no_thread_can_hold_is_not_compiled_and_says_so(bench: Bench, gpu: SimulatedGpu) -> None:
    found = swept(bench)
    wide = {r.settings[WARPS]: r.note for r in readings_of(found, "8192x8192-bf16") if r.note}
    assert wide == {
        1: "not compiled: 256 elements a thread do not fit its registers",
        2: "not compiled: 128 elements a thread do not fit its registers",
    }
    assert not any(settings.get(WARPS) in wide for settings in timed(gpu, "8192x8192-bf16")[0])


def test_a_knob_whose_values_change_no_machine_code_is_inert_and_is_not_swept(bench: Bench) -> None:
    found = swept(bench)
    assert [knob.id for knob in found.inert_knobs] == [STAGES]
    assert [knob.id for knob in found.knobs] == [WARPS, PROGRAMS]


def test_settings_that_do_not_compile_are_left_out_with_the_reason(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.compile_failure = lambda work: "too many threads" if work.settings.get(WARPS) == 32 else None
    found = swept(bench)

    assert {r.note for r in readings_of(found) if r.settings[WARPS] == 32} == {"too many threads"}
    assert not any(settings.get(WARPS) == 32 for settings in timed(gpu)[0])
    assert found.cases[0].best[0] == {WARPS: 4, PROGRAMS: 4}


def test_settings_that_fail_to_run_are_left_out_with_the_reason(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.run_failure = lambda work: "illegal address" if work.settings.get(PROGRAMS) == 4 else None
    found = swept(bench)

    failed = [r for r in readings_of(found) if r.settings.get(PROGRAMS) == 4]
    assert {(r.time_ms, r.note) for r in failed} == {(None, "illegal address")}
    assert found.cases[0].best[0][PROGRAMS] == 8


def test_the_original_is_always_a_finalist_and_few_others_are(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.slowdown = lambda work: 1.0 if work.settings else 3.0
    found = swept(bench)

    first, final = timed(gpu)
    assert {} in final
    assert len(final) <= MAX_FINALISTS + 1 < len(first)
    assert all(settings != {} for settings, _ in found.cases[0].finalists)


def test_a_case_where_nothing_compiles_but_the_original_has_no_finalist_and_harms_no_other_case(
    bench: Bench, gpu: SimulatedGpu
) -> None:
    gpu.compile_failure = lambda work: "no room" if work.settings and work.case.name == NARROW else None
    found = swept(bench)
    by_case = {case_sweep.case.name: case_sweep for case_sweep in found.cases}

    assert by_case[NARROW].finalists == ()
    assert by_case["8192x8192-bf16"].best[0] == {WARPS: 16, PROGRAMS: 2}
    assert settings_table(found, "N", bench.device).bands == (
        Band(ranges=((2049, 4096), (2048, 8192)), settings={"num_warps": 4, "programs_per_sm": 4}),
        Band(ranges=((4097, 8192), (2048, 8192)), settings={"num_warps": 16, "programs_per_sm": 2}),
    )


def test_a_case_whose_compiler_dies_is_left_out_and_the_others_are_swept(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.worker_failure = lambda q: "out of host memory" if q.kind == "compile" and q.case.name == NARROW else None
    assert [each.case.name for each in swept(bench).cases] == ["8192x4096-bf16", "8192x8192-bf16"]


def test_where_every_compiler_dies_there_is_no_table_and_it_says_why(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.worker_failure = lambda question: "out of host memory" if question.kind == "compile" else None
    with pytest.raises(NoTable, match=f"{BACKWARD} was compiled at no tuning case"):
        settings_table(swept(bench), "N", bench.device)


def test_a_forward_pass_near_its_ceiling_gets_no_band(bench: Bench) -> None:
    assert settings_table(swept(bench, FORWARD, Mode.FORWARD), "N", bench.device).bands == ()


def test_the_table_is_keyed_by_the_host_variables_that_hold_width_and_rows_at_every_case(bench: Bench) -> None:
    table = settings_table(swept(bench), "N", bench.device)
    assert (table.tensor, table.axes) == ("x", ("n_cols", "n_rows"))
    assert (table.capability, table.sm_count, table.itemsize) == ((9, 0), 132, 2)


def test_without_a_host_variable_for_the_width_there_is_no_table_and_it_says_why(bench: Bench) -> None:
    found = swept(bench)
    keyless = [
        replace(
            each, original_launches=tuple(r.model_copy(update={"host_integers": {}}) for r in each.original_launches)
        )
        for each in found.cases
    ]
    with pytest.raises(NoTable, match="rms_norm_backward has no integer variable that holds the row width"):
        settings_table(replace(found, cases=tuple(keyless)), "N", bench.device)
