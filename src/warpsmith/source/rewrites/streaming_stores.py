"""Streaming stores: what is written once and not read again is marked to leave the caches first."""

from __future__ import annotations

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.editing import Edits
from warpsmith.source.launches import read
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.streams import streams


def stream_stores(source: str, opportunity: Opportunity) -> str:
    """`cache_modifier=".cs"` on the stores of a jit function that are written once.

    Stores that have an eviction policy or a cache modifier are left as they are: ptxas refuses a store with both.
    Raises NotApplicable where no other store streams.
    """
    if opportunity.kind is not OpportunityKind.STORED_ONCE:
        raise NotApplicable(f"{opportunity.kind.value} is no data that is stored once")
    reading = read(source)
    if opportunity.function not in reading.jits:
        raise NotApplicable(f"{opportunity.function} is no jit function of this source")
    stores = streams(reading, reading.jits[opportunity.function]).stores
    if not stores:
        raise NotApplicable(f"{opportunity.function} has no store without a policy of what it writes once")
    edits = Edits(source)
    for access in stores:
        edits.add_argument(access.call, 'cache_modifier=".cs"')
    return edits.apply()
