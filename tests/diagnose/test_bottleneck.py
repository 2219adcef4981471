"""The class of a mode, and what is said in evidence."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import CounterRow, Counters
from warpsmith.contracts.profile import Bottleneck, EvidenceRow, ModeProfile
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.roofline import baselines

#: RMSNorm forward 4096×4096 bf16 on an H200, ncu 2025.3.1, two runs: one lacks bytes read and written.
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
SECTIONS = {
    "gpu__time_duration.sum": 16704.0,
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": 36.58,
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 56.67,
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 56.67,
    "l1tex__t_sector_hit_rate.pct": 32.26,
    "lts__t_sector_hit_rate.pct": 51.49,
    "sm__warps_active.avg.pct_of_peak_sustained_active": 67.09,
    "launch__waves_per_multiprocessor": 5.17,
    "smsp__average_warp_latency_per_inst_issued.ratio": 25.03,
    STALL.format("long_scoreboard"): 14.29,
    STALL.format("barrier"): 3.36,
    STALL.format("selected"): 1.00,
}
SET_FULL = {
    **SECTIONS,
    "gpu__time_duration.sum": 16544.0,
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": 36.44,
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 57.16,
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 57.16,
    "dram__bytes_read.sum": 33571328.0,
    "dram__bytes_write.sum": 11842560.0,
}


def counted(case: Case, *metrics: dict[str, float], mode: Mode = Mode.FORWARD) -> Counters:
    rows = tuple(CounterRow(kernel="k", grid="", block="", metrics=each) for each in metrics)
    return Counters(case=case, mode=mode, rows=rows, ncu_version="2025.3.1")


def throughput(compute_pct: float, memory_pct: float, waves: float = 5.0, **more: float) -> dict[str, float]:
    return {
        "gpu__time_duration.sum": 1000.0,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": compute_pct,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": memory_pct,
        "launch__waves_per_multiprocessor": waves,
        **more,
    }


def diagnosed(evidence: Evidence, mode: Mode = Mode.FORWARD) -> ModeProfile:
    return classify(mode, evidence, baselines(evidence.spec, evidence.timings, (), evidence.device))


def row(profile: ModeProfile, signal: str) -> EvidenceRow:
    return next(each for each in profile.evidence if each.signal.startswith(signal))


@pytest.mark.parametrize("metrics", [SECTIONS, SET_FULL], ids=["sections", "set-full"])
def test_the_real_counters_of_a_kernel_at_the_copy_ceiling_are_near_peak(made: Any, metrics: dict[str, float]) -> None:
    case = made.case(4096, 4096)
    timing = made.timing(case, Mode.FORWARD, {"original": 0.0165})

    profile = diagnosed(made.evidence(made.spec(case), timing, counters=(counted(case, metrics),)))

    assert profile.bottleneck is Bottleneck.NEAR_PEAK
    assert row(profile, "least work").observation == (
        "67.1 MB in 16.5 us: 4.07 TB/s, 99% of the copy ceiling of 4.10 TB/s"
    )
    assert profile.ncu_disagreement is not None
    assert profile.ncu_disagreement.startswith("ncu's rule reads compute 3")
    assert "says latency-bound; the least work over the device time is 99% of" in profile.ncu_disagreement


def test_counted_bytes_below_the_least_are_explained_and_no_miracle(made: Any) -> None:
    case = made.case(4096, 4096)
    timing = made.timing(case, Mode.FORWARD, {"original": 0.0165})

    profile = diagnosed(made.evidence(made.spec(case), timing, counters=(counted(case, SET_FULL),)))

    assert "saw 45.4 MB of at least 67.1 MB, because writes were still in L2" in (profile.ncu_disagreement or "")
    assert row(profile, "bytes through DRAM").supports.startswith("write-back was not finished")
    assert row(profile, "longest stall") == EvidenceRow(
        signal="longest stall",
        observation="long_scoreboard, 57% of a warp's latency between instructions",
        supports="warps wait for global memory",
        source="ncu 2025.3.1, 4096x4096-bf16",
    )


@pytest.mark.parametrize(
    ("compute_pct", "memory_pct", "waves", "expected"),
    [
        (30.0, 59.0, 5.0, Bottleneck.LATENCY_BOUND),
        (30.0, 40.0, 0.5, Bottleneck.GRID_TOO_SMALL),
        (30.0, 70.0, 0.5, Bottleneck.MEMORY_BOUND),
        (75.0, 62.0, 5.0, Bottleneck.COMPUTE_BOUND),
        (65.0, 70.0, 5.0, Bottleneck.BALANCED),
    ],
)
def test_below_the_peak_counters_decide(
    made: Any, compute_pct: float, memory_pct: float, waves: float, expected: Bottleneck
) -> None:
    case = made.case(4096, 4096)
    counters = (counted(case, throughput(compute_pct, memory_pct, waves)),)

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), counters=counters))

    assert profile.bottleneck is expected
    assert (profile.ncu_disagreement is not None) == (expected is Bottleneck.GRID_TOO_SMALL)


def test_the_class_is_read_off_a_counted_case_where_there_is_one(made: Any) -> None:
    counted_case, other = made.case(4096, 4096), made.case(8192, 8192)
    evidence = made.evidence(
        made.spec(counted_case, other),
        made.timing_at(counted_case, Mode.FORWARD, 0.7),
        made.timing_at(other, Mode.FORWARD, 0.3),
        counters=(counted(counted_case, throughput(20.0, 80.0)),),
    )

    profile = diagnosed(evidence)

    assert profile.bottleneck is Bottleneck.MEMORY_BOUND
    assert row(profile, "compute and memory").source == "ncu 2025.3.1, 4096x4096-bf16"


def test_several_launches_are_weighed_by_their_durations(made: Any) -> None:
    case = made.case(4096, 4096)
    short, long = throughput(90.0, 10.0), {**throughput(10.0, 70.0), "gpu__time_duration.sum": 9000.0}
    evidence = made.evidence(
        made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), counters=(counted(case, short, long),)
    )

    profile = diagnosed(evidence)

    assert profile.bottleneck is Bottleneck.MEMORY_BOUND
    assert row(profile, "compute and memory").observation == "compute 18%, memory 64% of peak"


def test_memory_that_is_busy_without_dram_names_the_caches(made: Any) -> None:
    case = made.case(4096, 4096)
    hits = {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 30.0, "lts__t_sector_hit_rate.pct": 95.0}
    counters = (counted(case, throughput(20.0, 80.0, **hits)),)

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), counters=counters))

    found = row(profile, "DRAM throughput")
    assert found.observation == "DRAM 30% of peak, L2 hit rate 95%"
    assert found.supports.startswith("caches or shared memory are the limit, not DRAM")


@pytest.mark.parametrize(
    ("share", "blocks", "expected"),
    [
        (0.95, 8192, Bottleneck.NEAR_PEAK),
        (0.75, 8192, Bottleneck.MEMORY_BOUND),
        (0.41, 8192, Bottleneck.LATENCY_BOUND),
        (0.41, 100, Bottleneck.GRID_TOO_SMALL),
    ],
)
def test_without_counters_shares_of_the_ceilings_and_waves_decide(
    made: Any, share: float, blocks: int, expected: Bottleneck
) -> None:
    case = made.case(4096, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(blocks=blocks),)}}

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, share), launches=launches))

    assert profile.bottleneck is expected
    assert profile.ncu_disagreement is None


@pytest.mark.parametrize("by_knob", [True, False])
def test_a_row_loop_with_one_program_a_sm_is_latency_bound_not_a_small_grid(made: Any, by_knob: bool) -> None:
    case = made.case(8192, 4096)
    knobs = (made.knob("_backward_kernel", KnobKind.PROGRAMS_PER_SM),) if by_knob else ()
    audit = made.audit(knobs=knobs, loops=() if by_knob else ("_backward_kernel",))

    profile = diagnosed(
        made.evidence(made.spec(case), made.timing_at(case, Mode.BACKWARD, 0.41), audit=audit), Mode.BACKWARD
    )

    assert profile.bottleneck is Bottleneck.LATENCY_BOUND
    assert row(profile, "waves") == EvidenceRow(
        signal="waves",
        observation="132 programs on 132 SMs: 0.17 waves",
        supports="programs loop over the rows, so at most one wave is by design: latency, not the size of the grid",
        source="compiled code and grid, 8192x4096-bf16",
    )
    assert row(profile, "occupancy of _backward_kernel").supports == "too few warps to hide latency"


def test_the_share_is_the_weighted_geometric_mean_and_headroom_what_the_ceiling_would_save(made: Any) -> None:
    heavy, light = made.case(8192, 4096, weight=3.0), made.case(8192, 8192)
    held_out = made.case(1, 4096, role="held_out")
    timings = [made.timing_at(heavy, Mode.FORWARD, 0.5), made.timing_at(light, Mode.FORWARD, 1.25)]
    timings.append(made.timing_at(held_out, Mode.FORWARD, 0.01))

    profile = diagnosed(made.evidence(made.spec(heavy, light, held_out), *timings))

    assert profile.share_of_ceiling == pytest.approx((0.5**3 * 1.25) ** 0.25)
    at_ceiling_us = made.cost(heavy, Mode.FORWARD).bytes_moved / 4100e3
    assert profile.headroom_us == pytest.approx(0.75 * at_ceiling_us)
    assert row(profile, "share of the ceiling over 2").observation == "50% (8192x4096-bf16) to 125% (8192x8192-bf16)"


def test_spills_are_told(made: Any) -> None:
    case = made.case(4096, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(registers=255, spills=64),)}}

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), launches=launches))

    assert row(profile, "spills").observation == "64 at 255 registers a thread"


def test_the_full_mode_looks_at_the_launches_of_both_passes(made: Any) -> None:
    case = made.case(4096, 4096)

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FULL, 0.5)), Mode.FULL)

    signals = [each.signal for each in profile.evidence if each.signal.startswith("occupancy")]
    assert signals == ["occupancy of _forward_kernel", "occupancy of _backward_kernel"]


def test_a_mode_that_was_not_timed_is_an_error(made: Any) -> None:
    with pytest.raises(ValueError, match="backward: the original has no timed tuning case"):
        diagnosed(made.evidence(made.spec(made.case(4096, 4096))), Mode.BACKWARD)


def test_every_figure_in_evidence_has_a_source(made: Any) -> None:
    case = made.case(4096, 4096)
    evidence = made.evidence(
        made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), counters=(counted(case, SET_FULL),)
    )

    assert all(each.source and each.observation and each.supports for each in diagnosed(evidence).evidence)
