"""Owns the order of opportunities where nothing was timed: by the share of a call's least work that each concerns.

Follows from sizes, grids and compiled code. It is no gain: nothing tells how much of it could be won. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.profile import Bottleneck, ModeProfile, TouchedOpportunity
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.occupancy import Occupancy
from warpsmith.diagnose.places import Site, sites
from warpsmith.diagnose.price_rules import (
    ARITHMETIC_OF_HEADROOM,
    FILL_OF_CEILING,
    GROUPS_OF_TIME,
    HINTS_OF_TIME,
    INVARIANT_OF_TIME,
    OUTPUT_OF_BYTES,
    PIPELINE_OF_TIME,
    SPECIALIZED_OF_TIME,
    UNCOALESCED_OF_HEADROOM,
    block_of,
    times_more,
)
from warpsmith.diagnose.pricing import opportunities_in
from warpsmith.diagnose.roofline import least_ms

#: A share of a call's least work, and why.
Share = tuple[float, str]
_NONE: Share = (0.0, "it concerns no bytes and no operations that sizes tell of")
_BY_KIND: dict[OpportunityKind, Share] = {
    OpportunityKind.NEEDLESS_INITIALISATION: (
        OUTPUT_OF_BYTES / FILL_OF_CEILING,
        "an output written once more, a third of the least bytes, at most",
    ),
    OpportunityKind.REPEATED_PASS: (OUTPUT_OF_BYTES, "an input read once more, a third of the least bytes, at most"),
    OpportunityKind.UNCOALESCED: (UNCOALESCED_OF_HEADROOM[1], "most of the bytes may be fetched in vain"),
    OpportunityKind.WIDE_ARITHMETIC: (ARITHMETIC_OF_HEADROOM, "arithmetic"),
    OpportunityKind.LOOP_INVARIANT_LOAD: (INVARIANT_OF_TIME, "what is loaded again comes from a cache"),
    OpportunityKind.STREAM_ONCE: (HINTS_OF_TIME, "which bytes a cache keeps"),
    OpportunityKind.STORED_ONCE: (HINTS_OF_TIME, "which bytes a cache keeps"),
    OpportunityKind.UNGROUPED_TILES: (GROUPS_OF_TIME, "which operands L2 still holds"),
    OpportunityKind.UNSPECIALIZED_LOOP: (SPECIALIZED_OF_TIME, "which warps load and which multiply"),
    OpportunityKind.UNSPECIALIZED_TMA_LOOP: (SPECIALIZED_OF_TIME, "which warps load and which multiply"),
}


def touched_opportunities(evidence: Evidence, modes: Sequence[ModeProfile]) -> tuple[TouchedOpportunity, ...]:
    """Each that a pass has a place for, with its largest share over the passes; the largest first, else as found."""
    best: dict[Opportunity, Share] = {}
    for profile in modes:
        at = sites(profile.mode, evidence)
        for found in opportunities_in(profile.mode, evidence) if at else ():
            share = _over(at, found, profile.bottleneck, evidence)
            if found not in best or share[0] > best[found][0]:
                best[found] = share
    ordered = sorted(best.items(), key=lambda pair: -pair[1][0])
    return tuple(TouchedOpportunity(opportunity=found, share=share, basis=why) for found, (share, why) in ordered)


def _over(at: Sequence[Site], found: Opportunity, bottleneck: Bottleneck, evidence: Evidence) -> Share:
    """Mean over the cases, each by the least time it takes; the words are those of the case with most."""
    shares = [_at(site, found, bottleneck, evidence) for site in at]
    times = [s.case.weight * (least_ms(s.cost, s.case.dtype, evidence.device) or 0.0) for s in at]
    whole = math.fsum(times)
    if not whole:
        return max(shares, key=lambda share: share[0])
    most = max(zip(times, shares, strict=True), key=lambda pair: pair[0] * pair[1][0])[1]
    return math.fsum(t * share for t, (share, _) in zip(times, shares, strict=True)) / whole, most[1]


def _at(site: Site, found: Opportunity, bottleneck: Bottleneck, evidence: Evidence) -> Share:
    pairs = [
        (record, fit)
        for record, fit in zip(site.launches, site.occupancies, strict=True)
        if found.function in (record.jit_function, record.host_function)
    ]
    if found.kind is OpportunityKind.SHORT_ROWS:
        return _beyond_the_row(pairs, site.case.axes.get(evidence.spec.plot_axis))
    if found.kind is OpportunityKind.ONE_PROGRAM_PER_SM:
        return _room_for_programs(pairs, site, evidence.spec.plot_axis)
    if found.kind is OpportunityKind.UNPIPELINED_LOOP:
        waits = bottleneck in (Bottleneck.LATENCY_BOUND, Bottleneck.GRID_TOO_SMALL)
        return PIPELINE_OF_TIME[waits], "each pass of the loop waits for its own loads"
    return _BY_KIND.get(found.kind, _NONE)


def _beyond_the_row(pairs: Sequence[tuple[LaunchRecord, Occupancy]], width: int | None) -> Share:
    block = block_of([record for record, _ in pairs])
    if width is None or block is None:
        return _NONE
    idle = max(0.0, 1 - width / block)
    return idle, f"{idle:.0%} of a block of {block} lie beyond a row of {width}"


def _room_for_programs(pairs: Sequence[tuple[LaunchRecord, Occupancy]], site: Site, plot_axis: str) -> Share:
    rows = math.prod(size for axis, size in site.case.axes.items() if axis != plot_axis)
    times = max((times_more(record, fit, rows) for record, fit in pairs if fit.waves), default=1.0)
    return 1 - 1 / times, f"an SM holds {times:.3g} times the programs that it has"
