"""Owns the assembly of a profile from the records of one run. No IO but the package's own record of past predictions;
what was measured is handed in.
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.contracts.aim import Aim
from warpsmith.contracts.device import Origin
from warpsmith.contracts.profile import Baseline, EvidenceTier, LaunchOverhead, ModeProfile, Profile
from warpsmith.contracts.request import Request
from warpsmith.diagnose.architectures import audit_for
from warpsmith.diagnose.bottleneck import classify, predict
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.expected import expected_variants
from warpsmith.diagnose.learned import recommended
from warpsmith.diagnose.observations import observations
from warpsmith.diagnose.overhead import launch_overheads
from warpsmith.diagnose.pricing import priced_opportunities, prices
from warpsmith.diagnose.roofline import baselines
from warpsmith.diagnose.touched import touched_opportunities


def assemble(evidence: Evidence, request: Request, origin: Origin) -> Profile:
    """The profile. With no timing at all it is predicted, from compiled code and least work.

    Raises ValueError where others, but not a mode of the target, were timed at a tuning case.
    """
    evidence = replace(evidence, audit=audit_for(evidence.audit, evidence.device.capability))
    spec, goal = evidence.spec, request.goal
    rows = baselines(spec, evidence.timings, evidence.memories, evidence.device)
    overheads = launch_overheads(evidence.host_times, evidence.timings)
    counted, counted_rows = _what_counts(evidence, request.aim, rows)
    modes = _modes(counted, counted_rows, overheads)
    found = prices(counted, modes, counted_rows)
    recommendations = recommended(counted, modes, goal, counted_rows, found)
    measured = evidence.is_measured
    expected, expected_why = expected_variants(recommendations, request.max_variants, measured=measured)
    return Profile(
        kernel=request.kernel,
        run_id=request.run_id,
        goal=goal,
        source=spec.source,
        source_sha256=spec.source_sha256,
        device=evidence.device,
        origin=origin,
        baselines=rows,
        launches=evidence.launches,
        counters=evidence.counters,
        evidence_tier=_tier(evidence).value,
        audit=evidence.audit,
        modes=modes,
        recommendations=recommendations,
        expected_variants=expected,
        expected_variants_why=expected_why,
        observations=observations(counted, modes, counted_rows),
        l2=request.l2,
        warm_baselines=_measured(baselines(spec, evidence.warm_timings, (), evidence.device)),
        launch_overheads=overheads,
        no_launch_overhead=dict(evidence.no_host_time),
        durations=evidence.durations,
        opportunities=priced_opportunities(found, goal),
        touched=() if measured else touched_opportunities(evidence, modes),
        settings_probes=evidence.probes,
        device_notes=evidence.device_notes,
        aim=request.aim,
    )


def _what_counts(evidence: Evidence, aim: Aim, rows: tuple[Baseline, ...]) -> tuple[Evidence, tuple[Baseline, ...]]:
    """The same with what does not count for the goal held out, and the weights that were asked for."""
    cases = aim.applied(evidence.spec.cases)
    if cases == evidence.spec.cases:
        return evidence, rows
    roles = {case.name: case.role for case in cases}
    spec = evidence.spec.model_copy(update={"cases": cases})
    counted = tuple(row.model_copy(update={"role": roles.get(row.case, row.role)}) for row in rows)
    return replace(evidence, spec=spec), counted


def _modes(
    evidence: Evidence, rows: tuple[Baseline, ...], overheads: tuple[LaunchOverhead, ...]
) -> tuple[ModeProfile, ...]:
    if evidence.is_measured:
        return tuple(classify(mode, evidence, rows, overheads) for mode in evidence.spec.modes)
    return tuple(found for mode in evidence.spec.modes if (found := predict(mode, evidence)) is not None)


def _measured(rows: tuple[Baseline, ...]) -> tuple[Baseline, ...]:
    """Why a provider was not measured stands in the cold rows."""
    return tuple(row for row in rows if row.time_ms is not None)


def _tier(evidence: Evidence) -> EvidenceTier:
    if any(counters.rows for counters in evidence.counters):
        return EvidenceTier.COUNTERS
    if any(profiled.kernels for profiled in evidence.durations):
        return EvidenceTier.DURATIONS
    if evidence.is_measured:
        return EvidenceTier.TIMINGS
    return EvidenceTier.COMPILED if any(evidence.launches.values()) else EvidenceTier.SOURCE
