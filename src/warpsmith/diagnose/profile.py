"""Owns the assembly of a profile from the records of one run. Pure: no IO; what was measured is handed in."""

from __future__ import annotations

from warpsmith.contracts.device import Origin
from warpsmith.contracts.profile import Baseline, Profile
from warpsmith.contracts.request import Request
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.observations import observations
from warpsmith.diagnose.overhead import launch_overheads
from warpsmith.diagnose.recommend import expected_variants, recommend
from warpsmith.diagnose.roofline import baselines


def assemble(evidence: Evidence, request: Request, origin: Origin) -> Profile:
    """The profile. Raises ValueError where a mode of the target was timed at no tuning case."""
    spec = evidence.spec
    rows = baselines(spec, evidence.timings, evidence.memories, evidence.device)
    modes = tuple(classify(mode, evidence, rows) for mode in spec.modes) if evidence.is_measured else ()
    recommendations = recommend(evidence, modes, request.goal, rows) if modes else ()
    return Profile(
        kernel=request.kernel,
        run_id=request.run_id,
        goal=request.goal,
        source=spec.source,
        source_sha256=spec.source_sha256,
        device=evidence.device,
        origin=origin,
        baselines=rows,
        launches=evidence.launches,
        counters=evidence.counters,
        evidence_tier=_tier(evidence),
        audit=evidence.audit,
        modes=modes,
        recommendations=recommendations,
        expected_variants=expected_variants(recommendations, request.max_variants),
        observations=observations(evidence, modes, rows),
        l2=request.l2,
        warm_baselines=_measured(baselines(spec, evidence.warm_timings, (), evidence.device)),
        launch_overheads=launch_overheads(evidence.host_times, evidence.timings),
        no_launch_overhead=dict(evidence.no_host_time),
        durations=evidence.durations,
        settings_probes=evidence.probes,
        device_notes=evidence.device_notes,
    )


def _measured(rows: tuple[Baseline, ...]) -> tuple[Baseline, ...]:
    """Why a provider was not measured stands in the cold rows."""
    return tuple(row for row in rows if row.time_ms is not None)


def _tier(evidence: Evidence) -> str:
    if any(counters.rows for counters in evidence.counters):
        return "ncu counters"
    return "kernel durations" if evidence.timings else "compiled code"
