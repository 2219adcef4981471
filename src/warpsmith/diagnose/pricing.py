"""Owns what each opportunity may bring in each mode: gains by tuning case, then over the mode. Predicted, all of it.

Must not know the rules of single opportunities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Baseline, ModeProfile, PricedOpportunity
from warpsmith.diagnose.call import calls
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.excess import excess_traffic
from warpsmith.diagnose.headroom import weighted_mean
from warpsmith.diagnose.places import Place, places
from warpsmith.diagnose.price_rules import Gain, gain
from warpsmith.verdict.statistics import geometric_mean


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
    """A price of every opportunity in every pass that was timed and launches its function.

    What full may save is what its passes may: it is priced only where it is the one mode.
    """
    passes = [profile for profile in modes if profile.mode is not Mode.FULL] or modes
    return tuple(
        price for profile in passes for price in _of_mode(profile, places(profile.mode, evidence, baselines), evidence)
    )


def _of_mode(profile: ModeProfile, at: tuple[Place, ...], evidence: Evidence) -> Iterator[Price]:
    """The prices in one mode."""
    if not at:
        return
    here = opportunities_in(profile.mode, evidence)
    excess = excess_traffic(at, evidence)
    here += [excess] if excess is not None else []
    seen = calls(at, profile.bottleneck, evidence)
    for opportunity in here:
        alike = sum(other.kind is opportunity.kind for other in here)
        yield Price(opportunity, profile.mode, at, tuple(gain(opportunity, call, alike) for call in seen))


def opportunities_in(mode: Mode, evidence: Evidence) -> list[Opportunity]:
    """The audit's opportunities whose function the mode launches or is launched by; all where launches lack."""
    functions = evidence.functions_of(mode)
    return [o for o in evidence.audit.opportunities if not functions or o.function in functions]


def priced_opportunities(found: Sequence[Price], goal: Mode) -> tuple[PricedOpportunity, ...]:
    """Over each mode's tuning cases; the goal's passes first, then by what they may bring in the middle."""
    told = [_told(price) for price in found]
    return tuple(sorted(told, key=lambda p: (p.mode not in goal.passes, -(p.low_us + p.high_us), p.opportunity.line)))


def _told(price: Price) -> PricedOpportunity:
    weights = [place.case.weight for place in price.at]
    times = [place.time_us for place in price.at]
    lows, highs = [g.low_us for g in price.gains], [g.high_us for g in price.gains]
    best = max(range(len(times)), key=lambda i: highs[i])
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
