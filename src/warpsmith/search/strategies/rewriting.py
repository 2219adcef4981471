"""Strategies that are one rewrite, at every place that the audit found for it, kept where short runs say it pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity
from warpsmith.contracts.case import Mode
from warpsmith.search.strategies.alternatives import best_alternative, pays, told
from warpsmith.search.strategies.base import Card, Ground, Inapplicable, Proposal
from warpsmith.search.strategies.settings import launched_in, passes_with_headroom
from warpsmith.source.rewrites import NotApplicable


@dataclass(frozen=True)
class Rewriting:
    """`rewrite` is pure: it changes a source at one opportunity, found by its function and words, as earlier rewrites
    may have moved its line, and raises NotApplicable where there is nothing to change. `nothing` is said where the
    audit found no place in a pass with headroom.
    """

    card: Card
    rewrite: Callable[[str, Opportunity], str]
    nothing: str

    def propose(self, ground: Ground) -> Proposal:
        """Raises Inapplicable where there is no place, or none where it pays; WorkerError."""
        source, changes, learnings = ground.source, list[str](), list[str]()
        found = False
        for mode in passes_with_headroom(ground, learnings):
            for function in sorted(launched_in(ground, mode)):
                places = self._places(ground, function)
                found = found or bool(places)
                rewritten, changed = self._rewritten(source, places, learnings)
                if changed and self._pays(ground, source, rewritten, (mode, function), learnings):
                    source = rewritten
                    changes += changed
        if not found:
            learnings.append(self.nothing)
        if not changes:
            raise Inapplicable("; ".join(dict.fromkeys(learnings)))
        return Proposal(source=source, changes=tuple(changes), learnings=tuple(dict.fromkeys(learnings)))

    def _places(self, ground: Ground, function: str) -> list[Opportunity]:
        kinds = self.card.takes_up
        return [o for o in ground.audit.opportunities if o.kind in kinds and o.function == function]

    def _rewritten(
        self, source: str, places: Iterable[Opportunity], learnings: list[str]
    ) -> tuple[str, tuple[str, ...]]:
        """The source with all these places rewritten, and what was changed; the same source where none can be."""
        changed: list[str] = []
        for place in places:
            try:
                rewritten = self.rewrite(source, place)
            except NotApplicable as reason:
                learnings.append(f"line {place.line}: {reason}")
                continue
            if rewritten != source:
                source = rewritten
                changed.append(f"line {place.line}, {place.function}: {place.what}")
        return source, tuple(changed)

    def _pays(self, ground: Ground, source: str, rewritten: str, where: tuple[Mode, str], learnings: list[str]) -> bool:
        mode, function = where
        name = f"{self.card.name}_{function}"
        try:
            _, speedups = best_alternative(ground.bench, source, {name: rewritten}, mode)
        except ValueError as reason:
            learnings.append(f"{function}: {reason}")
            return False
        speedup = speedups[name]
        if not pays(speedup):
            learnings.append(f"{self.card.name} brings nothing to {function} in {mode.value}: {told(speedup)}")
        return pays(speedup)
