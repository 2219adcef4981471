"""Owns the places at which a mode is judged: one tuning case each, with all that is known of the original there.

Must not know classes of bottlenecks; it only brings figures together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import KnobKind, SourceAudit
from warpsmith.contracts.case import Case, Cost, Mode, Role
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.measurement import ORIGINAL, CounterRow
from warpsmith.contracts.profile import Baseline
from warpsmith.diagnose.counted import COMPUTE_PCT, MEMORY_PCT, average, most_waves
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.occupancy import Occupancy, occupancy
from warpsmith.diagnose.roofline import bandwidth_share, compute_share
from warpsmith.verdict.statistics import geometric_mean


@dataclass(frozen=True)
class Place:
    """One tuning case of a mode, with all that is known of the original there. Waves are of its largest launch."""

    case: Case
    cost: Cost
    baseline: Baseline
    time_ms: float
    share: float
    launches: tuple[LaunchRecord, ...]
    occupancies: tuple[Occupancy, ...]
    rows: tuple[CounterRow, ...]
    ncu_version: str | None

    @property
    def headroom_us(self) -> float:
        """What the ceiling would save of a call; 0 where the call is faster than the ceiling."""
        return max(0.0, self.time_ms * (1 - self.share)) * 1e3

    @property
    def waves(self) -> float | None:
        """By the counters, else computed."""
        computed = max((o.waves for o in self.occupancies if o.waves is not None), default=None)
        return most_waves(self.rows) or computed


@dataclass(frozen=True)
class Throughputs:
    """Compute and memory in percent of their peaks: ncu's, or achieved shares of the measured ceilings."""

    compute_pct: float
    memory_pct: float
    by_ncu: bool


def places(mode: Mode, evidence: Evidence, baselines: Sequence[Baseline]) -> tuple[Place, ...]:
    """The tuning cases at which the original was timed in a mode."""
    found: list[Place] = []
    counted = {c.case.name: c for c in evidence.counted(mode)}
    for row in baselines:
        wanted = row.provider == ORIGINAL and row.mode is mode and row.role is Role.TUNING
        if not wanted or row.time_ms is None or row.share_of_ceiling is None:
            continue
        launches, counters = evidence.launches_at(row.case, mode), counted.get(row.case)
        device = evidence.device
        found.append(
            Place(
                case=evidence.spec.case(row.case),
                cost=evidence.spec.costs[row.case][mode],
                baseline=row,
                time_ms=row.time_ms.value,
                share=row.share_of_ceiling,
                launches=launches,
                occupancies=tuple(occupancy(r.compiled, r.grid, device.capability, device.sm_count) for r in launches),
                rows=counters.rows if counters else (),
                ncu_version=counters.ncu_version if counters else None,
            )
        )
    return tuple(found)


def share_of_ceiling(at: Sequence[Place]) -> float:
    """Geometric mean of the cases' shares, by their weights."""
    return geometric_mean([place.share for place in at], [place.case.weight for place in at])


def headroom_us(at: Sequence[Place]) -> float:
    """Mean of what the ceiling would save of a call, by the cases' weights."""
    return math.fsum(p.case.weight * p.headroom_us for p in at) / math.fsum(p.case.weight for p in at)


def telling(at: Sequence[Place]) -> Place:
    """The place a class is read off: the one with most headroom, of the counted ones where there are any."""
    return max([p for p in at if p.rows] or at, key=lambda p: p.case.weight * p.headroom_us)


def throughputs(place: Place, evidence: Evidence) -> Throughputs:
    """ncu's percentages, or without them the achieved shares of the measured copy and matmul ceilings."""
    compute_pct, memory_pct = average(place.rows, COMPUTE_PCT), average(place.rows, MEMORY_PCT)
    if compute_pct is not None and memory_pct is not None:
        return Throughputs(compute_pct, memory_pct, by_ncu=True)
    compute = compute_share(place.cost, place.time_ms, place.case.dtype, evidence.device) or 0.0
    memory = bandwidth_share(place.cost, place.time_ms, evidence.device) or 0.0
    return Throughputs(100 * compute, 100 * memory, by_ncu=False)


def loops_over_rows(launches: Sequence[LaunchRecord], audit: SourceAudit, sm_count: int) -> bool:
    """Whether every launch's grid follows the SM count and its programs loop."""
    by_sm = {knob.jit_function for knob in audit.knobs if knob.kind is KnobKind.PROGRAMS_PER_SM}
    looping = {function.name for function in audit.jit_functions if function.has_loop}
    return bool(launches) and all(
        r.jit_function in by_sm or (r.jit_function in looping and math.prod(r.grid) % sm_count == 0) for r in launches
    )
