"""Stream-once stores: what a kernel writes once and does not read again is stored as streaming.

Why: a stored line takes room in L2 until it is written back, and evicts what other programs are about to read: the
weight of a row kernel, the operands of a matrix product. The modifier `.cs` lets it leave first. ptxas refuses a store
with both a modifier and a policy, so loads have the policies of cache_hints, and stores have this.
"""

from __future__ import annotations

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.rewriting import Rewriting
from warpsmith.source.rewrites import stream_stores

STREAM_ONCE_STORES = Rewriting(
    card=Card(
        name="stream_once_stores",
        title="Streaming stores for what is written once",
        applies="a launched kernel below its ceiling stores blocks of its own once, loads or adds nothing through the "
        "same pointer, and says nothing to the caches there",
        hypothesis="What is written and not read again needs no room in L2; stored as streaming it leaves first, and "
        "what is read again stays.",
        expected="at most 3% of the kernel's time (chosen); nothing where all of it fits L2, so that short runs decide",
        risk="the next kernel finds less of the result in L2: a launch of the same call that reads it is seen and "
        "refused, one elsewhere is not, and the full pass would show it",
        takes_up=(OpportunityKind.STORED_ONCE,),
    ),
    rewrite=stream_stores,
    nothing="no launched kernel stores what it writes once and does not read again without saying so",
)
