"""What was measured in a run of rms_norm on an H200, built by hand: cases, times, the GPU, baselines."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.device import CopyCeiling, DeviceFacts, Environment, Origin, OriginKind
from warpsmith.contracts.measurement import Block, Memory, Timing, TimingMethod
from warpsmith.contracts.profile import Baseline, LaunchOverhead
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.verdict import Interval

ORIGINAL_SHA, WINNER_SHA = "a1" * 32, "b2" * 32
SOURCE = "src/warpsmith/kernels/rms_norm.py"
GPU = "NVIDIA H200"
ORIGIN = Origin(kind=OriginKind.MEASURED, gpu=GPU, date="2026-11-29")


def tuning(rows: int, columns: int) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)


TUNING = (tuning(2048, 2048), tuning(8192, 4096), tuning(8192, 8192), tuning(4096, 16384), tuning(32768, 2048))
HELD_OUT = (
    Case(axes={"M": 6144, "N": 5120}, dtype=DType.BFLOAT16, role=Role.HELD_OUT),
    Case(axes={"M": 8192, "N": 4096}, dtype=DType.FLOAT16, role=Role.HELD_OUT),
    Case(axes={"M": 4096, "N": 4096}, dtype=DType.BFLOAT16, role=Role.HELD_OUT, options={"layout": "row_strided"}),
)
CASES = (*TUNING, *HELD_OUT)

#: µs of each provider at each of CASES; None where it was not measured.
TIMES_US: dict[Mode, dict[str, tuple[float | None, ...]]] = {
    Mode.FORWARD: {
        "original": (6.10, 33.42, 65.91, 66.80, 66.40, 31.20, 33.50, 17.90),
        "optimized": (6.08, 33.40, 65.72, 66.15, 66.21, 31.18, 33.49, 17.91),
        "liger": (6.31, 34.62, 71.10, 69.40, 71.20, 32.50, 34.70, 18.80),
        "torch": (8.92, 41.10, 80.40, 83.90, 84.10, 39.00, 41.20, 22.40),
        "torch_compile": (6.40, 33.10, 66.20, 66.10, 66.30, None, None, None),
    },
    Mode.BACKWARD: {
        "original": (14.20, 93.70, 121.30, 124.20, 170.40, 88.00, 93.80, 49.10),
        "optimized": (11.90, 64.10, 112.60, 118.40, 96.30, 69.70, 64.30, 37.20),
        "liger": (21.60, 120.90, 181.70, 172.00, 305.80, 118.00, 121.10, 66.00),
        "torch": (29.80, 146.30, 270.40, 268.10, 190.60, 139.00, 146.10, 80.30),
        "torch_compile": (13.90, 59.30, 171.20, 172.90, 110.20, None, None, None),
    },
}
TIMES_US[Mode.FULL] = {
    name: tuple(
        None if f is None or b is None else f + b for f, b in zip(forward, TIMES_US[Mode.BACKWARD][name], strict=True)
    )
    for name, forward in TIMES_US[Mode.FORWARD].items()
}


def cost(case: Case, mode: Mode) -> Cost:
    matrices = {Mode.FORWARD: 2, Mode.BACKWARD: 3, Mode.FULL: 5}[mode]
    elements = case.axes["M"] * case.axes["N"]
    return Cost(bytes_moved=matrices * elements * case.dtype.itemsize_bytes, flops=4 * elements)


def about(value: float, *, half_width: float = 0.002) -> Interval:
    return Interval(value=value, low=value * (1 - half_width), high=value * (1 + half_width))


def device() -> DeviceFacts:
    return DeviceFacts(
        name=GPU,
        uuid="GPU-00000000-1111-2222-3333-444444444444",
        capability=(9, 0),
        architecture="Hopper",
        sm_count=132,
        memory_bytes=150_754_820_096,
        l2_bytes=62_914_560,
        shared_memory_per_sm_bytes=233_472,
        shared_memory_per_block_bytes=232_448,
        registers_per_sm=65_536,
        max_threads_per_sm=2048,
        max_sm_clock_mhz=1980,
        copy_ceilings=(
            CopyCeiling(footprint_bytes=16 * 2**20, gb_s=3120.4, kernel="copy_ 1024 threads"),
            CopyCeiling(footprint_bytes=256 * 2**20, gb_s=4180.6, kernel="triton BLOCK=4096"),
        ),
        matmul_tflops={DType.BFLOAT16: 788.2, DType.FLOAT32: 388.9},
        environment=Environment(
            gpu_name=GPU,
            gpu_uuid="GPU-00000000-1111-2222-3333-444444444444",
            driver="580.82.07",
            cuda="13.0",
            torch="2.11.0",
            triton="3.6.0",
            ptxas="12.9.86",
            fp_fusion=True,
            harness="1",
        ),
        measured_at="2026-11-29T14:05:00Z",
    )


def spec() -> TargetSpec:
    return TargetSpec(
        name="rms_norm",
        source=SOURCE,
        module="warpsmith.kernels.rms_norm",
        target_file="benchmark/benchmark_rms_norm.py",
        source_sha256=ORIGINAL_SHA,
        cases=CASES,
        modes=tuple(Mode),
        differentiable=("x", "weight"),
        overwrites=(),
        costs={case.name: {mode: cost(case, mode) for mode in Mode} for case in CASES},
        providers=("torch", "torch_compile", "liger"),
        missing_providers={},
        tests=("tests/kernels/test_rms_norm.py",),
        plot_axis="N",
    )


def timing(case: Case, mode: Mode, samples_ms: dict[str, Sequence[Sequence[float]]], **rest: object) -> Timing:
    """A timing of contender -> blocks of samples, one block a round."""
    blocks = tuple(
        Block(contender=name, round=index, samples_ms=tuple(samples))
        for name, rounds in samples_ms.items()
        for index, samples in enumerate(rounds)
    )
    values = {"method": TimingMethod.GRAPH, "calls_per_sample": 16, "input_sets": 4, "same_addresses": True}
    return Timing.model_validate({"case": case, "mode": mode, "blocks": blocks, **values, **rest})


def baseline(case: Case, mode: Mode, provider: str, microseconds: float) -> Baseline:
    least_bytes = cost(case, mode).bytes_moved
    ceiling_gb_s = device().copy_ceiling_gb_s(least_bytes)
    gb_s = least_bytes / microseconds / 1e3
    return Baseline(
        case=case.name,
        role=case.role,
        mode=mode,
        provider=provider,
        time_ms=about(microseconds / 1000),
        peak_bytes=least_bytes // 2,
        gb_s=gb_s,
        ceiling_gb_s=ceiling_gb_s,
        share_of_ceiling=min(gb_s / ceiling_gb_s, 1.0),
        method="events" if provider == "torch_compile" and mode is not Mode.FORWARD else "graph",
    )


def baselines() -> tuple[Baseline, ...]:
    found = [
        baseline(case, mode, provider, microseconds)
        for mode, by_provider in TIMES_US.items()
        for provider, times in by_provider.items()
        if provider != "optimized"
        for case, microseconds in zip(CASES, times, strict=True)
        if microseconds is not None
    ]
    absent = {"time_ms": None, "peak_bytes": None, "gb_s": None, "share_of_ceiling": None, "method": None}
    index = next(i for i, b in enumerate(found) if b.provider == "liger" and b.mode is Mode.FULL)
    found[index] = found[index].model_copy(update={**absent, "unavailable": "out of memory | needs 3 GiB"})
    return tuple(found)


def warm_baselines() -> tuple[Baseline, ...]:
    """The smallest case's forward pass again, with L2 warm: the only one whose 16 MiB fit L2."""
    return tuple(
        baseline(TUNING[0], Mode.FORWARD, provider, 0.6 * times[0])
        for provider, times in TIMES_US[Mode.FORWARD].items()
        if provider != "optimized" and times[0] is not None
    )


def launch_overheads() -> tuple[LaunchOverhead, ...]:
    return tuple(
        LaunchOverhead(case=TUNING[0].name, mode=mode, provider=provider, host_us=host_us, device_us=device_us)
        for mode, provider, host_us, device_us in (
            (Mode.FORWARD, "original", 14.1, 6.1),
            (Mode.FORWARD, "torch", 9.6, None),
            (Mode.BACKWARD, "original", 11.9, 14.2),
        )
    )


def memory(case: Case, mode: Mode, **peak_bytes: int) -> Memory:
    return Memory(case=case, mode=mode, peak_bytes=peak_bytes)
