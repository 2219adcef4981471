"""What the first pages of a profile tell: a line a mode, conclusions, opportunities with their price, headroom by case.

Pure; owns the arrangement and the words for the classes, must not know how the page is laid out.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Bottleneck, Headroom, ModeProfile, PricedOpportunity, Profile, Recommendation
from warpsmith.report import quantities

BOTTLENECK_MEANS: dict[Bottleneck, str] = {
    Bottleneck.NEAR_PEAK: "little is left to win: stop here",
    Bottleneck.MEMORY_BOUND: "limited by a memory unit; fewer bytes or better access would help",
    Bottleneck.COMPUTE_BOUND: "limited by arithmetic; fewer or cheaper operations would help",
    Bottleneck.LATENCY_BOUND: "waiting, with neither memory nor arithmetic busy; more work in flight would help",
    Bottleneck.GRID_TOO_SMALL: "fewer programs than the GPU has room for; more or smaller programs would help",
    Bottleneck.BALANCED: "memory and arithmetic are about equally busy",
}

#: Chosen: so many priced opportunities stand on the first screen.
FIRST_SCREEN_OPPORTUNITIES = 3

#: Chosen: weights are told where they differ by more than rounding.
_SAME_WEIGHT = 1e-9


@dataclass(frozen=True)
class ModeLine:
    """One mode in a row. `least` is the range of least times over the cases, None where none is known."""

    profile: ModeProfile
    tier: str
    left: str
    least: str | None

    @property
    def is_open(self) -> bool:
        """Whether there is something left to win."""
        return self.profile.bottleneck is not Bottleneck.NEAR_PEAK


@dataclass(frozen=True)
class OpportunityLine:
    """A priced opportunity: where, what it may bring, and by which rule."""

    opportunity: Opportunity
    mode: Mode
    where: str
    speedup: str
    saved: str
    best_case: str | None
    basis: str


@dataclass(frozen=True)
class HeadroomLine:
    mode: Mode
    headroom: Headroom
    counted: str


def mode_lines(profile: Profile) -> tuple[ModeLine, ...]:
    return tuple(
        ModeLine(mode, mode.tier.value if mode.tier else profile.evidence_tier, _left(mode), _least(mode))
        for mode in profile.modes
    )


def _left(mode: ModeProfile) -> str:
    """What is left to win: where most of it lies, by the cases' weights; without cases, what the class means."""
    timed = [(h.weight * h.headroom_us, h) for h in mode.headrooms if h.headroom_us is not None]
    if mode.bottleneck is Bottleneck.NEAR_PEAK or not timed:
        return BOTTLENECK_MEANS[mode.bottleneck]
    most = max(timed, key=lambda each: each[0])[1]
    return f"most at {quantities.case_label(most.case)}: {quantities.microseconds(most.headroom_us)} a call"


def _least(mode: ModeProfile) -> str | None:
    if not mode.headrooms:
        return None
    times = [h.least_ms * 1e3 for h in mode.headrooms]
    return quantities.microseconds_range(min(times), max(times))


def conclusions(profile: Profile) -> tuple[str, ...]:
    """The conclusion of each mode that has one, whole, its mode in bold in front."""
    return tuple(_concluded(mode.mode.value, mode.conclusion) for mode in profile.modes if mode.conclusion)


def _concluded(mode: str, text: str) -> str:
    told = text[len(mode) :] if text.startswith(f"{mode} ") else f": {text}"
    return f"**{mode}**{told}"


def first_recommendation(profile: Profile) -> Recommendation | None:
    """What to do first. None where nothing promises anything, though the modes were timed."""
    first = next(iter(profile.recommendations), None)
    if first is None or profile.is_predicted:
        return first
    promising = (each for each in profile.recommendations if each.predicted_high > 1)
    return next(promising, None)


def tells_gain(profile: Profile) -> bool:
    """Whether the recommendations predict anything: where nothing was timed they may name an order alone."""
    return not profile.is_predicted or any(each.predicted_high > 1 for each in profile.recommendations)


def opportunity_lines(profile: Profile) -> tuple[OpportunityLine, ...]:
    return tuple(_opportunity_line(profile, priced) for priced in profile.opportunities)


def _opportunity_line(profile: Profile, priced: PricedOpportunity) -> OpportunityLine:
    best_case = None
    if priced.case is not None and priced.case_predicted_high is not None:
        best_case = f"{priced.case_predicted_high:.2f}× at {quantities.case_label(priced.case)}"
    return OpportunityLine(
        opportunity=priced.opportunity,
        mode=priced.mode,
        where=f"{profile.source}:{priced.opportunity.line}",
        speedup=quantities.predicted_range(priced.predicted_low, priced.predicted_high),
        saved=quantities.microseconds_range(priced.low_us, priced.high_us),
        best_case=best_case,
        basis=priced.basis,
    )


def unpriced_opportunities(profile: Profile) -> tuple[Opportunity, ...]:
    """What the audit found and nothing tells the worth of."""
    priced = {each.opportunity for each in profile.opportunities}
    return tuple(each for each in profile.audit.opportunities if each not in priced)


def headroom_lines(profile: Profile) -> tuple[HeadroomLine, ...]:
    return tuple(HeadroomLine(mode.mode, h, _counted(h)) for mode in profile.modes for h in mode.headrooms)


def _counted(headroom: Headroom) -> str:
    if headroom.counted_bytes is None:
        return "not counted"
    ratio = f", {headroom.counted_bytes / headroom.least_bytes:.2f}×" if headroom.least_bytes else ""
    return f"{quantities.size(headroom.counted_bytes)}{ratio}"


def weights_differ(profile: Profile) -> bool:
    weights = [h.weight for mode in profile.modes for h in mode.headrooms]
    return bool(weights) and max(weights) - min(weights) > _SAME_WEIGHT
