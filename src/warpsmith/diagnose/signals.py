"""Owns the evidence table of a mode: signal, observation, what it supports, and the figure's source.

Every row states where its figure comes from; a signal without a figure has no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.profile import EvidenceRow
from warpsmith.diagnose.counted import (
    DRAM_PCT,
    DRAM_READ,
    DRAM_WRITE,
    L1_HIT_PCT,
    L2_HIT_PCT,
    LOCAL_LOADS,
    LOCAL_STORES,
    OCCUPANCY_PCT,
    average,
    main_stall,
    total,
)
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.occupancy import Occupancy
from warpsmith.diagnose.places import Place, Throughputs
from warpsmith.diagnose.roofline import is_compute_heavy, ridge_flops_per_byte
from warpsmith.diagnose.rules import BUSY_PCT, NEAR_PEAK_SHARE

COMPILED = "compiled code"
#: Chosen: below this, more resident warps would hide more latency.
LOW_OCCUPANCY = 0.5
#: Chosen: memory this many points above DRAM means that something nearer than DRAM is the limit.
DRAM_GAP_PCT = 10.0


def evidence_rows(
    at: Sequence[Place], place: Place, seen: Throughputs, looping: bool, evidence: Evidence
) -> tuple[EvidenceRow, ...]:
    """The table, read off `place` but for the spread over all places `at`."""
    return (
        _share(place, evidence),
        *_spread(at),
        *_intensity(place, evidence),
        *_throughput(place, seen),
        *_dram(place, seen),
        *_traffic(place),
        *_stall(place),
        *_occupancy(place),
        *_waves(place, looping, evidence),
        *_spills(place),
    )


def counted_bytes(place: Place) -> float | None:
    """DRAM bytes read plus written by all launches, None where they were not counted."""
    read, written = total(place.rows, DRAM_READ), total(place.rows, DRAM_WRITE)
    return read + written if read is not None and written is not None else None


def _ncu(place: Place) -> str:
    return f"ncu {place.ncu_version or ''}".strip() + f", {place.case.name}"


def _share(place: Place, evidence: Evidence) -> EvidenceRow:
    cost, row = place.cost, place.baseline
    heavy = is_compute_heavy(cost, place.case.dtype, evidence.device)
    if heavy:
        ceiling = f"matmul ceiling of {evidence.device.matmul_tflops[place.case.dtype]:.0f} TFLOP/s"
        achieved_tflops = cost.flops / place.time_ms / 1e9
        work = f"{cost.flops / 1e9:.3g} GFLOP in {place.time_ms * 1e3:.1f} us: {achieved_tflops:.3g} TFLOP/s"
    else:
        ceiling = f"copy ceiling of {(row.ceiling_gb_s or 0.0) / 1e3:.2f} TB/s"
        work = f"{cost.bytes_moved / 1e6:.1f} MB in {place.time_ms * 1e3:.1f} us: {(row.gb_s or 0.0) / 1e3:.2f} TB/s"
    return EvidenceRow(
        signal=f"least work over device time, {place.case.name}",
        observation=f"{work}, {place.share:.0%} of the {ceiling}",
        supports="near peak" if place.share >= NEAR_PEAK_SHARE else f"headroom of {place.headroom_us:.1f} us a call",
        source=f"device time by {row.method}, measured ceiling",
    )


def _spread(at: Sequence[Place]) -> Iterator[EvidenceRow]:
    if len(at) > 1:
        low, high = min(at, key=lambda p: p.share), max(at, key=lambda p: p.share)
        yield EvidenceRow(
            signal=f"share of the ceiling over {len(at)} tuning cases",
            observation=f"{low.share:.0%} ({low.case.name}) to {high.share:.0%} ({high.case.name})",
            supports="the shape decides" if high.share - low.share > 0.1 else "the same everywhere",
            source="device time, measured ceilings",
        )


def _intensity(place: Place, evidence: Evidence) -> Iterator[EvidenceRow]:
    ridge = ridge_flops_per_byte(place.cost, place.case.dtype, evidence.device)
    if ridge is not None and place.cost.bytes_moved:
        intensity = place.cost.flops / place.cost.bytes_moved
        yield EvidenceRow(
            signal="arithmetic intensity",
            observation=f"{intensity:.2g} operations a byte; the ridge is at {ridge:.0f}",
            supports="compute is the nearer limit" if intensity > ridge else "memory is the nearer limit",
            source="the target's cost model, measured ceilings",
        )


def _throughput(place: Place, seen: Throughputs) -> Iterator[EvidenceRow]:
    if seen.by_ncu:
        busy = max(seen.compute_pct, seen.memory_pct) >= BUSY_PCT
        yield EvidenceRow(
            signal="compute and memory throughput",
            observation=f"compute {seen.compute_pct:.0f}%, memory {seen.memory_pct:.0f}% of peak",
            supports="the larger is the limit if it leads by ten points" if busy else "neither unit is busy: latency",
            source=_ncu(place),
        )


def _dram(place: Place, seen: Throughputs) -> Iterator[EvidenceRow]:
    dram_pct = average(place.rows, DRAM_PCT)
    if dram_pct is None:
        return
    nearer = seen.by_ncu and seen.memory_pct >= BUSY_PCT and seen.memory_pct - dram_pct >= DRAM_GAP_PCT
    hits = [
        f"{name} hit rate {rate:.0f}%"
        for name, rate in (("L1", average(place.rows, L1_HIT_PCT)), ("L2", average(place.rows, L2_HIT_PCT)))
        if rate is not None
    ]
    yield EvidenceRow(
        signal="DRAM throughput and cache hits",
        observation=", ".join([f"DRAM {dram_pct:.0f}% of peak", *hits]),
        supports="caches or shared memory are the limit, not DRAM: look for uncoalesced access and bank conflicts"
        if nearer
        else "memory traffic is DRAM traffic",
        source=_ncu(place),
    )


def _traffic(place: Place) -> Iterator[EvidenceRow]:
    seen_bytes, least = counted_bytes(place), place.cost.bytes_moved
    if seen_bytes is None or not least:
        return
    if seen_bytes < least:
        supports = "write-back was not finished when the kernel ended; percentages of DRAM are too low by as much"
    elif seen_bytes > 1.1 * least:
        supports = "bytes cross device memory more than once: something is read again, zeroed or spilled"
    else:
        supports = "no needless traffic"
    yield EvidenceRow(
        signal="bytes through DRAM against the least possible",
        observation=f"{seen_bytes / 1e6:.1f} MB counted, {least / 1e6:.1f} MB at least",
        supports=supports,
        source=_ncu(place),
    )


def _stall(place: Place) -> Iterator[EvidenceRow]:
    stall = main_stall(place.rows)
    if stall is not None:
        reason, share = stall
        waits = "global memory" if reason == "long_scoreboard" else reason.replace("_", " ")
        yield EvidenceRow(
            signal="longest stall",
            observation=f"{reason}, {share:.0%} of a warp's latency between instructions",
            supports=f"warps wait for {waits}",
            source=_ncu(place),
        )


def _occupancy(place: Place) -> Iterator[EvidenceRow]:
    achieved_pct = average(place.rows, OCCUPANCY_PCT)
    for record, found in _distinct(place):
        limiter = f"limited by {found.limiter}" if found.share < 1 else "nothing limits it"
        resident = min(found.share, found.share * (found.waves or 0.0))
        yield EvidenceRow(
            signal=f"occupancy of {record.jit_function}",
            observation=f"{found.blocks_per_sm} blocks an SM, {found.share:.0%} of its warps, {limiter}; "
            f"the grid fills {resident:.0%}",
            supports=_enough(resident),
            source=f"{COMPILED}, {place.case.name}",
        )
    if achieved_pct is not None:
        yield EvidenceRow(
            signal="achieved occupancy",
            observation=f"{achieved_pct:.0f}% of an SM's warps",
            supports=_enough(achieved_pct / 100),
            source=_ncu(place),
        )


def _enough(share: float) -> str:
    return "too few warps to hide latency" if share < LOW_OCCUPANCY else "enough warps are resident"


def _waves(place: Place, looping: bool, evidence: Evidence) -> Iterator[EvidenceRow]:
    if place.waves is None:
        return
    if looping:
        supports = "programs loop over the rows, so at most one wave is by design: latency, not the size of the grid"
    else:
        supports = "SMs stand idle" if place.waves < 1 else "the grid fills the GPU"
    blocks = max((found.blocks for found in place.occupancies), default=None)
    grid = f"{blocks} programs on {evidence.device.sm_count} SMs: " if blocks is not None else ""
    yield EvidenceRow(
        signal="waves",
        observation=f"{grid}{place.waves:.2f} waves",
        supports=supports,
        source=f"{COMPILED} and grid, {place.case.name}" if not place.rows else _ncu(place),
    )


def _spills(place: Place) -> Iterator[EvidenceRow]:
    for record, _ in _distinct(place):
        if record.compiled.spills:
            yield EvidenceRow(
                signal=f"spills of {record.jit_function}",
                observation=f"{record.compiled.spills} at {record.compiled.registers} registers a thread",
                supports="registers limit; more warps a block would shorten what each thread holds",
                source=f"{COMPILED}, {place.case.name}",
            )
    local = [v for v in (total(place.rows, LOCAL_LOADS), total(place.rows, LOCAL_STORES)) if v is not None]
    if sum(local) > 0:
        yield EvidenceRow(
            signal="local memory instructions",
            observation=f"{sum(local):.3g} executed",
            supports="spilled registers cost traffic",
            source=_ncu(place),
        )


def _distinct(place: Place) -> list[tuple[LaunchRecord, Occupancy]]:
    """One launch of each jit function, the one with most programs."""
    found: dict[str, tuple[LaunchRecord, Occupancy]] = {}
    for record, computed in zip(place.launches, place.occupancies, strict=True):
        known = found.get(record.jit_function)
        if known is None or computed.blocks > known[1].blocks:
            found[record.jit_function] = (record, computed)
    return list(found.values())
