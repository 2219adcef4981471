"""Owns the rules by which figures become a class of bottleneck, with their limits. Must not know records.

The order is: near the measured ceiling, then the busier of compute and memory, then latency or a grid too small.
"""

from __future__ import annotations

from warpsmith.contracts.profile import Bottleneck
from warpsmith.diagnose.places import Throughputs

#: Chosen: a copy kernel itself varies by a few percent, so above this there is nothing to win safely.
NEAR_PEAK_SHARE = 0.90
#: ncu's own rule (section SpeedOfLight, rule SOLBottleneck), and ours below the peak.
BUSY_PCT = 60.0
LEAD_PCT = 10.0
#: Chosen: below this, more resident warps would hide more latency.
LOW_OCCUPANCY = 0.5
#: Chosen: of all the room that the waves have, what the last one may leave empty without a word.
TAIL = 0.10


def warps_told(share: float, by_matrix_units: bool = False) -> str:
    """What this share of an SM's warps supports. Few warps keep matrix units busy: what they wait for is in flight."""
    if by_matrix_units and share < LOW_OCCUPANCY:
        return "few warps are by design where matrix instructions do the work"
    return "too few warps to hide latency" if share < LOW_OCCUPANCY else "enough warps are resident"


def told(found: Bottleneck, be: str = "is", have: str = "has") -> str:
    """The class as what is said of a pass, such as "is latency bound"."""
    return f"{have} too small a grid" if found is Bottleneck.GRID_TOO_SMALL else f"{be} {found.value.replace('_', ' ')}"


def by_throughput(seen: Throughputs) -> Bottleneck:
    """ncu's rule: both under 60%, latency; else the larger one if it leads by ten points, else balanced."""
    if max(seen.compute_pct, seen.memory_pct) < BUSY_PCT:
        return Bottleneck.LATENCY_BOUND
    if abs(seen.compute_pct - seen.memory_pct) < LEAD_PCT:
        return Bottleneck.BALANCED
    return Bottleneck.COMPUTE_BOUND if seen.compute_pct > seen.memory_pct else Bottleneck.MEMORY_BOUND


def class_of(share: float | None, seen: Throughputs, waves: float | None, looping: bool) -> Bottleneck:
    """Near peak first; then by throughput; where neither unit is busy, less than one wave of work
    means that the grid is too small.

    A kernel whose programs loop over the rows fills at most one wave by design: there latency is what is left.
    `share` is None where it is not known.
    """
    if share is not None and share >= NEAR_PEAK_SHARE:
        return Bottleneck.NEAR_PEAK
    found = by_throughput(seen)
    if found is Bottleneck.LATENCY_BOUND and not looping and waves is not None and waves < 1:
        return Bottleneck.GRID_TOO_SMALL
    return found


def predicted_class(compute_heavy: bool, waves: float | None, looping: bool, resident: float | None) -> Bottleneck:
    """With nothing run: a grid too small, a row loop that fills few of an SM's warps, else the nearer ceiling.

    Few warps are enough for a loop over tiles that multiplies matrices: it has its own work to hide latency behind.
    `resident` is the share of an SM's warps that the emptiest grid fills, None where no launch is known.
    """
    if looping and not compute_heavy and resident is not None and resident < LOW_OCCUPANCY:
        return Bottleneck.LATENCY_BOUND
    if not looping and waves is not None and waves < 1:
        return Bottleneck.GRID_TOO_SMALL
    return Bottleneck.COMPUTE_BOUND if compute_heavy else Bottleneck.MEMORY_BOUND
