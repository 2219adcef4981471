"""Owns the rows of evidence that compiled code gives, run or not: occupancy, waves and tail, spills, access widths."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from warpsmith.contracts.launch import AccessKind, LaunchRecord
from warpsmith.contracts.profile import EvidenceRow
from warpsmith.diagnose.counted import most_waves
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.occupancy import Occupancy, tail_share
from warpsmith.diagnose.places import Site, row_loops
from warpsmith.diagnose.rules import TAIL, warps_told
from warpsmith.diagnose.work import (
    TILES,
    loops_over_rows,
    mostly_library,
    multiplies_matrices,
    speaks_for,
    what_it_walks,
)

#: Chosen: below this many bytes a thread, an access takes so many instructions that they can be the limit.
NARROW_BYTES = 4
_READS = (AccessKind.LOAD, AccessKind.ASYNC_COPY)


def code_rows(site: Site, looping: bool, evidence: Evidence) -> Iterator[EvidenceRow]:
    """The rows of a site's launches, one each for every jit function where they are of one.

    Where a library's kernels take most of the call, how its own fill an SM says nothing of it and is left out.
    """
    told = source_of_code(site, evidence)
    if not mostly_library(site, evidence):
        for record, found in distinct(site):
            yield _occupancy(record, found, _noted(told, record, evidence))
        yield from _waves(site, looping, evidence, told)
    for record, _ in distinct(site):
        source = _noted(told, record, evidence)
        yield from _spills(record, source)
        yield from _widths(record, source)


def source_of_code(site: Site, evidence: Evidence) -> str:
    if evidence.is_measured:
        return f"compiled code, {site.case.name}"
    return f"compiled for {evidence.device.name}, predicted, {site.case.name}"


def _noted(source: str, record: LaunchRecord, evidence: Evidence) -> str:
    """With what qualifies the compilation of that jit function, where something does."""
    prefix = f"{record.jit_function}: "
    return "; ".join([source, *(note.removeprefix(prefix) for note in evidence.notes if note.startswith(prefix))])


def distinct(site: Site) -> list[tuple[LaunchRecord, Occupancy]]:
    """One launch of each jit function, the one with most programs."""
    found: dict[str, tuple[LaunchRecord, Occupancy]] = {}
    for record, computed in zip(site.launches, site.occupancies, strict=True):
        known = found.get(record.jit_function)
        if known is None or computed.blocks > known[1].blocks:
            found[record.jit_function] = (record, computed)
    return list(found.values())


def emptiest_grid(site: Site, evidence: Evidence) -> tuple[LaunchRecord, Occupancy] | None:
    """The launch that fills least of an SM, of those that speak for the call; of the row loops where it is one.

    Matrix instructions need few warps, and a kernel that takes little of the call's time tells nothing of it.
    """
    spoken = [
        pair for pair in distinct(site) if speaks_for(pair[0], site, evidence) and not multiplies_matrices(pair[0])
    ]
    if loops_over_rows(site, evidence):
        loops = row_loops(site.launches, evidence.audit, evidence.device.sm_count)
        spoken = [pair for pair in spoken if pair[0].jit_function in loops]
    return min(spoken, key=lambda pair: resident_share(pair[1]), default=None)


def resident_share(found: Occupancy) -> float:
    """The share of an SM's warps that the grid fills."""
    return min(found.share, found.share * (found.waves or 0.0))


def _occupancy(record: LaunchRecord, found: Occupancy, source: str) -> EvidenceRow:
    limiter = f"limited by {found.limiter}" if found.share < 1 else "nothing limits it"
    resident = resident_share(found)
    blocks = f"{found.blocks_per_sm} block{'' if found.blocks_per_sm == 1 else 's'}"
    return EvidenceRow(
        signal=f"occupancy of {record.jit_function}",
        observation=f"{blocks} an SM, {found.share:.0%} of its warps, {limiter}; the grid fills {resident:.0%}",
        supports=warps_told(resident, multiplies_matrices(record)),
        source=source,
    )


def _waves(site: Site, looping: bool, evidence: Evidence, source: str) -> Iterator[EvidenceRow]:
    if site.waves is None:
        return
    tail = tail_share(site.waves)
    if looping and site.waves <= 1:
        walked = what_it_walks(site)
        supports = f"programs loop over {walked}, so at most one wave is by design"
        supports += "" if walked == TILES else ": latency, not the size of the grid"
    elif site.waves < 1:
        supports = "SMs stand idle"
    elif tail > TAIL:
        supports = f"the last wave leaves room empty: {tail:.0%} of all that the waves have"
    else:
        supports = "the grid fills the GPU"
    programs = max((math.prod(record.grid) for record in site.launches), default=None)
    grid = f"{programs} programs on {evidence.device.sm_count} SMs: " if programs is not None else ""
    counted = f"ncu {site.ncu_version or ''}".strip() + f", {site.case.name}"
    yield EvidenceRow(
        signal="waves",
        observation=f"{grid}{site.waves:.2f} waves",
        supports=supports,
        source=counted if most_waves(site.rows) else source.replace("compiled code", "compiled code and grid"),
    )


def _spills(record: LaunchRecord, source: str) -> Iterator[EvidenceRow]:
    if record.compiled.spills:
        yield EvidenceRow(
            signal=f"spills of {record.jit_function}",
            observation=f"{record.compiled.spills} at {record.compiled.registers} registers a thread",
            supports="registers limit; more warps a block would shorten what each thread holds",
            source=source,
        )


def _widths(record: LaunchRecord, source: str) -> Iterator[EvidenceRow]:
    """How wide the global accesses are, where the code was read and they have a width."""
    counts: Counter[tuple[int, AccessKind]] = Counter()
    for access in record.compiled.accesses or ():
        if access.bytes_a_thread is not None:
            counts[access.bytes_a_thread, access.kind] += access.instructions
    if not counts:
        return
    told = [
        f"{count} {kind.value}{'s' if count > 1 and kind is not AccessKind.ASYNC_COPY else ''} of {width} B a thread"
        for (width, kind), count in sorted(counts.items(), key=lambda pair: (-pair[0][0], pair[0][1].value))
    ]
    widest = max((width for width, kind in counts if kind in _READS), default=NARROW_BYTES)
    yield EvidenceRow(
        signal=f"global accesses of {record.jit_function}",
        observation=", ".join(told),
        supports="narrow loads: many instructions and requests for the same bytes"
        if widest < NARROW_BYTES
        else "no sign of narrow access",
        source=source,
    )
