"""Owns the places at which a mode is judged: one tuning case each, with all that is known of the original there.

Must not know classes of bottlenecks; it only brings figures together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import KnobKind, SourceAudit
from warpsmith.contracts.case import Case, Cost, Mode, Role
from warpsmith.contracts.counters import CounterRow, KernelDuration
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Baseline
from warpsmith.diagnose.counted import COMPUTE_PCT, MEMORY_PCT, average, most_waves
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.occupancy import Occupancy, occupancy
from warpsmith.diagnose.roofline import Doubt, bandwidth_share, compute_share, doubt_of


@dataclass(frozen=True, kw_only=True)
class Site:
    """One tuning case of a mode, with what is known of the original there but its time.

    `rows` are ncu's counters, `durations` the profiler's kernels; each empty where not asked or refused. `of_passes`
    are the sites of the passes of a whole call that has neither, where these were counted or profiled.
    """

    case: Case
    cost: Cost
    launches: tuple[LaunchRecord, ...]
    occupancies: tuple[Occupancy, ...]
    rows: tuple[CounterRow, ...] = ()
    ncu_version: str | None = None
    durations: tuple[KernelDuration, ...] = ()
    of_passes: tuple[Site, ...] = ()

    @property
    def waves(self) -> float | None:
        """Of its largest launch: by the counters, else computed."""
        computed = max((o.waves for o in self.occupancies if o.waves is not None), default=None)
        return most_waves(self.rows) or computed


@dataclass(frozen=True, kw_only=True)
class Place(Site):
    """A site at which the original was timed. `share` is of the ceiling, and above 1 where data stays in L2.

    Where it is in doubt, as where the cost model claims more work than the time allows, the share is not known, and
    taken to be 1.
    """

    baseline: Baseline
    time_ms: float
    share: float
    doubt: Doubt | None = None

    @property
    def time_us(self) -> float:
        return 1e3 * self.time_ms

    @property
    def headroom_us(self) -> float:
        """What the ceiling would save of a call; 0 where the call is faster than the ceiling."""
        return max(0.0, self.time_us * (1 - self.share))


@dataclass(frozen=True)
class Throughputs:
    """Compute and memory in percent of their peaks by ncu, or, a model, achieved shares of the measured ceilings.

    `of_passes`: ncu's of the passes of a whole call, which was not counted itself.
    """

    compute_pct: float
    memory_pct: float
    by_ncu: bool
    of_passes: bool = False


def sites(mode: Mode, evidence: Evidence) -> tuple[Site, ...]:
    """The tuning cases that the mode has a cost or launches at."""
    spec = evidence.spec
    return tuple(
        _site(case, mode, evidence)
        for case in spec.tuning_cases
        if mode in spec.costs.get(case.name, {}) or evidence.launches_at(case.name, mode)
    )


def _site(case: Case, mode: Mode, evidence: Evidence) -> Site:
    device, launches = evidence.device, evidence.launches_at(case.name, mode)
    counters = next((c for c in evidence.counted(mode) if c.case.name == case.name), None)
    profiled = next((d for d in evidence.profiled(mode) if d.case.name == case.name), None)
    return Site(
        case=case,
        cost=evidence.spec.costs.get(case.name, {}).get(mode, Cost(bytes_moved=0, flops=0)),
        launches=launches,
        occupancies=tuple(occupancy(r.compiled, r.grid, device.capability, device.sm_count) for r in launches),
        rows=counters.rows if counters else (),
        ncu_version=counters.ncu_version if counters else None,
        durations=profiled.kernels if profiled else (),
        of_passes=() if counters or profiled else _passes(case, mode, evidence),
    )


def _passes(case: Case, mode: Mode, evidence: Evidence) -> tuple[Site, ...]:
    """Of a whole call: its passes, where each was counted or profiled."""
    found = tuple(_site(case, each, evidence) for each in mode.passes) if mode is Mode.FULL else ()
    return found if all(each.rows or each.durations for each in found) else ()


def places(mode: Mode, evidence: Evidence, baselines: Sequence[Baseline]) -> tuple[Place, ...]:
    """The tuning cases at which the original was timed in a mode."""
    found: list[Place] = []
    for row in baselines:
        wanted = row.provider == ORIGINAL and row.mode is mode and row.role is Role.TUNING
        if not wanted or row.time_ms is None:
            continue
        site, time_ms = _site(evidence.spec.case(row.case), mode, evidence), row.time_ms.value
        doubt = doubt_of(site.cost, time_ms, site.case.dtype, evidence.device)
        share = row.share_of_ceiling if doubt is None else 1.0
        if share is not None:
            found.append(Place(**vars(site), baseline=row, time_ms=time_ms, share=share, doubt=doubt))
    return tuple(found)


def telling(at: Sequence[Place]) -> Place:
    """The place a class is read off: the one with most headroom, of the counted ones where there are any, else of those
    whose passes were seen.
    """
    seen = [p for p in at if p.rows] or [p for p in at if p.of_passes] or at
    return max(seen, key=lambda p: p.case.weight * p.headroom_us)


def throughputs(place: Place, evidence: Evidence) -> Throughputs:
    """ncu's percentages, those of its passes, or else the achieved shares of the measured copy and matmul ceilings."""
    of_passes = tuple(row for each in place.of_passes for row in each.rows)
    rows = place.rows or of_passes
    compute_pct, memory_pct = average(rows, COMPUTE_PCT), average(rows, MEMORY_PCT)
    if compute_pct is not None and memory_pct is not None:
        return Throughputs(compute_pct, memory_pct, by_ncu=True, of_passes=not place.rows)
    return achieved(place, evidence)


def achieved(place: Place, evidence: Evidence) -> Throughputs:
    """What the least work over the time is of the measured copy and matmul ceilings: a model of the units' use."""
    compute = compute_share(place.cost, place.time_ms, place.case.dtype, evidence.device) or 0.0
    memory = bandwidth_share(place.cost, place.time_ms, evidence.device) or 0.0
    return Throughputs(100 * compute, 100 * memory, by_ncu=False)


def row_loops(launches: Sequence[LaunchRecord], audit: SourceAudit, sm_count: int) -> frozenset[str]:
    """The jit functions among the launches whose grid follows the SM count and whose programs loop."""
    by_sm = {knob.jit_function for knob in audit.knobs if knob.kind is KnobKind.PROGRAMS_PER_SM}
    looping = {function.name for function in audit.jit_functions if function.has_loop}
    return frozenset(
        r.jit_function
        for r in launches
        if math.prod(r.grid)
        and (r.jit_function in by_sm or (r.jit_function in looping and math.prod(r.grid) % sm_count == 0))
    )
