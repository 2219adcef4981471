"""What a mode's diagnosis comes down to, in a sentence or two."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import AccessKind, GlobalAccess
from warpsmith.contracts.profile import LaunchOverhead
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.roofline import baselines


def concluded(evidence: Evidence, mode: Mode = Mode.FORWARD, *overheads: LaunchOverhead) -> str:
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    return classify(mode, evidence, rows, overheads).conclusion


def test_near_its_peak_means_to_stop_here(made: Any) -> None:
    near, far = made.case(8192, 4096), made.case(8192, 8192)
    timings = [made.timing_at(near, Mode.FORWARD, 0.96), made.timing_at(far, Mode.FORWARD, 0.92)]

    assert concluded(made.evidence(made.spec(near, far), *timings)) == (
        "Near its peak, at 94% of the measured ceiling: stop here. Only 3.5 µs of a call are left to win, at most "
        "5.7 µs, at 8192x8192-bf16."
    )


def test_a_row_loop_that_waits_is_told_by_how_little_it_fills(made: Any) -> None:
    case = made.case(8192, 4096)
    audit = made.audit(knobs=(made.knob("_backward_kernel", KnobKind.PROGRAMS_PER_SM),))

    told = concluded(
        made.evidence(made.spec(case), made.timing_at(case, Mode.BACKWARD, 0.41), audit=audit), Mode.BACKWARD
    )

    assert told == (
        "Latency-bound: neither ceiling is near (bytes 41% of the copy ceiling), and the grid fills 12% of an SM's "
        "warps with programs that loop over the rows at 8192x4096-bf16. At 41% of its ceiling, 70.7 µs of a call are "
        "left to win."
    )


def test_of_several_kernels_the_one_that_fills_least_is_named(made: Any) -> None:
    case = made.case(8192, 4096)

    looping = made.audit(loops=("_backward_kernel",))
    timing = made.timing_at(case, Mode.FULL, 0.5)

    told = concluded(made.evidence(made.spec(case), timing, audit=looping), Mode.FULL)

    assert "the grid of _backward_kernel fills 12% of an SM's warps" in told


def test_a_kernel_of_one_program_does_not_speak_for_a_call_whose_times_are_not_known(made: Any) -> None:
    case = made.case(8192, 4096)
    launches = {case.name: {Mode.FULL: (made.launch("_count_kernel", 1), made.launch(blocks=8192))}}
    evidence = made.evidence(made.spec(case), made.timing_at(case, Mode.FULL, 0.5), launches=launches)

    told = concluded(evidence, Mode.FULL)

    assert "the grid of _forward_kernel fills 75% of an SM's warps" in told and "_count_kernel" not in told


def test_a_case_unlike_most_is_told_not_to_be_typical_and_what_the_others_would_be(made: Any) -> None:
    cases = [made.case(8192, 4096 * n) for n in (4, 1, 2, 3)]
    timings = [made.timing_at(c, Mode.FORWARD, share) for c, share in zip(cases, (0.1, 0.95, 0.93, 0.7), strict=True)]

    told = concluded(made.evidence(made.spec(*cases), *timings))

    assert told.endswith(
        "8192x16384-bf16 is not typical: by device time alone it is latency-bound (10% of its ceiling), and of the 3 "
        "other cases, at 70% to 95%, the pass is near its peak at 2 and memory-bound at 1."
    )


def test_where_most_cases_would_be_of_the_same_class_nothing_is_said_of_the_others(made: Any) -> None:
    cases = [made.case(8192, 4096 * n) for n in (3, 1, 2)]
    timings = [made.timing_at(c, Mode.FORWARD, share) for c, share in zip(cases, (0.3, 0.95, 0.4), strict=True)]

    assert "not typical" not in concluded(made.evidence(made.spec(*cases), *timings))


def test_a_small_grid_is_told_by_its_waves(made: Any) -> None:
    case = made.case(4096, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(blocks=100),)}}

    told = concluded(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.4), launches=launches))

    assert told.startswith("Held back by a grid that is too small: ")
    assert "0.13 waves of programs leave SMs idle" in told


def test_plain_calls_are_launch_bound_only_where_the_host_is_slower_at_every_case(made: Any) -> None:
    small, large = made.case(64, 4096), made.case(8192, 8192)
    timings = [
        made.timing(small, Mode.FORWARD, {"original": 0.005}),
        made.timing(large, Mode.FORWARD, {"original": 0.1}),
    ]
    evidence = made.evidence(made.spec(small, large), *timings)

    def host(us: float, provider: str = "original") -> LaunchOverhead:
        return LaunchOverhead(case=small.name, mode=Mode.FORWARD, provider=provider, host_us=us, device_us=5.0)

    assert concluded(evidence, Mode.FORWARD, host(101.0)).endswith(
        "Plain calls in a row are launch-bound: each takes the host 101.0 µs, the GPU at most 100.0 µs."
    )
    assert "launch-bound" not in concluded(evidence, Mode.FORWARD, host(99.0))
    assert "launch-bound" not in concluded(evidence, Mode.FORWARD, host(101.0, "torch"))
    assert "launch-bound" not in concluded(evidence)


@pytest.mark.parametrize(("share_of_least", "sound"), [(1.0, True), (1.5, False)])
def test_wide_accesses_and_no_byte_too_many_look_sound_by_the_counters(
    made: Any, share_of_least: float, sound: bool
) -> None:
    case = made.case(8192, 4096)
    wide = (GlobalAccess(kind=AccessKind.LOAD, bytes_a_thread=16, instructions=1),)
    half = share_of_least * made.cost(case, Mode.FORWARD).bytes_moved / 2
    metrics = made.throughput(20.0, 80.0, **{"dram__bytes_read.sum": half, "dram__bytes_write.sum": half})

    told = concluded(
        made.evidence(
            made.spec(case),
            made.timing_at(case, Mode.FORWARD, 0.8),
            counters=(made.counters(case, metrics),),
            launches={case.name: {Mode.FORWARD: (made.launch(accesses=wide),)}},
        )
    )

    why = (
        " Nothing in the source looks wrong: its accesses are 16 bytes wide, and the counters saw no needless traffic."
    )
    assert told.endswith(why) is sound
    assert ("looks wrong" in told) is sound


def test_shares_of_ceilings_that_round_to_nothing_are_left_out(made: Any) -> None:
    case = made.case(8192, 4096)

    told = concluded(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.001)))

    assert "neither ceiling is near (less than 1% of either)" in told
