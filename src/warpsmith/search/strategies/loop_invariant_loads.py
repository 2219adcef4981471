"""Loop-invariant loads: what is the same in every pass of a loop is loaded once, before it.

Why: Triton takes such a load out only of a `for` loop that writes no memory, as a store might change what is loaded.
That no store does is seen in what the launches pass. A loaded block then lives through the whole loop, in registers
that the loop may not have left, so short runs decide.
"""

from __future__ import annotations

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.rewriting import Rewriting
from warpsmith.source.rewrites import hoist_invariant_load

CARD = Card(
    name="loop_invariant_loads",
    title="Load once, before the loop, what never changes in it",
    applies="a launched kernel below its ceiling loads from the same address with the same mask in every pass of a "
    "loop that stores, or of a while loop",
    hypothesis="Every pass waits for data that it has already had; loaded before the loop, it is in registers.",
    expected="at most 5% of the kernel's time (chosen), as what is loaded again comes from a cache",
    risk="the block lives through the loop, so that registers may spill; a tensor that other code passes for a stored "
    "pointer too would be read before it is written",
    takes_up=(OpportunityKind.LOOP_INVARIANT_LOAD,),
)

LOOP_INVARIANT_LOADS = Rewriting(CARD, hoist_invariant_load, "no load is the same in every pass of its loop")
