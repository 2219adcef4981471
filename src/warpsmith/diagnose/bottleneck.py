"""Owns the class of a mode: what holds it back, and by which rule.

The first question is how near the device time is to the measured ceiling; percentages of a profiler come after
it. Pure over records. Must not know what to do about a bottleneck.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Baseline, Bottleneck, ModeProfile
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.places import (
    Place,
    Throughputs,
    headroom_us,
    loops_over_rows,
    places,
    share_of_ceiling,
    telling,
    throughputs,
)
from warpsmith.diagnose.rules import by_throughput, class_of
from warpsmith.diagnose.signals import counted_bytes, evidence_rows


def classify(mode: Mode, evidence: Evidence, baselines: Sequence[Baseline]) -> ModeProfile:
    """The diagnosis of one mode over its tuning cases. Raises ValueError where the original was timed at none."""
    at = places(mode, evidence, baselines)
    if not at:
        raise ValueError(f"{mode.value}: the original has no timed tuning case with a measured ceiling")
    share, place = share_of_ceiling(at), telling(at)
    looping = loops_over_rows(place.launches, evidence.audit, evidence.device.sm_count)
    seen = throughputs(place, evidence)
    found = class_of(share, seen, place.waves, looping)
    return ModeProfile(
        mode=mode,
        bottleneck=found,
        share_of_ceiling=share,
        headroom_us=headroom_us(at),
        evidence=evidence_rows(at, place, seen, looping, evidence),
        ncu_disagreement=_ncu_disagreement(found, share, place, seen) if seen.by_ncu else None,
    )


def _ncu_disagreement(found: Bottleneck, share: float, place: Place, seen: Throughputs) -> str | None:
    """What ncu's rule says of the same launches, and why our class is another; None where they agree."""
    theirs = by_throughput(seen)
    if theirs is found:
        return None
    said = (
        f"ncu's rule reads compute {seen.compute_pct:.0f}% and memory {seen.memory_pct:.0f}% at {place.case.name} and "
        f"says {theirs.value.replace('_', '-')}"
    )
    if found is Bottleneck.GRID_TOO_SMALL:
        return f"{said}; the grid makes only {place.waves:.2f} waves, so SMs stand idle, which is why there is latency"
    why = f"the least work over the device time is {share:.0%} of the measured ceiling: there is little left to win"
    seen_bytes = counted_bytes(place)
    if seen_bytes is not None and seen_bytes < place.cost.bytes_moved:
        why += (
            f"; the counters saw {seen_bytes / 1e6:.1f} MB of at least {place.cost.bytes_moved / 1e6:.1f} MB, because "
            "writes were still in L2 when the kernel ended"
        )
    return f"{said}; {why}"
