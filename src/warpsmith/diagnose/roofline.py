"""Owns the roofline: least work over device time against the ceilings measured on the same GPU.

Model: Williams, Waterman and Patterson, "Roofline" (2009). Reads records only; must not know how they were measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.measurement import ORIGINAL, Memory, Timing
from warpsmith.contracts.profile import Baseline
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.verdict import Interval
from warpsmith.device.peaks import E4M3, E5M2, over_fp16
from warpsmith.verdict.statistics import median_ms

#: Chosen: neither a cache nor a better copy explains a share beyond this of bytes that are so many times what L2 holds.
BEYOND_CEILING, PAST_L2 = 3.0, 4
#: Chosen: no cache makes arithmetic faster, and no kernel passes the best of cuBLAS's large products by more than this.
BEYOND_MATMUL = 1.2


class Doubt(str, Enum):
    """Why a time is not held against a ceiling."""

    COST = "the cost model claims more work than the time allows"
    MISFIT = "its operations a second are far above the matmul ceiling, which is then not that of its operands"
    NO_CEILING = "no matmul ceiling of its operands is known"


@dataclass(frozen=True)
class MatmulCeiling:
    """What matrix products reach at best. `scaled` says how, where it was not measured or read itself but made of
    another one.
    """

    tflops: float
    scaled: str | None = None


def matmul_ceiling(cost: Cost, dtype: DType, device: DeviceFacts) -> MatmulCeiling | None:
    """Of the operands that the cost names, else of the dtype of the case. None where there is none."""
    operands = cost.operands
    if operands is None or operands in [each.value for each in DType]:
        tflops = device.matmul_tflops.get(DType(operands) if operands else dtype)
        return MatmulCeiling(tflops) if tflops else None
    return operand_ceiling(operands, device)


def operand_ceiling(operands: str, device: DeviceFacts) -> MatmulCeiling | None:
    """Of operands that no case has as its dtype, by torch's name: the fastest measured product of operands that go at
    the same rate, as torch's own product of one of them may be far from its units; else scaled from halves.
    """
    measured = device.operand_tflops
    alike = {each: tflops for each, tflops in measured.items() if _at_one_rate(device.name, each, operands)}
    if alike:
        fastest = max(alike, key=lambda each: (alike[each], each == operands))
        if fastest == operands or _through_the_same_units(fastest, operands):
            return MatmulCeiling(alike[fastest])
        beside = f", while its own product reached {measured[operands]:.0f}" if operands in measured else ""
        return MatmulCeiling(alike[fastest], f"that of {fastest}, at the same rate as data sheets have it{beside}")
    half = device.matmul_tflops.get(DType.FLOAT16) or device.matmul_tflops.get(DType.BFLOAT16)
    times = over_fp16(device.name, operands)
    if half is None or times is None:
        return None
    return MatmulCeiling(times * half, f"{times:g} times that of fp16, as data sheets have it; not measured")


def _at_one_rate(gpu_name: str, one: str, other: str) -> bool:
    rate = over_fp16(gpu_name, one)
    return _through_the_same_units(one, other) or (rate is not None and rate == over_fp16(gpu_name, other))


def _through_the_same_units(one: str, other: str) -> bool:
    return one == other or {one, other} == {E4M3, E5M2}


def _tflops(cost: Cost, dtype: DType, device: DeviceFacts) -> float | None:
    found = matmul_ceiling(cost, dtype, device)
    return found.tflops if found is not None else None


def copy_ceiling_gb_s(cost: Cost, device: DeviceFacts) -> float | None:
    """The measured copy ceiling at the footprint of this work in GB/s, None where none was measured."""
    return device.copy_ceiling_gb_s(cost.bytes_moved) if device.copy_ceilings and cost.bytes_moved else None


def ridge_flops_per_byte(
    cost: Cost, dtype: DType, device: DeviceFacts, *, by_matrix_units: bool = True
) -> float | None:
    """Arithmetic intensity at which the ceiling of the units in use and the copy ceiling meet, None where one is not
    known. Without matrix instructions these are the plain units of float32, to which kernels convert halves.
    """
    copy_gb_s, tflops = copy_ceiling_gb_s(cost, device), _tflops(cost, dtype, device)
    if not by_matrix_units:
        tflops = device.matmul_tflops.get(DType.FLOAT32, tflops)
    return tflops * 1e3 / copy_gb_s if copy_gb_s and tflops else None


def bandwidth_share(cost: Cost, time_ms: float, device: DeviceFacts) -> float | None:
    """Least bytes a second as a share of the copy ceiling. May pass 1 where data stays in L2."""
    ceiling = copy_ceiling_gb_s(cost, device)
    return cost.bytes_moved / (time_ms * 1e6) / ceiling if ceiling else None


def compute_share(cost: Cost, time_ms: float, dtype: DType, device: DeviceFacts) -> float | None:
    """Operations a second as a share of the matmul ceiling of the operands."""
    tflops = _tflops(cost, dtype, device)
    return cost.flops / (time_ms * 1e9) / tflops if tflops else None


def share_of_nearer(cost: Cost, time_ms: float, dtype: DType, device: DeviceFacts) -> float | None:
    """Least work a second as a share of the nearer ceiling, None where that was not measured, or is in doubt."""
    if doubt_of(cost, time_ms, dtype, device) is not None:
        return None
    return _raw_share(cost, time_ms, dtype, device)


def doubt_of(cost: Cost, time_ms: float, dtype: DType, device: DeviceFacts) -> Doubt | None:
    """Why the least work in that time is not held against a ceiling, None where it is.

    No GPU could have done it, so that the cost model is wrong; or it is operations that the ceiling is not of, as those
    of float32 may be TensorFloat-32; or no ceiling is known of what may be the nearer limit.
    """
    if lacks_ceiling(cost, dtype, device):
        return Doubt.NO_CEILING
    share = _raw_share(cost, time_ms, dtype, device)
    heavy = is_compute_heavy(cost, dtype, device)
    if share is None:
        return None
    if share > BEYOND_CEILING and cost.bytes_moved > PAST_L2 * device.l2_bytes:
        return Doubt.MISFIT if heavy and dtype is DType.FLOAT32 else Doubt.COST
    return Doubt.MISFIT if heavy and share > BEYOND_MATMUL else None


def lacks_ceiling(cost: Cost, dtype: DType, device: DeviceFacts) -> bool:
    """Whether operations that no matmul ceiling is of may be the nearer limit: at the fastest ceiling that is known
    they take longer than the bytes.
    """
    if cost.operands is None or not device.matmul_tflops or matmul_ceiling(cost, dtype, device) is not None:
        return False
    return _operations_ms(cost, max(device.matmul_tflops.values())) > _bytes_ms(cost, copy_ceiling_gb_s(cost, device))


def _raw_share(cost: Cost, time_ms: float, dtype: DType, device: DeviceFacts) -> float | None:
    if is_compute_heavy(cost, dtype, device):
        return compute_share(cost, time_ms, dtype, device)
    return bandwidth_share(cost, time_ms, device)


def is_compute_heavy(cost: Cost, dtype: DType, device: DeviceFacts) -> bool:
    """Whether the matmul ceiling is the nearer limit: the operations take longer at it than the bytes at theirs."""
    copy_gb_s, tflops = copy_ceiling_gb_s(cost, device), _tflops(cost, dtype, device)
    return _operations_ms(cost, tflops) > _bytes_ms(cost, copy_gb_s)


def _operations_ms(cost: Cost, tflops: float | None) -> float:
    """0 where no ceiling is known."""
    return cost.flops / (tflops * 1e9) if tflops else 0.0


def _bytes_ms(cost: Cost, gb_s: float | None) -> float:
    """0 where no ceiling is known."""
    return cost.bytes_moved / (gb_s * 1e6) if gb_s else 0.0


def bound_of(cost: Cost, dtype: DType, device: DeviceFacts) -> Literal["copy", "matmul"]:
    """Which of the two ceilings is the nearer limit."""
    return "matmul" if is_compute_heavy(cost, dtype, device) else "copy"


def least_ms(cost: Cost, dtype: DType, device: DeviceFacts) -> float | None:
    """The least possible time at the nearer ceiling, None where there is no ceiling for it.

    Operations of a case's dtype whose ceiling is not known cannot be faster than those of the fastest dtype that is;
    those of narrower operands can.
    """
    tflops = _tflops(cost, dtype, device)
    if tflops is None and cost.operands is None:
        tflops = max(device.matmul_tflops.values(), default=None)
    return max(_operations_ms(cost, tflops), _bytes_ms(cost, copy_ceiling_gb_s(cost, device))) or None


def ceilings_told(device: DeviceFacts) -> str:
    """Where the ceilings come from, as a source of evidence."""
    if device.ceilings_from == "measured":
        return "measured ceilings"
    return device.ceilings_from if "data sheet" in device.ceilings_from else f"data sheet: {device.ceilings_from}"


def baselines(
    spec: TargetSpec, timings: Sequence[Timing], memories: Sequence[Memory], device: DeviceFacts
) -> tuple[Baseline, ...]:
    """One row a provider, case and mode that was timed: the original first, then the target's providers.

    A provider that is missing, failed or did not run there has a row that says why. Where a contender was timed
    twice at one case and mode, the first counts. `ceiling_gb_s` is None where the matmul ceiling is the limit.
    """
    providers = dict.fromkeys([ORIGINAL, *spec.providers, *spec.missing_providers])
    by_place: dict[tuple[str, Mode], list[Timing]] = {}
    for timing in timings:
        by_place.setdefault((timing.case.name, timing.mode), []).append(timing)
    peaks = {(m.case.name, m.mode, provider): peak for m in memories for provider, peak in m.peak_bytes.items()}
    rows: list[Baseline] = []
    for provider in providers:
        for (name, mode), here in by_place.items():
            peak_bytes = peaks.get((name, mode, provider))
            ran = [t for t in here if any(b.contender == provider for b in t.blocks)]
            if ran:
                rows.append(_row(spec.costs[name][mode], ran[0], provider, peak_bytes, device))
            else:
                why = spec.missing_providers.get(provider) or _why_not(provider, here)
                rows.append(_missing(here[0].case, mode, provider, peak_bytes, why))
    return tuple(rows)


def _row(cost: Cost, timing: Timing, provider: str, peak_bytes: int | None, device: DeviceFacts) -> Baseline:
    case, time_ms = timing.case, median_ms(timing, provider)
    heavy = is_compute_heavy(cost, case.dtype, device)
    return Baseline(
        case=case.name,
        role=case.role,
        mode=timing.mode,
        provider=provider,
        time_ms=time_ms,
        peak_bytes=peak_bytes,
        gb_s=achieved_gb_s(cost, time_ms),
        ceiling_gb_s=None if heavy else copy_ceiling_gb_s(cost, device),
        share_of_ceiling=share_of_nearer(cost, time_ms.value, case.dtype, device),
        method=timing.method.value,
    )


def achieved_gb_s(cost: Cost, time_ms: Interval) -> float:
    """Least bytes over the median device time, in GB/s (1e9 bytes)."""
    return cost.bytes_moved / (time_ms.value * 1e6)


def _why_not(provider: str, timings: Sequence[Timing]) -> str:
    failures = [t.failures[provider] for t in timings if provider in t.failures]
    return failures[0] if failures else "not timed at this case"


def _missing(case: Case, mode: Mode, provider: str, peak_bytes: int | None, why: str) -> Baseline:
    return Baseline(
        case=case.name,
        role=case.role,
        mode=mode,
        provider=provider,
        time_ms=None,
        peak_bytes=peak_bytes,
        gb_s=None,
        ceiling_gb_s=None,
        share_of_ceiling=None,
        method=None,
        unavailable=why,
    )
