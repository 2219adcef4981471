"""Whose kernels do the work of a call, which launch has most of it, and what follows for the diagnosis."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Bottleneck, EvidenceTier, ModeProfile
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.code_signals import emptiest_grid
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.places import sites
from warpsmith.diagnose.roofline import baselines
from warpsmith.diagnose.work import library_part, loops_over_rows, main_launch

BACKWARD = "_backward_kernel"


def diagnosed(evidence: Evidence, mode: Mode = Mode.FORWARD) -> ModeProfile:
    return classify(mode, evidence, baselines(evidence.spec, evidence.timings, (), evidence.device))


def products(made: Any, library_us: float, mode: Mode = Mode.FORWARD) -> Evidence:
    """A call of 100 µs, so much of it in a library's kernel, and a launch of one program."""
    case = made.case(8192, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(blocks=1),)}}
    durations = (made.durations(case, Mode.FORWARD, nvjet=library_us, _forward_kernel=100.0 - library_us),)
    evidence: Evidence = made.evidence(
        made.spec(case), made.timing_at(case, mode, 0.4), launches=launches, durations=durations
    )
    return evidence


def test_the_part_in_library_kernels_is_told_with_the_longest_of_them(made: Any) -> None:
    evidence = products(made, 96.0)
    (site,) = sites(Mode.FORWARD, evidence)
    part = library_part(site, evidence)

    assert part is not None and (part.share, part.main) == (pytest.approx(0.96), "nvjet")
    assert "96% of the device time there is in library kernels, such as nvjet." in diagnosed(evidence).conclusion


def test_small_kernels_beside_a_librarys_neither_decide_nor_are_cited(made: Any) -> None:
    profile = diagnosed(products(made, 96.0))

    assert profile.bottleneck is not Bottleneck.GRID_TOO_SMALL
    assert not [r for r in profile.evidence if r.signal == "waves" or r.signal.startswith("occupancy of")]
    assert "fills" not in profile.conclusion


def test_where_its_own_kernel_takes_most_its_grid_decides(made: Any) -> None:
    profile = diagnosed(products(made, 30.0))

    assert profile.bottleneck is Bottleneck.GRID_TOO_SMALL
    assert [r for r in profile.evidence if r.signal == "waves"]


def test_fills_and_kernels_that_a_call_launches_from_other_files_are_no_librarys(made: Any) -> None:
    case = made.case(8192, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(), made.launch("_imported_kernel"))}}
    durations = (made.durations(case, Mode.FORWARD, FILL=9.0, _imported_kernel=50.0, _forward_kernel=50.0),)
    evidence = made.evidence(made.spec(case), launches=launches, durations=durations)
    (site,) = sites(Mode.FORWARD, evidence)

    assert library_part(site, evidence) is None


def test_a_whole_call_that_was_not_counted_is_read_off_the_counters_of_its_passes(made: Any) -> None:
    case = made.case(8192, 4096)
    passes = ((Mode.FORWARD, 20.0, 95.0), (Mode.BACKWARD, 30.0, 75.0))
    counters = tuple(made.counters(case, made.throughput(c, m), mode=mode) for mode, c, m in passes)
    timing = made.timing_at(case, Mode.FULL, 0.3)

    profile = diagnosed(made.evidence(made.spec(case), timing, counters=counters), Mode.FULL)

    assert (profile.bottleneck, profile.tier) == (Bottleneck.MEMORY_BOUND, EvidenceTier.COUNTERS)
    assert "compute 25%, memory 85% of their peaks by ncu in its passes" in profile.conclusion
    assert profile.ncu_disagreement is None


def test_a_whole_call_of_which_one_pass_was_not_counted_is_read_off_its_time(made: Any) -> None:
    case = made.case(8192, 4096)
    counters = (made.counters(case, made.throughput(20.0, 95.0)),)
    timing = made.timing_at(case, Mode.FULL, 0.3)

    profile = diagnosed(made.evidence(made.spec(case), timing, counters=counters), Mode.FULL)

    assert profile.tier is EvidenceTier.TIMINGS
    assert "(bytes 30% of the copy ceiling)" in profile.conclusion


def row_loop_with(made: Any, *others: Any, **changes: Any) -> tuple[Any, Evidence]:
    case = made.case(8192, 4096)
    launches = {case.name: {Mode.BACKWARD: (*others, made.launch(BACKWARD, 296))}}
    evidence = made.evidence(
        made.spec(case),
        device=made.device(sm_count=148),
        launches=launches,
        audit=made.audit(loops=(BACKWARD,)),
        **changes,
    )
    return sites(Mode.BACKWARD, evidence)[0], evidence


def test_a_small_launch_beside_a_row_loop_does_not_hide_that_it_loops(made: Any) -> None:
    site, evidence = row_loop_with(made, made.launch("_parameters_kernel", 64))

    assert loops_over_rows(site, evidence)


def test_the_longest_launch_is_the_main_one_where_times_are_known_however_small_its_grid(made: Any) -> None:
    case = made.case(8192, 4096)
    durations = (made.durations(case, Mode.BACKWARD, _backward_kernel=80.0, _wide_kernel=20.0),)
    site, evidence = row_loop_with(made, made.launch("_wide_kernel", 4000), durations=durations)
    unknown, without = row_loop_with(made, made.launch("_wide_kernel", 4000))

    assert loops_over_rows(site, evidence)
    main = main_launch(unknown)
    assert main is not None and main.jit_function == "_wide_kernel" and not loops_over_rows(unknown, without)


def test_a_kernel_that_takes_little_of_the_time_is_not_the_one_that_is_told_to_fill_little(made: Any) -> None:
    case = made.case(8192, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(), made.launch("_small_kernel", 1))}}
    durations = (made.durations(case, Mode.FORWARD, _forward_kernel=97.0, _small_kernel=3.0),)

    profile = diagnosed(
        made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.4), launches=launches, durations=durations)
    )

    assert "the grid of _forward_kernel fills" in profile.conclusion


def test_of_a_row_loop_its_own_grid_is_told_and_not_that_of_a_smaller_kernel_beside_it(made: Any) -> None:
    site, evidence = row_loop_with(made, made.launch("_sum_kernel", 32, num_warps=1))
    emptiest = emptiest_grid(site, evidence)

    assert emptiest is not None and emptiest[0].jit_function == BACKWARD


WGMMA = {"wgmma.mma_async": 4}


def test_few_warps_of_a_persistent_matrix_product_are_by_design(made: Any) -> None:
    case = made.case(8192, 4096)
    launches = {case.name: {Mode.BACKWARD: (made.launch(BACKWARD, 132, matrix_instructions=WGMMA),)}}
    evidence = made.evidence(
        made.spec(case),
        made.timing_at(case, Mode.BACKWARD, 0.4),
        launches=launches,
        audit=made.audit(loops=(BACKWARD,)),
        counters=(
            made.counters(
                case,
                made.throughput(20.0, 20.0, **{"sm__warps_active.avg.pct_of_peak_sustained_active": 12.0}),
                mode=Mode.BACKWARD,
            ),
        ),
    )

    profile = diagnosed(evidence, Mode.BACKWARD)

    by_design = "few warps are by design where matrix instructions do the work"
    rows = {row.signal: row for row in profile.evidence}
    assert (rows[f"occupancy of {BACKWARD}"].supports, rows["achieved occupancy"].supports) == (by_design, by_design)
    assert "too few warps" not in " ".join(row.supports for row in profile.evidence)
    assert "fills" not in profile.conclusion


def test_programs_of_a_matrix_product_loop_over_tiles(made: Any) -> None:
    case = made.case(8192, 4096)
    launches = {case.name: {Mode.BACKWARD: (made.launch(BACKWARD, 132, matrix_instructions=WGMMA),)}}
    profile = diagnosed(
        made.evidence(
            made.spec(case),
            made.timing_at(case, Mode.BACKWARD, 0.7),
            launches=launches,
            audit=made.audit(loops=(BACKWARD,)),
        ),
        Mode.BACKWARD,
    )

    waves = next(row for row in profile.evidence if row.signal == "waves")
    assert waves.supports == "programs loop over their tiles, so at most one wave is by design"
