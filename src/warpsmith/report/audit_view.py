"""What reading the source told, arranged for reading: jit functions, launches, patterns by kind.

Pure; owns the words for tiers, must not know how the page is laid out.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.contracts.audit import JitFunction, Knob, Pattern, PatternKind, SourceAudit, Tier

TIER_MEANS: dict[Tier, str] = {
    Tier.ELEMENT_WISE: "1, element-wise",
    Tier.REDUCTION: "2, reduction",
    Tier.FUSED: "3, fused or multi-pass",
}


@dataclass(frozen=True)
class JitFunctionLine:
    """`does` says in a few words what it loads, stores and reduces."""

    name: str
    line: int
    tier: str
    does: str


def jit_function_lines(audit: SourceAudit) -> tuple[JitFunctionLine, ...]:
    return tuple(JitFunctionLine(f.name, f.line, TIER_MEANS[f.tier], _does(f)) for f in audit.jit_functions)


def _does(function: JitFunction) -> str:
    counts = (("load", function.loads), ("store", function.stores), ("reduction", function.reductions))
    parts = [f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts if count]
    if function.atomics:
        parts.append(f"{function.atomics} atomics")
    return ", ".join([*parts, "a loop" if function.has_loop else "no loop"])


def knobs_of_the_source(audit: SourceAudit) -> tuple[Knob, ...]:
    """Without caps on registers that the source does not set, which tell a reader nothing."""
    return tuple(knob for knob in audit.knobs if not knob.is_unset_cap)


def patterns_by_kind(audit: SourceAudit) -> tuple[tuple[PatternKind, tuple[Pattern, ...]], ...]:
    """The kinds that there are, each with its findings by line."""
    found = (
        (kind, sorted((p for p in audit.patterns if p.kind is kind), key=lambda p: p.lines)) for kind in PatternKind
    )
    return tuple((kind, tuple(patterns)) for kind, patterns in found if patterns)
