"""Owns the class of a mode: what holds it back, and by which rule.

The first question is how near the device time is to the measured ceiling; percentages of a profiler come after
it. Pure over records. Must not know what to do about a bottleneck.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Baseline, Bottleneck, EvidenceTier, LaunchOverhead, ModeProfile
from warpsmith.diagnose.code_signals import emptiest_grid, resident_share
from warpsmith.diagnose.conclusion import (
    NOT_HELD,
    conclusion,
    launch_bound_told,
    outlier_told,
    predicted_conclusion,
)
from warpsmith.diagnose.counted import counted_bytes
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.headroom import headroom_us, headrooms, share_of_ceiling
from warpsmith.diagnose.places import (
    Place,
    Site,
    Throughputs,
    places,
    sites,
    telling,
    throughputs,
)
from warpsmith.diagnose.roofline import least_ms
from warpsmith.diagnose.rules import NEAR_PEAK_SHARE, by_throughput, class_of, predicted_class
from warpsmith.diagnose.signals import evidence_rows, predicted_rows
from warpsmith.diagnose.work import is_compute_heavier, loops_over_rows, mostly_library


def classify(
    mode: Mode, evidence: Evidence, baselines: Sequence[Baseline], overheads: Sequence[LaunchOverhead] = ()
) -> ModeProfile:
    """The diagnosis of one mode over its tuning cases. Raises ValueError where the original was timed at none."""
    at = places(mode, evidence, baselines)
    if not at:
        raise ValueError(f"{mode.value}: the original has no timed tuning case with a measured ceiling")
    known, place = all(each.doubt is None for each in at), telling(at)
    share = share_of_ceiling(at) if known else None
    looping = loops_over_rows(place, evidence)
    seen = throughputs(place, evidence)
    waves = None if mostly_library(place, evidence) else place.waves
    found = class_of(share, seen, waves, looping)
    outlier = outlier_told(at, place, evidence) if known and found is not Bottleneck.NEAR_PEAK else None
    held = conclusion(found, at, place, seen, evidence) if known else NOT_HELD
    told = (held, outlier, launch_bound_told(at, overheads))
    return ModeProfile(
        mode=mode,
        bottleneck=found,
        share_of_ceiling=share,
        headroom_us=headroom_us(at) if known else None,
        evidence=evidence_rows(at, place, seen, looping, evidence),
        ncu_disagreement=_ncu_disagreement(found, share, place, seen) if place.rows and seen.by_ncu else None,
        tier=_tier(place, seen),
        headrooms=headrooms(at, evidence.device),
        conclusion=" ".join(sentence for sentence in told if sentence),
    )


def predict(mode: Mode, evidence: Evidence) -> ModeProfile | None:
    """The diagnosis that compiled code and least work allow; None where the mode has neither at a tuning case."""
    at = sites(mode, evidence)
    if not at:
        return None
    site = max(at, key=lambda s: s.case.weight * _least(s, evidence))
    looping = loops_over_rows(site, evidence)
    bounds = headrooms(at, evidence.device)
    heavy = is_compute_heavier(site, evidence)
    emptiest = emptiest_grid(site, evidence)
    resident = resident_share(emptiest[1]) if emptiest else None
    found = predicted_class(heavy, site.waves, looping, resident)
    return ModeProfile(
        mode=mode,
        bottleneck=found,
        share_of_ceiling=None,
        headroom_us=None,
        evidence=predicted_rows(site, looping, evidence),
        tier=EvidenceTier.COMPILED if any(each.launches for each in at) else EvidenceTier.SOURCE,
        headrooms=bounds,
        conclusion=predicted_conclusion(found, site, evidence),
    )


def _least(site: Site, evidence: Evidence) -> float:
    """What the largest case is told by: its least time, its least bytes where there is no ceiling."""
    return least_ms(site.cost, site.case.dtype, evidence.device) or float(site.cost.bytes_moved)


def _tier(place: Place, seen: Throughputs) -> EvidenceTier:
    if place.rows or seen.of_passes:
        return EvidenceTier.COUNTERS
    return EvidenceTier.DURATIONS if place.durations else EvidenceTier.TIMINGS


def _ncu_disagreement(found: Bottleneck, share: float | None, place: Place, seen: Throughputs) -> str | None:
    """What ncu's rule says of the same launches, and why our class is another; None where they agree."""
    theirs = by_throughput(seen)
    if theirs is found:
        return None
    assert share is not None or found is Bottleneck.GRID_TOO_SMALL  # by nothing else than that or nearness they differ
    said = (
        f"ncu's rule reads compute {seen.compute_pct:.0f}% and memory {seen.memory_pct:.0f}% at {place.case.name} and "
        f"says {theirs.value.replace('_', '-')}"
    )
    if found is Bottleneck.GRID_TOO_SMALL:
        return f"{said}; the grid makes only {place.waves:.2f} waves, so SMs stand idle, which is why there is latency"
    why = f"the least work over the device time is {share:.0%} of the measured ceiling: there is little left to win"
    if place.share < NEAR_PEAK_SHARE:
        why += f" over the tuning cases, though {1 - place.share:.0%} of this one"
    seen_bytes = counted_bytes(place.rows)
    if seen_bytes is not None and seen_bytes < place.cost.bytes_moved:
        why += (
            f"; the counters saw {seen_bytes / 1e6:.1f} MB of at least {place.cost.bytes_moved / 1e6:.1f} MB, because "
            "writes were still in L2 when the kernel ended"
        )
    return f"{said}; {why}"
