"""Eviction policies: rows that are loaded once leave the cache first, what every program loads stays longest."""

from __future__ import annotations

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.editing import Edits
from warpsmith.source.launches import read
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.streams import streams


def add_eviction_policy(source: str, opportunity: Opportunity) -> str:
    """`evict_first` on the row loads of a jit function, `evict_last` on what all its programs load.

    Loads that have a policy or a cache modifier are left as they are. Raises NotApplicable where none streams.
    """
    if opportunity.kind is not OpportunityKind.STREAM_ONCE:
        raise NotApplicable(f"{opportunity.kind.value} is no data that is loaded once")
    reading = read(source)
    if opportunity.function not in reading.jits:
        raise NotApplicable(f"{opportunity.function} is no jit function of this source")
    found = streams(reading, reading.jits[opportunity.function])
    if not found.loads:
        raise NotApplicable(f"{opportunity.function} has no load of row data without a policy that is used once")
    edits = Edits(source)
    for access in found.loads:
        edits.add_argument(access.call, 'eviction_policy="evict_first"')
    for access in found.shared:
        edits.add_argument(access.call, 'eviction_policy="evict_last"')
    return edits.apply()
