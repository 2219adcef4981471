"""Owns the evidence table of a mode: signal, observation, what it supports, and the figure's source.

Every row states where its figure comes from; a signal without a figure has no row. Counters and compiled code have
modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.contracts.case import DType
from warpsmith.contracts.profile import EvidenceRow
from warpsmith.diagnose.code_signals import code_rows
from warpsmith.diagnose.counter_signals import counter_rows
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.kernels import is_of, kernel_times, overhead_us, shares_by_kernel, source_of_times
from warpsmith.diagnose.places import Place, Site, Throughputs
from warpsmith.diagnose.roofline import (
    BEYOND_CEILING,
    BEYOND_MATMUL,
    Doubt,
    bound_of,
    ceilings_told,
    copy_ceiling_gb_s,
    least_ms,
    matmul_ceiling,
)
from warpsmith.diagnose.rules import NEAR_PEAK_SHARE
from warpsmith.diagnose.work import ridge_of, uses_matrix_units

#: Chosen: fills and copies that take less of a call than this are not worth a word.
MUCH_OVERHEAD = 0.05
FIRST_WITH_BF16 = (8, 0)
EMULATED = "bf16 is emulated before compute capability 8.0"
#: The units of a kernel without matrix instructions.
PLAIN_UNITS = "the plain fp32 units"
_NUMBERS = ("no kernel", "one kernel", "two kernels", "three kernels", "four kernels", "five kernels")


def evidence_rows(
    at: Sequence[Place], place: Place, seen: Throughputs, looping: bool, evidence: Evidence
) -> tuple[EvidenceRow, ...]:
    """The table of a mode that was timed, read off `place` but for the spread over all places `at`."""
    return (
        _share(place, evidence),
        *_spread(at),
        *_intensity(place, evidence),
        *_emulated(place, evidence),
        *_kernels(place, evidence),
        *counter_rows(place, seen, evidence),
        *code_rows(place, looping, evidence),
    )


def predicted_rows(site: Site, looping: bool, evidence: Evidence) -> tuple[EvidenceRow, ...]:
    """The table of a mode of which nothing was run."""
    return (
        *_least(site, evidence),
        *_intensity(site, evidence),
        *_emulated(site, evidence),
        *code_rows(site, looping, evidence),
    )


def emulates(site: Site, evidence: Evidence) -> bool:
    """Whether the GPU has no units for the dtype of the case (CUDA C++ Programming Guide, "Compute Capabilities")."""
    return site.case.dtype is DType.BFLOAT16 and evidence.device.capability < FIRST_WITH_BF16


def _emulated(site: Site, evidence: Evidence) -> Iterator[EvidenceRow]:
    if emulates(site, evidence):
        major, minor = evidence.device.capability
        yield EvidenceRow(
            signal="arithmetic of bf16",
            observation=f"{EMULATED}; the {evidence.device.name} is {major}.{minor}",
            supports="matrix products and conversions cost more here; fp16 would show what the kernel can do",
            source="compute capability",
        )


def ceiling_of(site: Site, evidence: Evidence) -> str:
    """The ceiling that the site is held against, such as "copy ceiling of 4.10 TB/s"."""
    device = evidence.device
    matmul = matmul_ceiling(site.cost, site.case.dtype, device)
    if matmul is not None and bound_of(site.cost, site.case.dtype, device) == "matmul":
        of = f" for {site.cost.operands}" if site.cost.operands else ""
        return f"matmul ceiling of {matmul.tflops:.0f} TFLOP/s{of}{f' ({matmul.scaled})' if matmul.scaled else ''}"
    return f"copy ceiling of {(copy_ceiling_gb_s(site.cost, device) or 0.0) / 1e3:.2f} TB/s"


def _share(place: Place, evidence: Evidence) -> EvidenceRow:
    cost, row = place.cost, place.baseline
    if bound_of(cost, place.case.dtype, evidence.device) == "matmul":
        achieved_tflops = cost.flops / place.time_ms / 1e9
        work = f"{cost.flops / 1e9:.3g} GFLOP in {place.time_us:.1f} µs: {achieved_tflops:.3g} TFLOP/s"
    else:
        work = f"{cost.bytes_moved / 1e6:.1f} MB in {place.time_us:.1f} µs: {(row.gb_s or 0.0) / 1e3:.2f} TB/s"
    share, supports = f"{place.share:.0%} of", f"headroom of {place.headroom_us:.1f} µs a call"
    if place.doubt is Doubt.COST:
        share, supports = f"more than {BEYOND_CEILING:g} times", "an error in the cost model"
    elif place.doubt is Doubt.MISFIT:
        share, supports = f"more than {BEYOND_MATMUL:g} times", "that ceiling is not of its operands"
    elif place.doubt is Doubt.NO_CEILING:
        share, supports = "beside", f"no matmul ceiling of {place.cost.operands} is known, so that neither is the share"
    elif place.share >= NEAR_PEAK_SHARE:
        supports = "near peak"
    return EvidenceRow(
        signal=f"least work over device time, {place.case.name}",
        observation=f"{work}, {share} the {ceiling_of(place, evidence)}",
        supports=supports,
        source=f"device time by {row.method}, {ceilings_told(evidence.device).removesuffix('s')}",
    )


def _spread(at: Sequence[Place]) -> Iterator[EvidenceRow]:
    if len(at) > 1 and all(p.doubt is None for p in at):
        low, high = min(at, key=lambda p: p.share), max(at, key=lambda p: p.share)
        yield EvidenceRow(
            signal=f"share of the ceiling over {len(at)} tuning cases",
            observation=f"{low.share:.0%} ({low.case.name}) to {high.share:.0%} ({high.case.name})",
            supports="the shape decides" if high.share - low.share > 0.1 else "the same everywhere",
            source="device time, measured ceilings",
        )


def _least(site: Site, evidence: Evidence) -> Iterator[EvidenceRow]:
    least = least_ms(site.cost, site.case.dtype, evidence.device)
    if least is not None:
        yield EvidenceRow(
            signal=f"least possible time, {site.case.name}",
            observation=f"{site.cost.bytes_moved / 1e6:.1f} MB and {site.cost.flops / 1e9:.3g} GFLOP take "
            f"{1e3 * least:.1f} µs at the {ceiling_of(site, evidence)}",
            supports="a bound that no kernel reaches; how near this one comes was not measured",
            source=f"the target's cost model, {ceilings_told(evidence.device)}",
        )


def _intensity(site: Site, evidence: Evidence) -> Iterator[EvidenceRow]:
    ridge = ridge_of(site, evidence)
    if ridge is not None and site.cost.bytes_moved:
        intensity = site.cost.flops / site.cost.bytes_moved
        units = "" if uses_matrix_units(site, evidence) else f" of {PLAIN_UNITS}"
        yield EvidenceRow(
            signal="arithmetic intensity",
            observation=f"{intensity:.2g} operations a byte; the ridge{units} is at {ridge:.0f}",
            supports="compute is the nearer limit" if intensity > ridge else "memory is the nearer limit",
            source=f"the target's cost model, {ceilings_told(evidence.device)}",
        )


def _kernels(place: Place, evidence: Evidence) -> Iterator[EvidenceRow]:
    """Where the time of a call goes, where it is more than one kernel."""
    times = kernel_times(place)
    shares = shares_by_kernel(times)
    if len(times) < 2 or not shares:
        return
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    overhead = sum(shares.get(name, 0.0) for name in ("fill", "copy"))
    if overhead >= MUCH_OVERHEAD:
        supports = f"{overhead_us(times):.1f} µs go to what is filled or copied beside the kernel"
    elif is_of(first := next(iter(shares)), evidence.jit_functions):
        supports = f"{first} is the one to look at"
    else:
        supports = f"most goes to {first}, a library kernel: the source decides only what it is given"
    number = _NUMBERS[len(times)] if len(times) < len(_NUMBERS) else f"{len(times)} kernels"
    yield EvidenceRow(
        signal="device time of a call by kernel",
        observation=f"{number}: {told}",
        supports=supports,
        source=source_of_times(place),
    )
