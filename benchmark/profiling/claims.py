"""What must hold of the profiles, asked of their figures: each a sentence, yes or no, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from claiming import Claim

from profiling.gains import FACTOR, Grid, predictions
from profiling.kept import Kept
from profiling.ncu_rule import by_ncu, named_in
from warpsmith.contracts.case import Role
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Bottleneck, ModeProfile, Profile
from warpsmith.report import quantities
from warpsmith.verdict.statistics import geometric_mean

#: Chosen: a compute-heavy call this far above its matmul ceiling shows that the ceiling is not that of its operands.
MISFIT = 1.2
#: Of the measured ceiling: at this share or above it a kernel is near its peak, whatever a profiler says.
NEAR_PEAK = 0.90


def claims(kept: Sequence[Kept], grid: Grid) -> tuple[Claim, ...]:
    return near_peak_first(kept), disagreements_explained(kept), liger_predicted(kept, grid)


def share_of_ceiling(profile: Profile, mode: ModeProfile) -> float | None:
    """Geometric mean of the tuning cases' shares by their weights, made anew; none counts as more than all. None where
    nothing was timed, or where the share of a case is not known.
    """
    weights = {each.case: each.weight for each in mode.headrooms}
    timed = [
        row
        for row in profile.baselines
        if (row.provider, row.mode, row.role) == (ORIGINAL, mode.mode, Role.TUNING) and row.time_ms is not None
    ]
    shares = [min(1.0, row.share_of_ceiling) for row in timed if row.share_of_ceiling is not None]
    if not timed or len(shares) < len(timed):
        return None
    return geometric_mean(shares, [weights.get(row.case, 1.0) for row in timed])


def misfits(profile: Profile, mode: ModeProfile) -> bool:
    """Whether the matmul ceiling that a case is held against cannot be that of its operands, by the kept times."""
    return any(
        each.bound == "matmul" and each.time_ms is not None and each.least_ms > MISFIT * each.time_ms
        for each in mode.headrooms
    )


def near_peak_first(kept: Sequence[Kept]) -> Claim:
    """By the share that the baselines make, not by the one that the profile tells."""
    failing, near, latency, unknown = [], 0, 0, []
    for each, mode in _modes(kept):
        share = share_of_ceiling(each.profile, mode)
        called = mode.bottleneck is Bottleneck.NEAR_PEAK
        if misfits(each.profile, mode) and not called:
            unknown.append(_named(each, mode))
            continue
        is_near = share is not None and share >= NEAR_PEAK
        near += is_near
        latency += is_near and by_ncu(each.profile, mode) is Bottleneck.LATENCY_BOUND
        if misfits(each.profile, mode):
            failing.append(f"{_named(each, mode)}: called near peak by a ceiling that does not fit its operands")
        elif share is None or called != is_near:
            reached = "no case was timed" if share is None else f"{quantities.percent(share)} of the ceiling"
            failing.append(f"{_named(each, mode)}: {reached}, called {quantities.words(mode.bottleneck.value)}")
    return Claim(
        asked="Near peak is recognised first: a pass is called so where it reaches "
        f"{NEAR_PEAK:.0%} of the measured ceiling, and nowhere else",
        found=f"{near} of {len(_modes(kept))} passes reach it; of {latency} of these ncu's rule says latency bound"
        + (f"; not known of {', '.join(unknown)}, profiled before its ceiling was known" if unknown else ""),
        failing=tuple(failing),
    )


def disagreements_explained(kept: Sequence[Kept]) -> Claim:
    """Of every pass whose launches were counted; ncu's rule is worked out anew, and a reason has to name its class."""
    failing, judged, differing = [], 0, 0
    for each, mode in _modes(kept):
        theirs = by_ncu(each.profile, mode)
        if theirs is None:
            continue
        judged += 1
        differs = theirs is not mode.bottleneck
        differing += differs
        reason = (mode.ncu_disagreement or "").strip()
        rule, ours = quantities.words(theirs.value), quantities.words(mode.bottleneck.value)
        if differs != bool(reason):
            wrong = "no reason is given" if differs else "a reason is given"
            failing.append(f"{_named(each, mode)}: ncu's rule says {rule}, the profile {ours}, and {wrong}")
        elif differs and (named := named_in(reason)) != rule:
            failing.append(f"{_named(each, mode)}: ncu's rule says {rule}, the reason given that it says {named}")
    if not judged:
        failing.append("no pass was counted")
    return Claim(
        asked="Where the class differs from what ncu's rule says, the profile names what it says and why it differs, "
        "and nowhere else",
        found=f"{differing} of {judged} counted passes differ; {len(_modes(kept)) - judged} others have no counters",
        failing=tuple(failing),
    )


def liger_predicted(kept: Sequence[Kept], grid: Grid) -> Claim:
    """The zeroed output where it is allocated, the program count on both paths, each with its measured gain."""
    found = tuple(predictions({each.kernel: each.profile for each in kept}, grid))
    compared = [each.over_measured for each in found if each.over_measured is not None]
    told = ", ".join(f"{ratio:.2f}" for ratio in compared) or "none compared"
    return Claim(
        asked="The opportunities of Liger's RMSNorm backward pass include the zeroed output and the program count, "
        f"each with a gain within a factor of {FACTOR:g} of the measured one at the shape at which most is expected "
        "(the rules were fitted on these measurements)",
        found=f"predicted over measured: {told}",
        failing=tuple(
            f"{each.kernel}, {quantities.words(each.kind.value)}: {each.why or f'off by {each.over_measured:.2f}×'}"
            for each in found
            if not each.holds
        ),
    )


def _modes(kept: Sequence[Kept]) -> list[tuple[Kept, ModeProfile]]:
    return [(each, mode) for each in kept for mode in each.profile.modes]


def _named(kept: Kept, mode: ModeProfile) -> str:
    return f"{kept.kernel} {mode.mode.value}"
