"""Which settings of the original are tried on the compiler, and that the profile does not depend on it."""

from __future__ import annotations

import itertools

import pytest
from simulated_kernel import BACKWARD, FORWARD, Work
from simulated_run import Run

from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import SettingsProbe
from warpsmith.contracts.profile import Profile
from warpsmith.device.known_gpus import target_gpu_of
from warpsmith.measure.worker.protocol import CompileOffline
from warpsmith.search.tuning import constraints
from warpsmith.stages import probing
from warpsmith.stages.probing import LIMIT_S
from warpsmith.stages.profiler import profile

HEAVIEST = "8192x8192-bf16"


def probes_of(found: Profile) -> dict[str, SettingsProbe]:
    return {probe.knob: probe for probe in found.settings_probes}


def asked(run: Run) -> list[CompileOffline]:
    return [question for question in run.gpu.asked if isinstance(question, CompileOffline)]


def test_each_number_of_warps_and_stages_is_tried_alone_where_its_pass_moves_most(run: Run) -> None:
    found = run.profile()
    passes = (Mode.FORWARD, Mode.BACKWARD)
    assert {(question.case.name, question.mode) for question in asked(run)} == {(HEAVIEST, mode) for mode in passes}
    assert all(question.gpu == target_gpu_of(found.device) for question in asked(run))
    assert {(probe.knob, probe.case, probe.mode) for probe in found.settings_probes} == {
        (f"{kernel}.{name}", HEAVIEST, mode)
        for kernel, mode in ((FORWARD, Mode.FORWARD), (BACKWARD, Mode.BACKWARD))
        for name in ("num_warps", "num_stages")
    }
    assert all(len(settings) == 1 for question in asked(run) for settings in question.settings)


def test_what_changes_the_code_is_told_from_what_does_not(run: Run) -> None:
    probes = probes_of(run.profile())
    stages, warps = probes[f"{BACKWARD}.num_stages"], probes[f"{BACKWARD}.num_warps"]
    assert (stages.alike, stages.is_inert) == (((1, 2, 3, 4, 5),), True)
    assert (warps.alike, warps.is_inert) == (((4,), (8,), (16,), (32,)), False)


def test_a_number_of_warps_that_no_thread_could_bear_is_told_and_not_compiled(run: Run) -> None:
    warps = probes_of(run.profile())[f"{BACKWARD}.num_warps"]
    assert warps.failures == {
        1: "not compiled: 256 elements a thread do not fit its registers",
        2: "not compiled: 128 elements a thread do not fit its registers",
    }
    tried = {value for question in asked(run) for each in question.settings for value in each.values()}
    assert 4 in tried  # of the warps, and of no other knob here


def test_as_many_warps_as_the_original_has_are_tried_however_wide_its_blocks_are(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constraints, "MOST_ELEMENTS_PER_THREAD", 1)
    warps = probes_of(run.profile())[f"{BACKWARD}.num_warps"]
    assert (set(warps.failures), warps.alike) == ({1, 2, 4, 8}, ((16,), (32,)))


def test_a_setting_that_does_not_compile_is_told_beside_those_that_do(run: Run) -> None:
    def failure(work: Work) -> str | None:
        return "out of shared memory" if work.settings.get(f"{FORWARD}.num_stages") == 5 else None

    run.gpu.compile_failure = failure
    stages = probes_of(run.profile())[f"{FORWARD}.num_stages"]
    assert (stages.alike, stages.failures) == (((1, 2, 3, 4),), {5: "out of shared memory"})


def test_a_compiler_that_fails_is_a_note_and_no_end_of_the_profile(run: Run) -> None:
    run.gpu.worker_failure = lambda question: "signal 11" if question.kind == "compile_offline" else None
    assert run.profile().settings_probes == ()
    assert f"{BACKWARD}.num_stages at {HEAVIEST} backward: died: signal 11" in run.told.lines


def test_where_nobody_compiles_nothing_is_told_of_settings(run: Run) -> None:
    session = run.session()
    session.worker.offline = None
    assert profile(session).settings_probes == ()
    assert f"{FORWARD}.num_warps at {HEAVIEST} forward: was not tried" in run.told.lines


def test_what_would_take_long_is_left_out_and_told(run: Run) -> None:
    session, seconds = run.session(), itertools.chain([0.0], itertools.repeat(LIMIT_S + 1))
    session.clock = lambda: next(seconds)
    assert [probe.knob for probe in profile(session).settings_probes] == [f"{FORWARD}.num_stages"]
    left = f"{BACKWARD}.num_stages backward, {FORWARD}.num_warps forward, {BACKWARD}.num_warps backward"
    assert f"not tried, to end in time: {left}" in run.told.lines


def test_no_more_settings_are_compiled_than_a_profile_has_time_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "MOST_SETTINGS", 10)
    assert [probe.knob for probe in run.profile().settings_probes] == [
        f"{FORWARD}.num_stages",
        f"{BACKWARD}.num_stages",
    ]
    left = f"{FORWARD}.num_warps forward, {BACKWARD}.num_warps backward"
    assert f"not tried, to end in time: {left}" in run.told.lines


def test_a_profile_that_was_cut_off_compiles_only_what_is_missing(profiled: Run) -> None:
    profiled.workspace.profile.unlink()
    profiled.profile()
    assert asked(profiled) == []
