"""Cache hints: data that is loaded once is marked to leave L2 first, data that every program loads to stay.

Why: a row kernel streams its rows and reuses its weight and its partial sums. Without hints the stream evicts
what will be needed again.
"""

from __future__ import annotations

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.rewriting import Rewriting
from warpsmith.source.rewrites import add_eviction_policy

CACHE_HINTS = Rewriting(
    card=Card(
        name="cache_hints",
        title="Eviction policies for streamed and reused loads",
        applies="a launched kernel below its ceiling loads rows once, without an eviction policy",
        hypothesis="Rows are streamed once; marking them to leave L2 first keeps the weight and partial sums there.",
        expected="at most 3% of the kernel's time (chosen); often nothing, so that short runs decide first",
        risk="what is marked to leave and is read again by the next kernel comes from memory there; the full pass "
        "would show it",
        takes_up=(OpportunityKind.STREAM_ONCE,),
    ),
    rewrite=add_eviction_policy,
    nothing="no launched kernel loads rows once without an eviction policy",
)
