"""Owns the roofline: least work over device time against the ceilings measured on the same GPU.

Model: Williams, Waterman and Patterson, "Roofline" (2009). Reads records only; must not know how they were measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.measurement import ORIGINAL, Memory, Timing
from warpsmith.contracts.profile import Baseline
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.verdict import Interval
from warpsmith.verdict.statistics import median_ms

#: Chosen: neither a cache nor a better copy explains a share beyond this of bytes that are so many times what L2 holds.
BEYOND_CEILING, PAST_L2 = 3.0, 4


def copy_ceiling_gb_s(cost: Cost, device: DeviceFacts) -> float | None:
    """The measured copy ceiling at the footprint of this work in GB/s, None where none was measured."""
    return device.copy_ceiling_gb_s(cost.bytes_moved) if device.copy_ceilings and cost.bytes_moved else None


def ridge_flops_per_byte(cost: Cost, dtype: DType, device: DeviceFacts) -> float | None:
    """Arithmetic intensity at which the matmul and the copy ceiling meet, None where one was not measured."""
    copy_gb_s, tflops = copy_ceiling_gb_s(cost, device), device.matmul_tflops.get(dtype)
    return tflops * 1e3 / copy_gb_s if copy_gb_s and tflops else None


def bandwidth_share(cost: Cost, time_ms: float, device: DeviceFacts) -> float | None:
    """Least bytes a second as a share of the copy ceiling. May pass 1 where data stays in L2."""
    ceiling = copy_ceiling_gb_s(cost, device)
    return cost.bytes_moved / (time_ms * 1e6) / ceiling if ceiling else None


def compute_share(cost: Cost, time_ms: float, dtype: DType, device: DeviceFacts) -> float | None:
    """Operations a second as a share of the matmul ceiling of the dtype."""
    tflops = device.matmul_tflops.get(dtype)
    return cost.flops / (time_ms * 1e9) / tflops if tflops else None


def share_of_nearer(cost: Cost, time_ms: float, dtype: DType, device: DeviceFacts) -> float | None:
    """Least work a second as a share of the nearer ceiling, None where that was not measured, or it cannot be so."""
    if claims_too_much(cost, time_ms, dtype, device):
        return None
    return _raw_share(cost, time_ms, dtype, device)


def claims_too_much(cost: Cost, time_ms: float, dtype: DType, device: DeviceFacts) -> bool:
    """Whether no GPU could have done the least work in that time, so that the cost model is wrong.

    Operations of float32 may be TensorFloat-32, which its ceiling is not of.
    """
    share = _raw_share(cost, time_ms, dtype, device)
    if share is None or (dtype is DType.FLOAT32 and is_compute_heavy(cost, dtype, device)):
        return False
    return share > BEYOND_CEILING and cost.bytes_moved > PAST_L2 * device.l2_bytes


def _raw_share(cost: Cost, time_ms: float, dtype: DType, device: DeviceFacts) -> float | None:
    if is_compute_heavy(cost, dtype, device):
        return compute_share(cost, time_ms, dtype, device)
    return bandwidth_share(cost, time_ms, device)


def is_compute_heavy(cost: Cost, dtype: DType, device: DeviceFacts) -> bool:
    """Whether the matmul ceiling is the nearer limit: the operations take longer at it than the bytes at theirs."""
    copy_gb_s, tflops = copy_ceiling_gb_s(cost, device), device.matmul_tflops.get(dtype)
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

    Operations of a dtype whose ceiling is not known cannot be faster than those of the fastest dtype that is.
    """
    tflops = device.matmul_tflops.get(dtype) or max(device.matmul_tflops.values(), default=None)
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
