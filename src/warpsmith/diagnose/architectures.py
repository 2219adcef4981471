"""Owns which opportunities and strategies are for the GPUs of one architecture alone. Pure tables and look-ups.

What the compiler makes of them was read in the machine code of Triton 3.6 and 3.7.1 for each of these capabilities.
"""

from __future__ import annotations

from warpsmith.contracts.audit import OpportunityKind, SourceAudit

Capability = tuple[int, int]

#: Opportunities that only these GPUs have, by the major part of the compute capability. Where pointers load, 9.0
#: refuses to compile a specialized loop or ignores the wish, and 12.x gives up pipelining for nothing.
_MAJORS_OF_KIND: dict[OpportunityKind, frozenset[int]] = {
    OpportunityKind.UNSPECIALIZED_LOOP: frozenset({10}),
    OpportunityKind.UNSPECIALIZED_TMA_LOOP: frozenset({9, 10, 12}),
}
#: strategy -> the GPUs that it is for, and what it takes up there; in the order in which they are tried where nothing
#: was measured.
_STRATEGIES: dict[str, tuple[frozenset[int], tuple[OpportunityKind, ...]]] = {
    "past_l1": (frozenset({8}), (OpportunityKind.STREAM_ONCE,)),
    "specialized_warps_by_descriptor": (frozenset({9, 12}), (OpportunityKind.UNSPECIALIZED_TMA_LOOP,)),
    "specialized_warps": (
        frozenset({10}),
        (OpportunityKind.UNSPECIALIZED_LOOP, OpportunityKind.UNSPECIALIZED_TMA_LOOP),
    ),
}


def strategies_for(capability: Capability) -> dict[str, tuple[OpportunityKind, ...]]:
    """The strategies for GPUs of this capability alone, and what each takes up."""
    return {name: kinds for name, (majors, kinds) in _STRATEGIES.items() if capability[0] in majors}


def is_of_one_architecture(strategy: str) -> bool:
    return strategy in _STRATEGIES


def capabilities_told(strategy: str) -> str:
    """The GPUs that a strategy is for, such as "9.x or 12.x"."""
    return " or ".join(f"{major}.x" for major in sorted(_STRATEGIES[strategy][0]))


def audit_for(audit: SourceAudit, capability: Capability) -> SourceAudit:
    """The audit without opportunities that a GPU of this capability does not have."""
    anywhere = frozenset({capability[0]})
    fitting = tuple(o for o in audit.opportunities if capability[0] in _MAJORS_OF_KIND.get(o.kind, anywhere))
    return audit if fitting == audit.opportunities else audit.model_copy(update={"opportunities": fitting})
