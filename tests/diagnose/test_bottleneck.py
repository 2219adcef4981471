"""The class of a mode, and what is said in evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import AccessKind, GlobalAccess
from warpsmith.contracts.profile import Bottleneck, EvidenceRow, EvidenceTier, ModeProfile
from warpsmith.diagnose import counted
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.places import Throughputs
from warpsmith.diagnose.roofline import baselines
from warpsmith.diagnose.rules import by_throughput
from warpsmith.measure.counters.metrics import METRICS
from warpsmith.measure.counters.raw_csv import parse_raw_csv

#: RMSNorm forward 4096×4096 bf16 on an H200, ncu 2025.3.1, two runs: one lacks bytes read and written.
RECORDED = Path(__file__).resolve().parents[2] / "benchmark" / "data" / "ncu"
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


def diagnosed(evidence: Evidence, mode: Mode = Mode.FORWARD) -> ModeProfile:
    return classify(mode, evidence, baselines(evidence.spec, evidence.timings, (), evidence.device))


def row(profile: ModeProfile, signal: str) -> EvidenceRow:
    return next(each for each in profile.evidence if each.signal.startswith(signal))


@pytest.mark.parametrize("metrics", [SECTIONS, SET_FULL], ids=["sections", "set-full"])
def test_the_real_counters_of_a_kernel_at_the_copy_ceiling_are_near_peak(made: Any, metrics: dict[str, float]) -> None:
    case = made.case(4096, 4096)
    timing = made.timing(case, Mode.FORWARD, {"original": 0.0165})

    profile = diagnosed(made.evidence(made.spec(case), timing, counters=(made.counters(case, metrics),)))

    assert profile.bottleneck is Bottleneck.NEAR_PEAK
    assert row(profile, "least work").observation == (
        "67.1 MB in 16.5 µs: 4.07 TB/s, 99% of the copy ceiling of 4.10 TB/s"
    )
    assert profile.ncu_disagreement is not None
    assert profile.ncu_disagreement.startswith("ncu's rule reads compute 3")
    assert "says latency-bound; the least work over the device time is 99% of" in profile.ncu_disagreement


@pytest.mark.parametrize("name", ["sections", "set-full"])
def test_ncus_own_files_of_that_kernel_are_near_peak_as_they_are_parsed(made: Any, name: str) -> None:
    text = (RECORDED / f"rms_fwd-h200-{name}.csv").read_text(encoding="utf-8")
    (launch,), _ = parse_raw_csv(text)
    case = made.case(4096, 4096)
    timing = made.timing(case, Mode.FORWARD, {"original": launch.metrics["gpu__time_duration.sum"] / 1e6})
    counters = (made.counters(case, launch.metrics),)

    profile = diagnosed(made.evidence(made.spec(case), timing, counters=counters))

    assert (profile.bottleneck, profile.tier) == (Bottleneck.NEAR_PEAK, EvidenceTier.COUNTERS)
    assert "says latency-bound" in (profile.ncu_disagreement or "")
    assert profile.conclusion.startswith("Near its peak, at 9") and "stop here" in profile.conclusion


def test_counted_bytes_below_the_least_are_explained_and_no_miracle(made: Any) -> None:
    case = made.case(4096, 4096)
    timing = made.timing(case, Mode.FORWARD, {"original": 0.0165})

    profile = diagnosed(made.evidence(made.spec(case), timing, counters=(made.counters(case, SET_FULL),)))

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
    counters = (made.counters(case, made.throughput(compute_pct, memory_pct, waves)),)

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), counters=counters))

    assert profile.bottleneck is expected
    assert (profile.ncu_disagreement is not None) == (expected is Bottleneck.GRID_TOO_SMALL)


def test_the_class_is_read_off_a_counted_case_where_there_is_one(made: Any) -> None:
    counted_case, other = made.case(4096, 4096), made.case(8192, 8192)
    evidence = made.evidence(
        made.spec(counted_case, other),
        made.timing_at(counted_case, Mode.FORWARD, 0.7),
        made.timing_at(other, Mode.FORWARD, 0.3),
        counters=(made.counters(counted_case, made.throughput(20.0, 80.0)),),
    )

    profile = diagnosed(evidence)

    assert profile.bottleneck is Bottleneck.MEMORY_BOUND
    assert row(profile, "compute and memory").source == "ncu 2025.3.1, 4096x4096-bf16"


def test_several_launches_are_weighed_by_their_durations(made: Any) -> None:
    case = made.case(4096, 4096)
    short, long = made.throughput(90.0, 10.0), {**made.throughput(10.0, 70.0), "gpu__time_duration.sum": 9000.0}
    evidence = made.evidence(
        made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), counters=(made.counters(case, short, long),)
    )

    profile = diagnosed(evidence)

    assert profile.bottleneck is Bottleneck.MEMORY_BOUND
    assert row(profile, "compute and memory").observation == "compute 18%, memory 64% of peak"


USED = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
CONFLICTS = {
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 400.0,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 200.0,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 700.0,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 300.0,
}


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({}, "caches or shared memory"),
        ({"lts__t_sector_hit_rate.pct": 95.0}, "L2 (95% of its sectors hit)"),
        ({"lts__t_sector_hit_rate.pct": 95.0, "l1tex__t_sector_hit_rate.pct": 80.0}, "L1 (80% of its sectors hit)"),
        (
            {
                "l1tex__throughput.avg.pct_of_peak_sustained_elapsed": 50.0,
                "lts__throughput.avg.pct_of_peak_sustained_elapsed": 79.0,
            },
            "L2 (79%)",
        ),
        (
            {USED.format("ld"): 4.0, USED.format("st"): 32.0},
            "uncoalesced loads (4.0 of a sector's 32 bytes are used)",
        ),
        # 0 is no access of the kind, and none that wastes
        ({USED.format("ld"): 32.0, USED.format("st"): 0.0}, "caches or shared memory"),
        ({USED.format("ld"): 16.0, **CONFLICTS}, "bank conflicts in shared memory (60% of its passes)"),
    ],
)
def test_memory_that_is_busy_without_dram_names_which(made: Any, more: dict[str, float], named: str) -> None:
    case = made.case(4096, 4096)
    dram = {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 30.0}
    counters = (made.counters(case, made.throughput(20.0, 80.0, **dram, **more)),)

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), counters=counters))

    assert row(profile, "DRAM throughput").supports == f"memory is busy, and not DRAM: {named}"
    assert f"not DRAM but {named} at 4096x4096-bf16" in profile.conclusion


def test_memory_that_is_busy_with_dram_is_dram(made: Any) -> None:
    case = made.case(4096, 4096)
    dram = {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 75.0, USED.format("ld"): 4.0}
    counters = (made.counters(case, made.throughput(20.0, 80.0, **dram)),)

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), counters=counters))

    assert row(profile, "DRAM throughput").supports == "memory traffic is DRAM traffic"


@pytest.mark.parametrize("share", [0.5, 0.95])
@pytest.mark.parametrize("waves", [0.5, 5.0])
@pytest.mark.parametrize("memory_pct", [10.0, 40.0, 65.0, 90.0])
@pytest.mark.parametrize("compute_pct", [10.0, 62.0, 90.0])
def test_where_the_class_is_not_ncus_the_page_says_why_and_only_there(
    made: Any, share: float, waves: float, memory_pct: float, compute_pct: float
) -> None:
    case = made.case(4096, 4096)
    counters = (made.counters(case, made.throughput(compute_pct, memory_pct, waves)),)

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, share), counters=counters))

    ncus = by_throughput(Throughputs(compute_pct, memory_pct, by_ncu=True))
    assert (profile.ncu_disagreement is not None) == (profile.bottleneck is not ncus)
    if profile.ncu_disagreement is not None:
        assert f"says {ncus.value.replace('_', '-')}; the " in profile.ncu_disagreement


def test_a_case_below_the_peak_is_told_where_the_mean_is_near_it(made: Any) -> None:
    low, high = made.case(4096, 4096), made.case(8192, 8192)
    evidence = made.evidence(
        made.spec(low, high),
        made.timing_at(low, Mode.FORWARD, 0.85),
        made.timing_at(high, Mode.FORWARD, 0.99),
        counters=(made.counters(low, made.throughput(20.0, 50.0)),),
    )

    assert "little left to win over the tuning cases, though 15% of this one" in (
        diagnosed(evidence).ncu_disagreement or ""
    )


def test_the_kernels_of_a_call_are_told_with_their_shares(made: Any) -> None:
    case = made.case(8192, 8192)
    durations = (made.durations(case, Mode.BACKWARD, _backward_kernel=136.0, FILL=46.0),)

    profile = diagnosed(
        made.evidence(made.spec(case), made.timing_at(case, Mode.BACKWARD, 0.53), durations=durations), Mode.BACKWARD
    )

    assert row(profile, "device time of a call") == EvidenceRow(
        signal="device time of a call by kernel",
        observation="two kernels: _backward_kernel 75%, fill 25%",
        supports="46.0 µs go to what is filled or copied beside the kernel",
        source="torch's profiler, 8192x8192-bf16",
    )
    assert profile.conclusion.endswith("46.0 µs of a call there are fills and copies beside the kernel.")


def test_the_width_of_global_accesses_is_told_where_the_code_was_read(made: Any) -> None:
    case = made.case(4096, 4096)
    accesses = (
        GlobalAccess(kind=AccessKind.LOAD, bytes_a_thread=2, instructions=3, line=10),
        GlobalAccess(kind=AccessKind.LOAD, bytes_a_thread=2, instructions=1, line=11),
        GlobalAccess(kind=AccessKind.STORE, bytes_a_thread=16, instructions=1, line=12),
    )
    launches = {case.name: {Mode.FORWARD: (made.launch(accesses=accesses),)}}

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), launches=launches))

    found = row(profile, "global accesses of _forward_kernel")
    assert found.observation == "1 store of 16 B a thread, 4 loads of 2 B a thread"
    assert found.supports.startswith("narrow loads")


def test_a_last_wave_that_leaves_much_room_is_told(made: Any) -> None:
    case = made.case(4096, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(blocks=132 * 6 + 10),)}}

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.7), launches=launches))

    assert row(profile, "waves").supports == "the last wave leaves room empty: 49% of all that the waves have"


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

    assert profile.share_of_ceiling == pytest.approx((0.5**3 * 1.0) ** 0.25)  # above the ceiling counts as at it
    at_ceiling_us = made.cost(heavy, Mode.FORWARD).bytes_moved / 4100e3
    assert profile.headroom_us == pytest.approx(0.75 * at_ceiling_us)
    assert row(profile, "share of the ceiling over 2").observation == "50% (8192x4096-bf16) to 125% (8192x8192-bf16)"


def test_a_case_that_stays_in_l2_does_not_make_up_for_one_far_from_its_ceiling(made: Any) -> None:
    small, large = made.case(1024, 4096), made.case(32768, 4096)
    timings = [made.timing_at(small, Mode.FORWARD, 3.2), made.timing_at(large, Mode.FORWARD, 0.3)]

    profile = diagnosed(made.evidence(made.spec(small, large), *timings))

    assert profile.bottleneck is not Bottleneck.NEAR_PEAK


def test_just_below_near_its_peak_is_not_told_as_the_limit_itself(made: Any) -> None:
    case = made.case(8192, 4096)

    profile = diagnosed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.896)))

    assert "At 89.6% of its ceiling" in profile.conclusion


def test_waves_that_ncu_did_not_tell_are_not_said_to_be_its_own(made: Any) -> None:
    case = made.case(4096, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(),)}}
    timing = made.timing_at(case, Mode.FORWARD, 0.5)
    told = {name: value for name, value in made.throughput(20.0, 80.0).items() if name != counted.WAVES}
    counters = (made.counters(case, told),)

    profile = diagnosed(made.evidence(made.spec(case), timing, launches=launches, counters=counters))

    assert "compiled code and grid" in row(profile, "waves").source


def test_every_counter_that_is_read_is_asked_for() -> None:
    read = (value for name, value in vars(counted).items() if name.isupper() and not name.startswith("STALL"))
    names = {each for value in read for each in ([value] if isinstance(value, str) else dict.fromkeys(value).keys())}
    told = {name if "__" in name else counted.BYTES_A_SECTOR[name] for name in names}

    assert told <= set(METRICS)


def test_a_launch_without_its_duration_weighs_as_much_as_the_others(made: Any) -> None:
    rows = made.counters(
        made.case(64, 64), {**made.throughput(90.0, 10.0), counted.DURATION: 1000.0}, made.throughput(10.0, 90.0)
    ).rows

    assert counted.average(rows, counted.COMPUTE_PCT) == pytest.approx(50.0)


def test_a_stall_longer_than_all_latency_is_not_told(made: Any) -> None:
    stall = f"{counted.STALL_PREFIX}long_scoreboard{counted.STALL_SUFFIX}"
    rows = made.counters(made.case(64, 64), {counted.WARP_LATENCY: 1.0, stall: 5.0}).rows

    assert counted.main_stall(rows) is None


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
        made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), counters=(made.counters(case, SET_FULL),)
    )

    assert all(each.source and each.observation and each.supports for each in diagnosed(evidence).evidence)
