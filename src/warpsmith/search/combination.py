"""Owns which variants are worth trying together, and what that promises. Pure: it knows variants and not their sources.

A variant is left behind where it wins too little by itself, or where a later one took the best's place. Those that won
something beyond noise, and broke no rule, are put together on the best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import Interval, Outcome
from warpsmith.verdict.thresholds import Thresholds


@dataclass(frozen=True)
class Combination:
    """`parts` with the gain of each over what it was built on, and their product `gain`: what is promised over the
    best."""

    parts: tuple[tuple[Variant, float], ...]

    @property
    def gain(self) -> float:
        return math.prod(gain for _, gain in self.parts)


def lineage(variants: Sequence[Variant], best: Variant | None) -> tuple[Variant, ...]:
    """The best and what it builds on, oldest first."""
    by_number = {variant.number: variant for variant in variants}
    chain: list[Variant] = []
    while best is not None:
        chain.append(best)
        best = by_number.get(best.based_on)
    return tuple(reversed(chain))


def combination(
    variants: Sequence[Variant], best: Variant | None, thresholds: Thresholds, noise_floor: float
) -> Combination | None:
    """What won apart and is not in the best. None where that is nothing new, or promises less than noise reaches.

    One part alone is new where it was built on something else than the best.
    """
    inside = {variant.number for variant in lineage(variants, best)}
    parts = tuple((v, gain) for v in variants if v.number not in inside and (gain := _won(v)) is not None)
    base = best.number if best else 0
    if not parts or (len(parts) == 1 and parts[0][0].based_on == base):
        return None
    found = Combination(parts)
    least = 1 + 2 * noise_floor if best else thresholds.bar(noise_floor)
    return found if found.gain >= least else None


def _won(variant: Variant) -> float | None:
    """Its gain over what it was built on; None where that is none beyond noise, or where it breaks a rule."""
    verdict = variant.verdict
    if verdict is None or verdict.outcome not in (Outcome.ACCEPTED, Outcome.REJECTED):
        return None
    gain: Interval | None = verdict.over_best if variant.based_on else verdict.goal
    broken = any(case.regressed for case in verdict.cases) or not all(rail.ok for rail in verdict.guardrails)
    if gain is None or gain.low <= 1 or broken or not verdict.cases:
        return None
    return gain.value
