"""ncu's own rule for a bottleneck, worked out from the counters by none of the code that is put to the test.

Nsight Compute's section SpeedOfLight, rule SOLBottleneck: both throughputs under 60% of their peaks is latency; else
the larger one names it where it leads by ten points; else they are balanced.
"""

from __future__ import annotations

from warpsmith.contracts.counters import CounterRow, Counters
from warpsmith.contracts.profile import Bottleneck, ModeProfile, Profile

_COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_DURATION = "gpu__time_duration.sum"


def by_ncu(profile: Profile, mode: ModeProfile) -> Bottleneck | None:
    """What the rule says of a mode where the profile reads its class off. None where no launches of it were counted."""
    counted = [each for each in profile.counters if each.mode is mode.mode and _has_throughputs(each)]
    if not counted:
        return None
    left = {each.case: each.weight * (each.headroom_us or 0.0) for each in mode.headrooms}
    telling = max(counted, key=lambda each: left.get(each.case.name, 0.0))
    compute, memory = (_average(telling.rows, metric) for metric in (_COMPUTE, _MEMORY))
    if compute < 60 and memory < 60:
        return Bottleneck.LATENCY_BOUND
    if abs(compute - memory) < 10:
        return Bottleneck.BALANCED
    return Bottleneck.COMPUTE_BOUND if compute > memory else Bottleneck.MEMORY_BOUND


def _has_throughputs(counters: Counters) -> bool:
    return bool(counters.rows) and all({_COMPUTE, _MEMORY} <= set(row.metrics) for row in counters.rows)


def _average(rows: tuple[CounterRow, ...], metric: str) -> float:
    """Over the launches of a call, each as long as it took."""
    durations = [row.metrics.get(_DURATION, 1.0) for row in rows]
    return sum(d * row.metrics[metric] for d, row in zip(durations, rows, strict=True)) / sum(durations)
