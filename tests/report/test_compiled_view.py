"""Compiled code arranged for reading."""

from __future__ import annotations

import compiled_fixtures as compiled
import profile_fixtures as profiles
import pytest
from measured_fixtures import HELD_OUT, TUNING

from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import SettingsProbe
from warpsmith.report.compiled_view import access_lines, launch_lines, probe_lines, waves_told


def test_equal_launches_are_one_line_and_held_out_cases_none() -> None:
    lines = launch_lines(profiles.profile())

    assert [(line.launch.jit_function, line.grid) for line in lines] == [
        *(("_rms_norm_forward_kernel", grid) for grid in ("2048", "8192", "4096", "32768")),
        ("_rms_norm_backward_kernel", "132"),
    ]
    assert lines[-1].cases == tuple(case.name for case in TUNING)
    assert not {case.name for case in HELD_OUT} & {case for line in lines for case in line.cases}


def test_spills_are_bytes_and_occupancy_has_its_limiter() -> None:
    (*_, backward) = launch_lines(profiles.profile())

    assert backward.spills == "184 B"
    assert (backward.fit.occupancy, backward.fit.waves) == ("37.5% (registers)", "0.33")


@pytest.mark.parametrize(
    ("waves", "told"),
    [
        (0.25, "0.25"),
        (1.0, "1.00"),
        (5.17, "5.17, the last 17% full"),
        (4.0, "4.00, the last 100% full"),
        (31.001, "31.0, the last 1% full"),
        (1234.5, "1234, the last 50% full"),
    ],
)
def test_waves_come_with_how_full_the_last_one_is(waves: float, told: str) -> None:
    assert waves_told(waves) == told


def test_every_access_has_its_width_and_line() -> None:
    forward, backward = access_lines(launch_lines(profiles.profile()))

    assert forward.cells == (
        "line 61: 2 × 16 B; line 69: 2 × 16 B",
        "line 66: 1 × 4 B; line 71: 2 × 16 B",
        "none",
        "none",
    )
    assert backward.cells == (
        "line 96: 2 × 16 B; line 101: 4 × 8 B, 1 × 4 B; elsewhere: 1 × 4 B",
        "line 118: 2 × 16 B",
        "none",
        "line 102: 1 × bulk",
    )
    assert forward.matrix == "none"


def test_matrix_instructions_are_counted_by_name() -> None:
    (launch,) = launch_lines(profiles.profile())[:1]
    facts = launch.launch.compiled.model_copy(update={"matrix_instructions": {"wgmma.mma_async": 8, "mma.sync": 2}})
    found = launch.launch.model_copy(update={"compiled": facts})
    profile = profiles.profile(launches={TUNING[0].name: {Mode.FORWARD: (found,)}})

    assert [line.matrix for line in access_lines(launch_lines(profile))] == ["2 × mma.sync, 8 × wgmma.mma_async"]


def test_code_that_was_not_read_is_not_told_as_code_without_access() -> None:
    read = profiles.profile().launches[TUNING[0].name][Mode.FORWARD]
    (unread,) = compiled.launches(accesses=False)[TUNING[1].name][Mode.FORWARD]
    mixed = {TUNING[0].name: {Mode.FORWARD: read}, TUNING[1].name: {Mode.FORWARD: (unread,)}}

    assert access_lines(launch_lines(profiles.old_profile())) == ()
    (_, line) = access_lines(launch_lines(profiles.profile(launches=mixed)))
    assert (set(line.cells), line.matrix) == ({"not recorded"}, "not recorded")


def test_a_knob_that_changes_nothing_comes_first_and_once_for_all_its_places() -> None:
    (first, second, third) = probe_lines(compiled.probes())

    assert (first.knob, first.matters, first.alike) == (
        "_rms_norm_forward_kernel.num_stages",
        "**no**",
        "1 = 2 = 3 = 4",
    )
    assert first.places == ("8192×4096 bf16 forward", "4096×16384 bf16 forward")
    assert second.places == ("8192×4096 bf16 backward",)
    assert (third.matters, third.alike) == ("yes", "4; 8; 16")
    assert third.failures.startswith("32: out of resource")


def test_of_a_knob_with_one_value_that_compiles_nothing_is_said() -> None:
    probe = SettingsProbe(knob="k.num_warps", case="64-fp32", mode=Mode.FORWARD, alike=((4,),), failures={8: "no"})

    assert [line.matters for line in probe_lines((probe,))] == ["not known"]
