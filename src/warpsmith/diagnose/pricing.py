"""Owns what each opportunity may bring in each mode: gains by tuning case, then over the mode. Predicted, all of it.

Must not know the rules of single opportunities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Baseline, ModeProfile, PricedOpportunity
from warpsmith.diagnose.call import calls
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.excess import excess_traffic
from warpsmith.diagnose.headroom import weighted_mean
from warpsmith.diagnose.places import Place, places
from warpsmith.diagnose.price_rules import Gain, gain
from warpsmith.verdict.statistics import geometric_mean

#: With nothing measured there is no money to order by: what is nearest to being sure comes first. Chosen.
BY_APPLICABILITY = (
    OpportunityKind.NEEDLESS_INITIALISATION,
    OpportunityKind.ONE_PROGRAM_PER_SM,
    OpportunityKind.UNCOALESCED,
    OpportunityKind.CONTIGUOUS_COPY,
    OpportunityKind.REPEATED_PASS,
    OpportunityKind.STEPPED_WARPS,
    OpportunityKind.SHORT_ROWS,
    OpportunityKind.UNPIPELINED_LOOP,
    OpportunityKind.WIDE_ARITHMETIC,
    OpportunityKind.LOOP_INVARIANT_LOAD,
    OpportunityKind.STREAM_ONCE,
    OpportunityKind.EXCESS_TRAFFIC,
    OpportunityKind.HOST_SYNCHRONIZATION,
    OpportunityKind.PERFORMANCE_TODO,
)


@dataclass(frozen=True)
class Price:
    """What an opportunity may bring in one mode, at each of the `at`."""

    opportunity: Opportunity
    mode: Mode
    at: tuple[Place, ...]
    gains: tuple[Gain, ...]

    def at_case(self, name: str) -> Gain | None:
        return next((g for p, g in zip(self.at, self.gains, strict=True) if p.case.name == name), None)


def prices(evidence: Evidence, modes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> tuple[Price, ...]:
    """A price of every opportunity in every mode that was timed and launches its function: passes, then full."""
    found: list[Price] = []
    for profile in sorted(modes, key=lambda m: m.mode is Mode.FULL):
        at = places(profile.mode, evidence, baselines)
        found += _of_mode(profile, at, evidence, found)
    return tuple(found)


def _of_mode(
    profile: ModeProfile, at: tuple[Place, ...], evidence: Evidence, of_passes: Sequence[Price]
) -> list[Price]:
    """The prices in one mode. What full may save at a case is what its passes may save there."""
    if not at:
        return []
    passes = [price for price in of_passes if profile.mode is Mode.FULL]
    here = opportunities_in(profile.mode, evidence)
    excess = excess_traffic(at, evidence.audit)
    here += [excess] if excess is not None else []
    here += [p.opportunity for p in passes if p.opportunity.kind is OpportunityKind.EXCESS_TRAFFIC]
    seen = calls(at, profile.bottleneck, evidence)
    found: list[Price] = []
    for opportunity in here:
        alike = sum(other.kind is opportunity.kind for other in here)
        gains = [
            _sum([p for p in passes if p.opportunity == opportunity], call.place) or gain(opportunity, call, alike)
            for call in seen
        ]
        found.append(Price(opportunity, profile.mode, at, tuple(gains)))
    return found


def opportunities_in(mode: Mode, evidence: Evidence) -> list[Opportunity]:
    """The audit's opportunities whose function the mode launches or is launched by; all where launches lack."""
    functions = evidence.functions_of(mode)
    return [o for o in evidence.audit.opportunities if not functions or o.function in functions]


def _sum(passes: Sequence[Price], place: Place) -> Gain | None:
    found = [g for price in passes if (g := price.at_case(place.case.name)) is not None]
    if not found:
        return None
    low, high = math.fsum(g.low_us for g in found), math.fsum(g.high_us for g in found)
    return Gain(low, high, max(found, key=lambda g: g.high_us).basis).within(place.headroom_us)


def priced_opportunities(found: Sequence[Price], goal: Mode) -> tuple[PricedOpportunity, ...]:
    """Over each mode's tuning cases; those of the goal's passes first, then by what they may bring in the middle."""
    told = [_told(price) for price in found]
    return tuple(sorted(told, key=lambda p: (p.mode not in goal.passes, -(p.low_us + p.high_us), p.opportunity.line)))


def unpriced_opportunities(
    evidence: Evidence, modes: Sequence[ModeProfile], goal: Mode
) -> tuple[PricedOpportunity, ...]:
    """With nothing measured: every opportunity in its modes, by how sure its kind is, at no price."""
    told = [
        PricedOpportunity(
            opportunity=opportunity,
            mode=profile.mode,
            low_us=0.0,
            high_us=0.0,
            predicted_low=1.0,
            predicted_high=1.0,
            basis="not priced: nothing was run",
        )
        for profile in modes
        for opportunity in opportunities_in(profile.mode, evidence)
    ]
    order = BY_APPLICABILITY.index
    return tuple(sorted(told, key=lambda p: (p.mode not in goal.passes, order(p.opportunity.kind), p.opportunity.line)))


def _told(price: Price) -> PricedOpportunity:
    weights = [place.case.weight for place in price.at]
    times = [place.time_us for place in price.at]
    lows, highs = [g.low_us for g in price.gains], [g.high_us for g in price.gains]
    best = max(range(len(times)), key=lambda i: (times[i] / (times[i] - highs[i]), highs[i]))
    nothing = highs[best] <= 0
    return PricedOpportunity(
        opportunity=price.opportunity,
        mode=price.mode,
        low_us=weighted_mean(lows, price.at),
        high_us=weighted_mean(highs, price.at),
        predicted_low=speedup(times, lows, weights),
        predicted_high=speedup(times, highs, weights),
        basis=price.gains[best].basis,
        case=None if nothing else price.at[best].case.name,
        case_predicted_high=None if nothing else times[best] / (times[best] - highs[best]),
    )


def speedup(times: Sequence[float], saved: Sequence[float], weights: Sequence[float]) -> float:
    """Weighted geometric mean of what saving that much of each time makes of it, as the goal is judged."""
    return max(1.0, geometric_mean([t / (t - s) for t, s in zip(times, saved, strict=True)], weights))
