"""ncu's own rule for a bottleneck, worked out from the counters by none of the code that is put to the test.

Nsight Compute's section SpeedOfLight, rule SOLBottleneck: both throughputs under 60% of their peaks is latency; else
the larger one names it where it leads by ten points; else they are balanced.
"""

from __future__ import annotations

import re

from warpsmith.contracts.counters import CounterRow, Counters
from warpsmith.contracts.profile import Bottleneck, ModeProfile, Profile

_COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_DURATION = "gpu__time_duration.sum"
_SAYS = re.compile(r"\bsays ([a-z-]+)")


def by_ncu(profile: Profile, mode: ModeProfile) -> Bottleneck | None:
    """What the rule says of a mode where the profile reads its class off. None where no launches of it were counted."""
    telling = _telling(profile, mode)
    if telling is None or not all({_COMPUTE, _MEMORY} <= set(row.metrics) for row in telling.rows):
        return None
    compute, memory = (_average(telling.rows, metric) for metric in (_COMPUTE, _MEMORY))
    if compute < 60 and memory < 60:
        return Bottleneck.LATENCY_BOUND
    if abs(compute - memory) < 10:
        return Bottleneck.BALANCED
    return Bottleneck.COMPUTE_BOUND if compute > memory else Bottleneck.MEMORY_BOUND


def named_in(disagreement: str) -> str | None:
    """The class that a profile's own words say is ncu's, as "latency bound"; None where they name none."""
    found = _SAYS.search(disagreement)
    return found[1].replace("-", " ") if found else None


def _telling(profile: Profile, mode: ModeProfile) -> Counters | None:
    """The counters of the case with most weighted headroom among the counted ones.

    Of several alike, as where all are faster than the ceiling, the first in the order of the mode's cases: the order of
    the counters is another.
    """
    counted = {each.case.name: each for each in profile.counters if each.mode is mode.mode and each.rows}
    left = {each.case: each.weight * (each.headroom_us or 0.0) for each in mode.headrooms if each.case in counted}
    case = max(left, key=lambda name: left[name]) if left else next(iter(counted), None)
    return None if case is None else counted[case]


def _average(rows: tuple[CounterRow, ...], metric: str) -> float:
    """Over the launches of a call, each as long as it took."""
    durations = [row.metrics.get(_DURATION, 1.0) for row in rows]
    return sum(d * row.metrics[metric] for d, row in zip(durations, rows, strict=True)) / sum(durations)
