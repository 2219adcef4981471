"""Strategies for the GPUs of one architecture: a switch in the kernel, off by default, searched with the settings.

A table turns it on for the GPU that it was measured on; any other runs what it ran before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from warpsmith.diagnose.architectures import audit_for, capabilities_told, strategies_for
from warpsmith.search.strategies.base import Card, Ground, Inapplicable, Proposal
from warpsmith.search.strategies.settings import launched_in, passes_with_headroom, swept
from warpsmith.source.rewrites import NotApplicable


@dataclass(frozen=True)
class Switch:
    """`rewrite` adds the constexpr `parameter` to a jit function of a source, and raises NotApplicable where it cannot.
    `nothing` is said where the audit found no place.
    """

    card: Card
    parameter: str
    rewrite: Callable[[str, str], str]
    nothing: str

    def propose(self, ground: Ground) -> Proposal:
        """Raises Inapplicable on other GPUs, where there is no place, or where the switch is best left off."""
        device = ground.profile.device
        if self.card.name not in strategies_for(device.capability):
            found = ".".join(map(str, device.capability))
            told = f"only GPUs of compute capability {capabilities_told(self.card.name)} have a use for it"
            raise Inapplicable(f"{told}; {device.name} is of {found}")
        learnings: list[str] = []
        functions = self._places(ground, learnings)
        if not functions:
            learnings.append(self.nothing)
        while functions:
            source, functions = self._rewritten(ground.source, functions, learnings)
            if not functions:
                break
            proposal = swept(ground, source, only=functions)
            used = self._turned_on(proposal)
            if used == functions:
                return proposal
            learnings += [f"{self.parameter}=1 is not the best of {f} at any tuning case" for f in functions - used]
            functions = used
        raise Inapplicable("; ".join(dict.fromkeys(learnings)))

    def _places(self, ground: Ground, learnings: list[str]) -> set[str]:
        """The launched functions below their ceiling that the audit names for this GPU."""
        audit = audit_for(ground.audit, ground.profile.device.capability)
        launched = {f for mode in passes_with_headroom(ground, learnings) for f in launched_in(ground, mode)}
        return {o.function for o in audit.opportunities if o.kind in self.card.takes_up} & launched

    def _rewritten(self, source: str, functions: Collection[str], learnings: list[str]) -> tuple[str, set[str]]:
        """The source with the switch in these functions, and those that have it."""
        done = set[str]()
        for function in sorted(functions):
            try:
                source = self.rewrite(source, function)
            except NotApplicable as reason:
                learnings.append(str(reason))
                continue
            done.add(function)
        return source, done

    def _turned_on(self, proposal: Proposal) -> set[str]:
        return {t.jit_function for t in proposal.tables for band in t.bands if band.settings.get(self.parameter)}
