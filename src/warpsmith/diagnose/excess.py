"""Owns excess traffic: bytes that the counters saw beyond the least that must cross device memory, as an opportunity.

Fewer bytes than the least are write-back not yet counted, and no opportunity.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.audit import Opportunity, OpportunityKind, SourceAudit
from warpsmith.diagnose.counted import DRAM_READ, DRAM_WRITE, counted_bytes
from warpsmith.diagnose.counter_signals import EXCESS
from warpsmith.diagnose.kernels import is_of, role
from warpsmith.diagnose.places import Place


def excess_ratio(place: Place) -> float | None:
    """Counted bytes over the least bytes, None where not counted."""
    seen = counted_bytes(place.rows)
    return seen / place.cost.bytes_moved if seen is not None and place.cost.bytes_moved else None


def excess_traffic(at: Sequence[Place], audit: SourceAudit) -> Opportunity | None:
    """The opportunity of a mode, about the function that moves most, where some case has more than a tenth too much."""
    found = [(ratio, place) for place in at if (ratio := excess_ratio(place)) is not None and ratio > EXCESS]
    if not found:
        return None
    ratio, place = max(found, key=lambda pair: pair[0])
    function, line = _mover(place, audit)
    return Opportunity(
        kind=OpportunityKind.EXCESS_TRAFFIC,
        function=function,
        line=line,
        what=f"{ratio * place.cost.bytes_moved / 1e6:.1f} MB cross device memory at {place.case.name} where "
        f"{place.cost.bytes_moved / 1e6:.1f} MB must: {ratio:.2f} times as much",
        why="something is read again after it has left L2, zeroed, copied, spilled or fetched in sectors half used",
    )


def _mover(place: Place, audit: SourceAudit) -> tuple[str, int]:
    """The jit function that moves most bytes and its line; where none is counted, that of the first launch."""
    by_bytes = sorted(place.rows, key=lambda r: -r.metrics.get(DRAM_READ, 0.0) - r.metrics.get(DRAM_WRITE, 0.0))
    for row in by_bytes:
        for function in audit.jit_functions:
            if is_of(role(row.kernel), frozenset({function.name})):
                return function.name, function.line
    launched = {record.jit_function: record.line for record in place.launches}
    lines = {function.name: function.line for function in audit.jit_functions}
    name = next(iter(launched), next(iter(lines), "the call"))
    return name, lines.get(name, launched.get(name, 1))
