"""The table of what was compiled with no GPU, beside what was launched on one."""

from __future__ import annotations

import measured_fixtures as measured
import profile_fixtures as profiles

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.profile import OfflineCompilation
from warpsmith.device.known_gpus import known_gpu
from warpsmith.report.offline_view import offline_lines
from warpsmith.report.pages import render_profile

RECORDED = Origin(kind=OriginKind.RECORDED, gpu=measured.GPU, date="2026-11-29")
H200 = known_gpu("H200")


def offline(launches: dict[str, dict[Mode, tuple[LaunchRecord, ...]]], **changes: object) -> OfflineCompilation:
    complete = OfflineCompilation(
        gpu=H200,
        triton="3.7.1",
        origin=Origin(kind=OriginKind.PREDICTED, gpu=H200.name),
        launches=launches,
    )
    return complete.model_copy(update=changes)


def changed(launch: LaunchRecord, **compiled: int) -> LaunchRecord:
    return launch.model_copy(update={"compiled": launch.compiled.model_copy(update=compiled)})


def test_equal_launches_are_one_line_and_say_that_they_are_the_same() -> None:
    lines = offline_lines(profiles.profile(offline=offline(profiles.launches())))

    assert {line.against for line in lines} == {"same"}
    assert sum(len(line.cases) for line in lines) == 2 * len(profiles.launches())
    assert len(lines) < 2 * len(profiles.launches())


def test_a_grid_of_fewer_dimensions_is_the_same_grid() -> None:
    def padded(launches: tuple[LaunchRecord, ...]) -> tuple[LaunchRecord, ...]:
        return tuple(each.model_copy(update={"grid": (*each.grid, 1, 1)}) for each in launches)

    launches = {
        case: {mode: padded(found) for mode, found in by_mode.items()} for case, by_mode in profiles.launches().items()
    }

    assert {line.against for line in offline_lines(profiles.profile(offline=offline(launches)))} == {"same"}


def test_what_differs_is_named_with_both_figures() -> None:
    case, by_mode = next(iter(profiles.launches().items()))
    (forward,) = by_mode[Mode.FORWARD]
    found = changed(forward, registers=39, shared_bytes=2048)
    (line,) = offline_lines(
        profiles.profile(offline=offline({case: {Mode.FORWARD: (found, forward)}}), origin=RECORDED)
    )[:1]
    when_measured = offline_lines(profiles.profile(offline=offline({case: {Mode.FORWARD: (found, forward)}})))

    assert line.against == "registers 39, recorded 40; shared 2.0 KiB, recorded 64 B"
    assert [each.against for each in when_measured] == [
        "registers 39, measured 40; shared 2.0 KiB, measured 64 B",
        "not measured",
    ]


def test_occupancy_is_that_of_the_gpu_it_is_compiled_for() -> None:
    case, by_mode = next(iter(profiles.launches().items()))
    (forward,) = by_mode[Mode.FORWARD]
    launches = {case: {Mode.FORWARD: (changed(forward, registers=40, num_warps=8),)}}
    for gpu, told in (
        ("H200", ("75.0% (registers)", "2.59, the last 59% full")),
        ("RTX 4090", ("100.0%", "2.67, the last 67% full")),
    ):
        (line,) = offline_lines(profiles.profile(offline=offline(launches, gpu=known_gpu(gpu))))
        assert (line.fit.occupancy, line.fit.waves) == told


def test_the_page_tells_gpu_compiler_and_origin_and_the_rest_stays_as_it_was() -> None:
    note = "_rms_norm_forward_kernel: the first of 3 configurations stands in"
    page = render_profile(profiles.profile(origin=RECORDED, offline=offline(profiles.launches(), notes=(note,))))
    without = render_profile(profiles.profile(origin=RECORDED))
    before, _, added = page.partition("### With no GPU")
    table, _, after = added.partition("## Source")

    assert before + "## Source" + after == without
    told = "Compiled here with no GPU, for NVIDIA H200, by triton 3.7.1: **predicted**."
    assert table.startswith(f", for NVIDIA H200\n\n{told}\n\n| jit function |")
    assert "| as recorded |" in table and table.count("| same |") == len(
        offline_lines(profiles.profile(offline=offline(profiles.launches())))
    )
    assert f"Note: {note}.\n\n" in table


def test_the_page_says_why_nothing_was_compiled() -> None:
    page = render_profile(profiles.profile(offline=offline({}, unavailable="ptxas does not\nknow the GPU")))

    told = "Not compiled here with no GPU, for NVIDIA H200, by triton 3.7.1: ptxas does not know the GPU"
    assert f"\n\n{told}\n\n## Source" in page
    assert "Compiled here with no GPU, for" not in page


def test_a_predicted_profile_does_not_tell_its_own_launches_twice() -> None:
    predicted = profiles.predicted_profile(offline=offline(profiles.launches(), notes=("one stands in",)))

    assert offline_lines(predicted) == ()
    assert "Note: one stands in." in render_profile(predicted)
    assert offline_lines(predicted.model_copy(update={"launches": {}})) != ()
