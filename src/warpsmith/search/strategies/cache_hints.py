"""Cache hints: data that is read or written once is marked to leave L2 first, data that is reused to stay.

Why: a row kernel streams its rows and reuses its weight and its partial sums. Without hints the stream evicts
what will be needed again.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.alternatives import best_alternative, pays, told
from warpsmith.search.strategies.base import Card, Ground, Inapplicable, Proposal
from warpsmith.search.strategies.settings import launched_in, passes_with_headroom
from warpsmith.source.rewrites import NotApplicable, add_eviction_policy

CARD = Card(
    name="cache_hints",
    title="Eviction policies for streamed and reused data",
    applies="a launched kernel below its ceiling reads or writes rows once, without an eviction policy",
    hypothesis="Rows are streamed once; marking them to leave L2 first keeps the weight and partial sums there.",
    expected="at most 3% of the kernel's time (chosen); often nothing, so that short runs decide first",
    risk="what is marked to leave and is read again by the next kernel comes from memory there; the full pass would "
    "show it",
    takes_up=(OpportunityKind.STREAM_ONCE,),
)


@dataclass(frozen=True)
class CacheHints:
    card: Card = CARD

    def propose(self, ground: Ground) -> Proposal:
        source = ground.source
        changes: list[str] = []
        learnings: list[str] = []
        for mode in passes_with_headroom(ground, learnings):
            alternatives: dict[str, str] = {}
            for jit_function in sorted(launched_in(ground, mode)):
                try:
                    alternatives[f"hints_{jit_function}"] = add_eviction_policy(source, jit_function)
                except NotApplicable as reason:
                    learnings.append(str(reason))
            if not alternatives:
                continue
            try:
                best, speedups = best_alternative(ground.bench, source, alternatives, mode)
            except ValueError as reason:
                learnings.append(str(reason))
                continue
            if pays(speedups[best]):
                source = alternatives[best]
                changes.append(f"{best.removeprefix('hints_')}: eviction policies on streamed and reused accesses")
            else:
                learnings.append(f"eviction policies bring nothing in {mode.value}: {told(speedups[best])}")
        if not changes:
            raise Inapplicable("; ".join(learnings) or "no access is streamed once")
        return Proposal(source=source, changes=tuple(changes), learnings=tuple(learnings))
