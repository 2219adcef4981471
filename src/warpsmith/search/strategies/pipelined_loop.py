"""Pipelined loop: a loop that loads from global memory asks for its loads to be issued stages ahead.

Why: without matrix instructions Triton pipelines a loop only where `tl.range` names num_stages
(triton, AssignLatencies.cpp), so a plain `range` waits for each row's loads before it starts the next. The
launch keyword num_stages changes nothing there. How many stages pay depends on the row: they live in shared
memory, so a wide row has room for few. They become a constexpr of the kernel and are swept with the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.base import Card, Ground, Inapplicable, Proposal
from warpsmith.search.strategies.settings import launched_in, passes_with_headroom, swept
from warpsmith.source.rewrites import NotApplicable, parametrise_loop_stages

CARD = Card(
    name="pipelined_loop",
    title="Issue the next rows' loads ahead",
    applies="a launched kernel below its ceiling loops over global loads without a matrix product, and its loop "
    "names no stages",
    hypothesis="A program waits for a row's loads before it asks for the next; stages ahead hide that latency.",
    expected="1.11 times the whole, forward then backward, for the library's rms_norm on an H200",
    risk="stages live in shared memory, so that a wide row fits fewer programs on an SM; the number is searched with "
    "the other settings",
    takes_up=(OpportunityKind.UNPIPELINED_LOOP,),
    searches_settings=True,
)


@dataclass(frozen=True)
class PipelinedLoop:
    card: Card = CARD

    def propose(self, ground: Ground) -> Proposal:
        learnings: list[str] = []
        launched = {f for mode in passes_with_headroom(ground, learnings) for f in launched_in(ground, mode)}
        loops = {o.function for o in ground.audit.opportunities if o.kind is OpportunityKind.UNPIPELINED_LOOP}
        source = ground.source
        try:
            for jit_function in sorted(loops & launched):
                source = parametrise_loop_stages(source, jit_function)
        except NotApplicable as reason:
            raise Inapplicable(str(reason)) from reason
        if source == ground.source:
            raise Inapplicable("; ".join([*learnings, "no launched kernel has an unpipelined loop over global loads"]))
        return swept(ground, source, only=loops & launched)
