"""Owns excess traffic: bytes that the counters saw beyond the least that must cross device memory, as an opportunity.

Fewer bytes than the least are write-back not yet counted, and no opportunity.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.diagnose.counted import counted_bytes
from warpsmith.diagnose.counter_signals import EXCESS, main_mover
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.kernels import is_of
from warpsmith.diagnose.places import Place


def excess_ratio(place: Place) -> float | None:
    """Counted bytes over the least bytes, None where not counted."""
    seen = counted_bytes(place.rows)
    return seen / place.cost.bytes_moved if seen is not None and place.cost.bytes_moved else None


def excess_traffic(at: Sequence[Place], evidence: Evidence) -> Opportunity | None:
    """The opportunity of a mode, where some case has more than a tenth too much, and a function of this source moves
    most of it. What a library's kernels move is not in this source to mend.
    """
    found = [(ratio, place) for place in at if (ratio := excess_ratio(place)) is not None and ratio > EXCESS]
    if not found:
        return None
    ratio, place = max(found, key=lambda pair: pair[0])
    mover = main_mover(place, evidence.jit_functions)
    function = next((f for f in evidence.audit.jit_functions if mover and is_of(mover, frozenset({f.name}))), None)
    if function is None:
        return None
    return Opportunity(
        kind=OpportunityKind.EXCESS_TRAFFIC,
        function=function.name,
        line=function.line,
        what=f"{ratio * place.cost.bytes_moved / 1e6:.1f} MB cross device memory at {place.case.name} where "
        f"{place.cost.bytes_moved / 1e6:.1f} MB must: {ratio:.2f} times as much",
        why="something is read again after it has left L2, zeroed, copied, spilled or fetched in sectors half used",
    )
