"""What the first pages of a profile tell: a line a mode, conclusions, recommendations, headroom by case.

Pure; owns the arrangement and the words for the classes, must not know how the page is laid out.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Bottleneck, Headroom, ModeProfile, Profile, Recommendation
from warpsmith.report import quantities

BOTTLENECK_MEANS: dict[Bottleneck, str] = {
    Bottleneck.NEAR_PEAK: "little is left to win: stop here",
    Bottleneck.MEMORY_BOUND: "limited by a memory unit; fewer bytes or better access would help",
    Bottleneck.COMPUTE_BOUND: "limited by arithmetic; fewer or cheaper operations would help",
    Bottleneck.LATENCY_BOUND: "waiting, with neither memory nor arithmetic busy; more work in flight would help",
    Bottleneck.GRID_TOO_SMALL: "fewer programs than the GPU has room for; more or smaller programs would help",
    Bottleneck.BALANCED: "memory and arithmetic are about equally busy",
}

#: What a diagnosis rests on where nothing was compiled either.
READ_ALONE = "source and least work"
#: What the strategy does that is always tried.
SETTINGS_MEANS = "a sweep of warps, stages, blocks and the number of programs, each setting timed"
#: Why a share may be more than all.
ABOVE_CEILING = (
    "A share above 100% means that part of the bytes stay in L2 and cross no device memory,\nor that the copy that "
    "sets the ceiling is slower than this kernel."
)

#: Chosen: weights are told where they differ by more than rounding.
_SAME_WEIGHT = 1e-9


@dataclass(frozen=True)
class ModeLine:
    """One mode in a row. `least` is the range of least times over the cases, None where none is known."""

    profile: ModeProfile
    tier: str
    left: str
    least: str | None


@dataclass(frozen=True)
class RecommendationLine:
    """A recommendation, and its strategy and gain in words."""

    recommendation: Recommendation
    strategy: str
    predicted: str


@dataclass(frozen=True)
class HeadroomLine:
    mode: Mode
    headroom: Headroom
    counted: str


def mode_lines(profile: Profile) -> tuple[ModeLine, ...]:
    return tuple(ModeLine(mode, tier_reached(profile, mode), _left(mode), _least(mode)) for mode in profile.modes)


def tier_reached(profile: Profile, mode: ModeProfile | None = None) -> str:
    """What a mode's diagnosis rests on, or that of all of them."""
    if not_compiled(profile) is not None:
        return READ_ALONE
    return mode.tier.value if mode and mode.tier else profile.evidence_tier


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
    if first is None:
        return None
    if profile.is_predicted:  # settings that no knob is for are named for their reason alone
        return next((each for each in profile.recommendations if each.strategy != "settings" or each.lines), None)
    return next(filter(promises, profile.recommendations), None)


def promises(recommendation: Recommendation) -> bool:
    """Whether a gain is predicted that can be seen as it is written, with two decimals."""
    return round(recommendation.predicted_high, 2) > 1


def why_not_settings(profile: Profile) -> str | None:
    """Why no settings can be tried, None where they can."""
    first = next(iter(profile.recommendations), None)
    return first.why if first is not None and first.strategy == "settings" and not first.lines else None


def is_open(profile: Profile) -> bool:
    """Whether a pass of the goal has something left to win."""
    return any(
        mode.bottleneck is not Bottleneck.NEAR_PEAK for mode in profile.modes if mode.mode in profile.goal.passes
    )


def is_unknown(profile: Profile) -> bool:
    """Whether a pass of the goal was timed, and how much it has left to win is not known."""
    return not profile.is_predicted and any(
        mode.share_of_ceiling is None for mode in profile.modes if mode.mode in profile.goal.passes
    )


def recommendation_lines(profile: Profile) -> tuple[RecommendationLine, ...]:
    return tuple(_recommendation_line(profile, each) for each in profile.recommendations)


def _recommendation_line(profile: Profile, recommendation: Recommendation) -> RecommendationLine:
    strategy, promising = quantities.words(recommendation.strategy), promises(recommendation)
    for_certainty = not promising and not profile.is_predicted and not is_open(profile)
    return RecommendationLine(
        recommendation=recommendation,
        strategy=f"{strategy}, to make sure" if for_certainty else strategy,
        predicted=quantities.predicted_range(recommendation.predicted_low, recommendation.predicted_high)
        if promising
        else "nothing predicted",
    )


def tells_gain(profile: Profile) -> bool:
    """Whether the recommendations predict anything: where nothing was timed they may name an order alone."""
    return not profile.is_predicted or any(map(promises, profile.recommendations))


def first_above_ceiling(profile: Profile) -> str | None:
    """Which of the page's tables is the first with a share above 100%, as it is written: modes, cases or baselines."""
    shares = {
        "modes": [mode.share_of_ceiling for mode in profile.modes],
        "cases": [headroom.share for mode in profile.modes for headroom in mode.headrooms],
        "baselines": [row.share_of_ceiling for row in profile.baselines],
    }
    above = (table for table, found in shares.items() if any(each is not None and round(each, 3) > 1 for each in found))
    return next(above, None)


def not_compiled(profile: Profile) -> str | None:
    """Why nothing was compiled for a profile of which nothing was run either; None where something was."""
    offline = profile.offline
    if not profile.is_predicted or profile.launches or (offline is not None and offline.launches):
        return None
    return (offline.unavailable if offline is not None else None) or "no launch of a jit function was seen"


def headroom_lines(profile: Profile) -> tuple[HeadroomLine, ...]:
    return tuple(HeadroomLine(mode.mode, h, _counted(h)) for mode in profile.modes for h in mode.headrooms)


def _counted(headroom: Headroom) -> str:
    if headroom.counted_bytes is None:
        return "not counted"
    ratio = f", {headroom.counted_bytes / headroom.least_bytes:.2f}×" if headroom.least_bytes else ""
    return f"{quantities.size(headroom.counted_bytes)}{ratio}"


def cases_of(profile: Profile) -> frozenset[str]:
    return frozenset(headroom.case for mode in profile.modes for headroom in mode.headrooms)


def weights_differ(profile: Profile) -> bool:
    weights = [h.weight for mode in profile.modes for h in mode.headrooms]
    return bool(weights) and max(weights) - min(weights) > _SAME_WEIGHT
