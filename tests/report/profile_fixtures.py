"""Profiles of rms_norm, built by hand: measured with counters, with ncu refusing, and predicted with no GPU."""

from __future__ import annotations

from audit_fixtures import audit, opportunity
from compiled_fixtures import launches, probes
from measured_fixtures import (
    GPU,
    ORIGIN,
    ORIGINAL_SHA,
    SOURCE,
    TIMES_US,
    TUNING,
    baselines,
    cost,
    device,
    launch_overheads,
    warm_baselines,
)

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.contracts.case import DType, Mode
from warpsmith.contracts.counters import CounterRow, Counters, Durations, KernelDuration
from warpsmith.contracts.device import CopyCeiling, DeviceFacts, Origin, OriginKind
from warpsmith.contracts.profile import (
    Bottleneck,
    EvidenceRow,
    EvidenceTier,
    Headroom,
    ModeProfile,
    PricedOpportunity,
    Profile,
    Recommendation,
)
from warpsmith.verdict.statistics import geometric_mean

#: Bytes that the counters saw at the case they were read at.
COUNTED_BYTES = {Mode.FORWARD: 0.92e9 / 8, Mode.BACKWARD: 2.6e8}
REFUSED = "ERR_NVGPUCTRPERM: the driver lets only an administrator read counters."
REMEDY = "Ask the administrator to load the driver with NVreg_RestrictProfilingToAdminUsers=0."
REDUCE = (
    "void at::reduce_kernel<128, 4, at::ReduceOp<float, at::func_wrapper_t<float, at::sum_functor<float, float, "
    "float>::operator ()(at::TensorIterator &)::[lambda(float, float) (instance 1)]>, unsigned int, float, 4, 4>>(T3)"
)
FILL = "void at::vectorized_elementwise_kernel<4, at::FillFunctor<float>, std::array<char *, 1>>(int, T2, T3)"


def counters() -> tuple[Counters, ...]:
    """Forward one launch, backward two: the kernel and the sum over its partial results."""
    return (
        Counters(
            case=TUNING[1],
            mode=Mode.FORWARD,
            rows=(_row("_rms_norm_forward_kernel", 8192, duration_ns=34_560, dram_pct=77.2, read=67e6, written=48e6),),
            ncu_version="2025.3.1",
            missing_metrics=("lts__t_sector_hit_rate.pct",),
        ),
        Counters(
            case=TUNING[1],
            mode=Mode.BACKWARD,
            rows=(
                _row("_rms_norm_backward_kernel", 132, duration_ns=88_300, dram_pct=31.4, read=1.94e8, written=6.4e7),
                _row(REDUCE, 16, duration_ns=8_740, dram_pct=2.9, read=2e6, written=1e4),
            ),
            ncu_version="2025.3.1",
            missing_metrics=("lts__t_sector_hit_rate.pct",),
        ),
    )


def _row(kernel: str, programs: int, *, duration_ns: float, dram_pct: float, read: float, written: float) -> CounterRow:
    metrics = {
        "gpu__time_duration.sum": duration_ns,
        "dram__bytes_read.sum": read,
        "dram__bytes_write.sum": written,
        "dram__bytes.sum.per_second": 1e9 * (read + written) / duration_ns,
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": dram_pct,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 36.1,
        "launch__waves_per_multiprocessor": 7.76,
        "launch__registers_per_thread": 40.0,
    }
    return CounterRow(kernel=kernel, grid=f"({programs}, 1, 1)", block="(256, 1, 1)", metrics=metrics)


def refused_counters() -> tuple[Counters, ...]:
    return tuple(
        Counters(case=TUNING[1], mode=mode, unavailable=REFUSED, remedy=REMEDY)
        for mode in (Mode.FORWARD, Mode.BACKWARD)
    )


def durations() -> tuple[Durations, ...]:
    def kernel(name: str, *samples_us: float) -> KernelDuration:
        return KernelDuration(name=name, samples_us=samples_us)

    return (
        Durations(case=TUNING[1], mode=Mode.FORWARD, kernels=(kernel("_rms_norm_forward_kernel", 33.8, 34.0, 35.1),)),
        Durations(
            case=TUNING[1],
            mode=Mode.BACKWARD,
            kernels=(
                kernel(FILL, 2.1, 2.2, 2.0),
                kernel("_rms_norm_backward_kernel", 88.1, 88.6, 90.2),
                kernel(REDUCE, 8.7, 8.9, 8.8),
            ),
        ),
        Durations(case=TUNING[1], mode=Mode.FULL, unavailable="died: the worker died"),
    )


def headrooms(mode: Mode) -> tuple[Headroom, ...]:
    found = []
    for case, time_us in zip(TUNING, TIMES_US[mode]["original"], strict=False):
        work = cost(case, mode)
        assert time_us is not None
        least_us = work.bytes_moved / device().copy_ceiling_gb_s(work.bytes_moved) / 1e3
        found.append(
            Headroom(
                case=case.name,
                weight=case.weight,
                bound="copy",
                least_ms=least_us / 1e3,
                least_bytes=work.bytes_moved,
                time_ms=time_us / 1e3,
                share=least_us / time_us,
                headroom_us=max(0.0, time_us - least_us),
                counted_bytes=COUNTED_BYTES.get(mode) if case == TUNING[1] else None,
                flops=work.flops,
            )
        )
    return tuple(found)


def mode_profiles(tier: EvidenceTier = EvidenceTier.COUNTERS) -> tuple[ModeProfile, ...]:
    def evidence(signal: str, observation: str, supports: str, source: str = "graph replay") -> EvidenceRow:
        return EvidenceRow(signal=signal, observation=observation, supports=supports, source=source)

    disagreement = "ncu's rule says latency-bound at SM 36%; the bytes over the time say otherwise."
    return (
        _mode(
            Mode.FORWARD,
            Bottleneck.NEAR_PEAK,
            evidence("share of ceiling", "95% over 5 cases", "near peak"),
            tier=tier,
            ncu_disagreement=disagreement if tier is EvidenceTier.COUNTERS else None,
            conclusion="Near its peak, at 95% of the measured ceiling: stop here. Only 1.7 us of a call are left.",
        ),
        _mode(
            Mode.BACKWARD,
            Bottleneck.LATENCY_BOUND,
            evidence("share of ceiling", "63% over 5 cases", "not near peak"),
            evidence("theoretical occupancy", "8 of 64 warps | one program an SM", "latency bound", "compiled code"),
            tier=tier,
            conclusion="Latency-bound: neither unit is busy (compute 15%, memory 31% of their peaks), and the grid "
            "fills 12% of an SM's warps of programs that loop over the rows at 32768x2048-bf16. At 63% of its ceiling, "
            "35.7 us of a call are left to win, at most 74.1 us, at 32768x2048-bf16.",
        ),
        _mode(
            Mode.FULL,
            Bottleneck.LATENCY_BOUND,
            evidence("share of ceiling", "73% over 5 cases", "the backward pass holds it back"),
            tier=EvidenceTier.COMPILED,
            conclusion="Latency-bound: the backward pass takes 68% of the time and holds it back.",
        ),
    )


def _mode(mode: Mode, bottleneck: Bottleneck, *evidence: EvidenceRow, **rest: object) -> ModeProfile:
    found = headrooms(mode)
    values = {
        "mode": mode,
        "bottleneck": bottleneck,
        "share_of_ceiling": geometric_mean([h.share or 0.0 for h in found], [h.weight for h in found]),
        "headroom_us": sum(h.headroom_us or 0.0 for h in found) / len(found),
        "evidence": evidence,
        "headrooms": found,
    }
    return ModeProfile.model_validate({**values, **rest})


def opportunities() -> tuple[PricedOpportunity, ...]:
    def priced(kind: OpportunityKind, mode: Mode, low_us: float, high_us: float, **rest: object) -> PricedOpportunity:
        values = {"opportunity": opportunity(kind), "mode": mode, "low_us": low_us, "high_us": high_us}
        return PricedOpportunity.model_validate({**values, **rest})

    return (
        priced(
            OpportunityKind.ONE_PROGRAM_PER_SM,
            Mode.BACKWARD,
            7.0,
            24.5,
            predicted_low=1.07,
            predicted_high=1.31,
            basis="20% to 70% of the headroom, as measured on an H200 | Liger-Kernel 0.8.5",
            case=TUNING[4].name,
            case_predicted_high=1.44,
        ),
        priced(
            OpportunityKind.NEEDLESS_INITIALISATION,
            Mode.BACKWARD,
            2.1,
            2.1,
            predicted_low=1.02,
            predicted_high=1.02,
            basis="the time of the fill in a call",
        ),
        priced(
            OpportunityKind.STREAM_ONCE,
            Mode.FORWARD,
            0.0,
            0.4,
            predicted_low=1.0,
            predicted_high=1.01,
            basis="chosen: up to 1% of the time",
        ),
    )


def recommendations() -> tuple[Recommendation, ...]:
    return (
        Recommendation(
            strategy="settings",
            why="The backward pass runs one program an SM; more of them hide latency.",
            predicted_low=1.10,
            predicted_high=1.45,
            lines=(164, 170),
        ),
        Recommendation(
            strategy="needless_initialisation",
            why="dw_partial is zeroed and then overwritten.",
            predicted_low=1.0,
            predicted_high=1.04,
            lines=(168,),
        ),
    )


def profile(**changes: object) -> Profile:
    """Measured, with counters of both passes."""
    complete = Profile(
        kernel="rms_norm",
        run_id="20261129-140500",
        goal=Mode.FULL,
        source=SOURCE,
        source_sha256=ORIGINAL_SHA,
        device=device(),
        origin=ORIGIN,
        baselines=baselines(),
        launches=launches(),
        counters=counters(),
        evidence_tier=EvidenceTier.COUNTERS.value,
        audit=audit(),
        modes=mode_profiles(),
        recommendations=recommendations(),
        expected_variants=4,
        observations=("num_stages compiles to the same machine code: neither kernel has a pipelined loop.",),
        warm_baselines=warm_baselines(),
        launch_overheads=launch_overheads(),
        opportunities=opportunities(),
        settings_probes=probes(),
        expected_variants_why="one for each strategy that predicts a gain, one sweep again, and one in reserve",
        device_notes=("2 GPUs are here; GPU-00000000-1111-2222-3333-444444444444 was chosen.",),
    )
    return complete.model_copy(update=changes)


def old_profile() -> Profile:
    """As it was written before facts, prices and headrooms were recorded."""
    bare = {"conclusion": "", "headrooms": (), "tier": None}
    return profile(
        launches=launches(accesses=False),
        audit=audit().model_copy(update={"patterns": ()}),
        modes=tuple(mode.model_copy(update=bare) for mode in mode_profiles()),
        opportunities=(),
        settings_probes=(),
        expected_variants_why="",
        device_notes=(),
    )


def durations_profile() -> Profile:
    """Measured on a GPU whose counters only an administrator may read."""
    return profile(
        counters=refused_counters(),
        durations=durations(),
        modes=mode_profiles(EvidenceTier.DURATIONS),
        evidence_tier=EvidenceTier.DURATIONS.value,
    )


def predicted_device() -> DeviceFacts:
    absent = device().environment.model_copy(update={"gpu_uuid": "none", "driver": "none", "cuda": "none"})
    return device().model_copy(
        update={
            "uuid": "none",
            "max_sm_clock_mhz": None,
            "copy_ceilings": (CopyCeiling(footprint_bytes=2**30, gb_s=4800.0, kernel="data sheet peak"),),
            "matmul_tflops": {DType.BFLOAT16: 989.5, DType.FLOAT32: 66.9},
            "environment": absent,
            "measured_at": "",
            "ceilings_from": "the data sheet's peaks",
        }
    )


def predicted_profile(**changes: object) -> Profile:
    """With no GPU: the code was read and compiled, nothing was run."""
    found = predicted_device()
    untimed = {"time_ms": None, "share": None, "headroom_us": None, "counted_bytes": None}
    told = (
        "Predicted latency-bound: programs that loop over the rows fill 12% of an SM's warps, too few to hide latency."
    )
    modes = tuple(
        mode.model_copy(
            update={
                "bottleneck": Bottleneck.MEMORY_BOUND if mode.mode is Mode.FORWARD else Bottleneck.LATENCY_BOUND,
                "share_of_ceiling": None,
                "headroom_us": None,
                "tier": EvidenceTier.COMPILED,
                "ncu_disagreement": None,
                "evidence": tuple(e for e in mode.evidence if e.source == "compiled code"),
                "conclusion": told if mode.mode is Mode.BACKWARD else "",
                "headrooms": tuple(
                    h.model_copy(update={**untimed, "least_ms": h.least_bytes / found.copy_ceilings[0].gb_s / 1e6})
                    for h in mode.headrooms
                ),
            }
        )
        for mode in mode_profiles()
    )
    unpriced = tuple(r.model_copy(update={"predicted_low": 1.0, "predicted_high": 1.0}) for r in recommendations())
    complete = profile(
        device=found,
        origin=Origin(kind=OriginKind.PREDICTED, gpu=GPU),
        baselines=(),
        warm_baselines=(),
        launch_overheads=(),
        counters=(),
        evidence_tier=EvidenceTier.COMPILED.value,
        modes=modes,
        recommendations=unpriced,
        opportunities=(),
        observations=(),
        launches={case.name: launches()[case.name] for case in TUNING},
        device_notes=("No GPU was found; NVIDIA H200 is what is compiled for.",),
    )
    return complete.model_copy(update=changes)
