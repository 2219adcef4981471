"""Owns the rows of evidence that hardware counters give: throughput, caches, traffic, stalls, spills as they ran."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.profile import EvidenceRow
from warpsmith.diagnose.counted import (
    BYTES_A_SECTOR,
    DRAM_PCT,
    DRAM_READ,
    DRAM_WRITE,
    L1_HIT_PCT,
    L1_PCT,
    L2_HIT_PCT,
    L2_PCT,
    OCCUPANCY_PCT,
    average,
    bank_conflicts,
    counted_bytes,
    local_instructions,
    main_stall,
)
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.kernels import is_of, role
from warpsmith.diagnose.places import Place, Site, Throughputs
from warpsmith.diagnose.rules import BUSY_PCT, warps_told
from warpsmith.diagnose.work import mostly_library, multiplies_matrices

#: Chosen: memory this many points above DRAM means that something nearer than DRAM is the limit.
DRAM_GAP_PCT = 10.0
#: Chosen: counted bytes above this many times the least are worth a word, and are priced.
EXCESS = 1.1
#: Chosen: an access that uses less of the 32 bytes of a sector moves twice what it needs.
COALESCED_BYTES = 16.0
#: Chosen: of all passes through shared memory, the share that bank conflicts cause.
MANY_CONFLICTS = 0.2
#: What warps wait for, by ncu's name of the stall (Nsight Compute, Kernel Profiling Guide, "Warp Stall Reasons").
STALLS = {
    "barrier": "others of their block, at a barrier",
    "branch_resolving": "the target of a branch",
    "dispatch_stall": "the dispatcher",
    "drain": "their last writes, to exit",
    "gmma": "matrix instructions under way",
    "imc_miss": "constants",
    "lg_throttle": "room in the queue of global memory",
    "long_scoreboard": "global memory",
    "math_pipe_throttle": "an arithmetic unit that is busy",
    "membar": "a memory barrier",
    "mio_throttle": "room in the queue of shared memory",
    "no_instruction": "instructions to be fetched",
    "not_selected": "their turn: others were ready too",
    "short_scoreboard": "shared memory or special functions",
    "sleeping": "the end of a sleep",
    "tex_throttle": "room in the queue of L1",
    "wait": "an instruction before, for its fixed time",
}


def counter_rows(place: Place, seen: Throughputs, evidence: Evidence) -> Iterator[EvidenceRow]:
    """The rows of those counters that are there."""
    yield from _throughput(place, seen)
    if not place.rows:
        return
    yield from _dram(place, seen)
    yield from _traffic(place, evidence)
    yield from _stall(place)
    yield from _occupancy(place, evidence)
    yield from _local(place)


def nearer_memory(place: Place, seen: Throughputs) -> str | None:
    """Which memory nearer than DRAM is the busy one, by whatever was counted; None where DRAM is or none is busy."""
    dram_pct = average(place.rows, DRAM_PCT)
    if dram_pct is None or not seen.by_ncu or seen.memory_pct < BUSY_PCT or seen.memory_pct - dram_pct < DRAM_GAP_PCT:
        return None
    rows, named = place.rows, []
    for which, metric in BYTES_A_SECTOR.items():
        used = average(rows, metric)
        if used is not None and 0 < used < COALESCED_BYTES:
            named.append(f"uncoalesced {which} ({used:.1f} of a sector's 32 bytes are used)")
    conflicts = bank_conflicts(rows)
    if conflicts is not None and conflicts > MANY_CONFLICTS:
        named.append(f"bank conflicts in shared memory ({conflicts:.0%} of its passes)")
    return ", ".join(named) or _busier_cache(place) or "caches or shared memory"


def _busier_cache(place: Place) -> str | None:
    """L1 with shared memory, or L2: by throughput, else by where the hits are; None where neither tells."""
    l1_pct, l2_pct = average(place.rows, L1_PCT), average(place.rows, L2_PCT)
    if l1_pct is not None and l2_pct is not None:
        return f"L1 and shared memory ({l1_pct:.0f}%)" if l1_pct > l2_pct else f"L2 ({l2_pct:.0f}%)"
    l1_hits, l2_hits = average(place.rows, L1_HIT_PCT), average(place.rows, L2_HIT_PCT)
    if l1_hits is not None and l1_hits >= BUSY_PCT:
        return f"L1 ({l1_hits:.0f}% of its sectors hit)"
    return f"L2 ({l2_hits:.0f}% of its sectors hit)" if l2_hits is not None and l2_hits >= BUSY_PCT else None


def ncu_source(place: Site) -> str:
    return f"ncu {place.ncu_version or ''}".strip() + f", {place.case.name}"


def _throughput(place: Place, seen: Throughputs) -> Iterator[EvidenceRow]:
    if seen.by_ncu:
        busy = max(seen.compute_pct, seen.memory_pct) >= BUSY_PCT
        counted = place.of_passes[0] if seen.of_passes else place
        yield EvidenceRow(
            signal="compute and memory throughput" + (" of its passes" if seen.of_passes else ""),
            observation=f"compute {seen.compute_pct:.0f}%, memory {seen.memory_pct:.0f}% of peak",
            supports="the larger is the limit if it leads by ten points" if busy else "neither unit is busy: latency",
            source=ncu_source(counted),
        )


def _dram(place: Place, seen: Throughputs) -> Iterator[EvidenceRow]:
    dram_pct = average(place.rows, DRAM_PCT)
    if dram_pct is None:
        return
    hits = [
        f"{name} hit rate {rate:.0f}%"
        for name, rate in (("L1", average(place.rows, L1_HIT_PCT)), ("L2", average(place.rows, L2_HIT_PCT)))
        if rate is not None
    ]
    nearer = nearer_memory(place, seen)
    yield EvidenceRow(
        signal="DRAM throughput and cache hits",
        observation=", ".join([f"DRAM {dram_pct:.0f}% of peak", *hits]),
        supports=f"memory is busy, and not DRAM: {nearer}" if nearer else "memory traffic is DRAM traffic",
        source=ncu_source(place),
    )


def main_mover(place: Place, jit_functions: frozenset[str]) -> str | None:
    """The kernel that moves most bytes through device memory, by its short name; None where nothing was counted.

    A library's kernels are one against each jit function: of one product, several may run.
    """
    moved: dict[str, float] = {}
    for row in place.rows:
        name = role(row.kernel)
        moved[name] = moved.get(name, 0.0) + row.metrics.get(DRAM_READ, 0.0) + row.metrics.get(DRAM_WRITE, 0.0)
    own = {name: moved_bytes for name, moved_bytes in moved.items() if is_of(name, jit_functions)}
    library = {name: moved_bytes for name, moved_bytes in moved.items() if name not in own}
    of = library if sum(library.values()) > max(own.values(), default=0.0) else own
    return max(of, key=lambda name: of[name], default=None)


def _traffic(place: Place, evidence: Evidence) -> Iterator[EvidenceRow]:
    seen_bytes, least = counted_bytes(place.rows), place.cost.bytes_moved
    if seen_bytes is None or not least:
        return
    if seen_bytes < least:
        supports = "write-back was not finished when the kernel ended; percentages of DRAM are too low by as much"
    elif seen_bytes > EXCESS * least:
        mover = main_mover(place, evidence.jit_functions)
        supports = "bytes cross device memory more than once: something is read again, zeroed or spilled"
        if mover is not None and not is_of(mover, frozenset(f.name for f in evidence.audit.jit_functions)):
            whose = "a jit function of another file" if is_of(mover, evidence.jit_functions) else "a library kernel"
            supports = f"most of the bytes are moved by {mover}, {whose}: no kernel of this source moves them"
    else:
        supports = "no needless traffic"
    yield EvidenceRow(
        signal="bytes through DRAM against the least possible",
        observation=f"{seen_bytes / 1e6:.1f} MB counted, {least / 1e6:.1f} MB at least",
        supports=supports,
        source=ncu_source(place),
    )


def _stall(place: Place) -> Iterator[EvidenceRow]:
    stall = main_stall(place.rows)
    if stall is not None:
        reason, share = stall
        waits = STALLS.get(reason, reason.replace("_", " "))
        yield EvidenceRow(
            signal="longest stall",
            observation=f"{reason}, {share:.0%} of a warp's latency between instructions",
            supports=f"warps wait for {waits}",
            source=ncu_source(place),
        )


def _occupancy(place: Place, evidence: Evidence) -> Iterator[EvidenceRow]:
    achieved_pct = average(place.rows, OCCUPANCY_PCT)
    if achieved_pct is not None:
        supports = warps_told(achieved_pct / 100, any(multiplies_matrices(record) for record in place.launches))
        if mostly_library(place, evidence):
            supports = "for the most part that of library kernels, whose warps are theirs to choose"
        yield EvidenceRow(
            signal="achieved occupancy",
            observation=f"{achieved_pct:.0f}% of an SM's warps",
            supports=supports,
            source=ncu_source(place),
        )


def _local(place: Place) -> Iterator[EvidenceRow]:
    executed = local_instructions(place.rows)
    if executed:
        yield EvidenceRow(
            signal="local memory instructions",
            observation=f"{executed:.3g} executed",
            supports="spilled registers cost traffic",
            source=ncu_source(place),
        )
