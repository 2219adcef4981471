"""What today's rules say of figures that were measured before: a kept profile, diagnosed anew.

Owns the way back from a profile to the records it was made of. Times, counters and compiled code stay as they are; a
cost model is known by what the profile tells of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.profile import Baseline, Profile
from warpsmith.contracts.target import TargetSpec
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.expected import expected_variants
from warpsmith.diagnose.learned import recommended
from warpsmith.diagnose.pricing import Price, priced_opportunities, prices
from warpsmith.diagnose.roofline import bound_of, copy_ceiling_gb_s, share_of_nearer

#: The axis of a row's width: every target here has its plots along it.
WIDTH = "N"


@dataclass(frozen=True)
class KeptEvidence(Evidence):
    """Records of a profile whose times are kept as its baselines."""

    @property
    def is_measured(self) -> bool:
        return True


def diagnosed_anew(profile: Profile, max_variants: int = 8) -> Profile:
    """The same measurements with what today's rules make of them; observations stay as they were told."""
    evidence = evidence_of(profile)
    rows = tuple(_held(row, evidence) for row in profile.baselines)
    modes = tuple(classify(m.mode, evidence, rows, profile.launch_overheads) for m in profile.modes)
    found = prices(evidence, modes, rows)
    recommendations = recommended(evidence, modes, profile.goal, rows, found)
    expected, why = expected_variants(recommendations, max_variants)
    return profile.model_copy(
        update={
            "baselines": rows,
            "modes": modes,
            "opportunities": priced_opportunities(found, profile.goal),
            "recommendations": recommendations,
            "expected_variants": expected,
            "expected_variants_why": why,
        }
    )


def prices_of(profile: Profile) -> tuple[Price, ...]:
    """The price of each opportunity at each case, by today's rules and the classes that the profile tells."""
    evidence = evidence_of(profile)
    rows = tuple(_held(row, evidence) for row in profile.baselines)
    return prices(evidence, profile.modes, rows)


def evidence_of(profile: Profile) -> KeptEvidence:
    cases = tuple(_cases(profile))
    costs: dict[str, dict[Mode, Cost]] = {}
    for mode in profile.modes:
        for each in mode.headrooms:
            cost = Cost(bytes_moved=each.least_bytes, flops=int(each.flops or 0), operands=each.operands)
            costs.setdefault(each.case, {})[mode.mode] = cost
    spec = TargetSpec(
        name=profile.kernel,
        source=profile.source,
        module=profile.kernel,
        target_file=profile.source,
        source_sha256=profile.source_sha256,
        cases=cases,
        modes=tuple(mode.mode for mode in profile.modes),
        differentiable=(),
        overwrites=(),
        costs=costs,
        providers=(),
        missing_providers={},
        tests=(),
        plot_axis=WIDTH,
    )
    return KeptEvidence(
        spec=spec,
        device=profile.device,
        audit=profile.audit,
        launches=profile.launches,
        timings=(),
        counters=profile.counters,
        durations=profile.durations,
        probes=profile.settings_probes,
        device_notes=profile.device_notes,
    )


def _cases(profile: Profile) -> Iterator[Case]:
    """The tuning cases, in the profile's order."""
    seen = [each.case for each in (*profile.counters, *profile.durations)]
    axes = tuple(seen[0].axes) if seen else ("M", WIDTH)
    weights = {each.case: each.weight for mode in profile.modes for each in mode.headrooms}
    tuning = dict.fromkeys(row.case for row in profile.baselines if row.role is Role.TUNING)
    for name in tuning:
        whole = next((case for case in seen if case.name == name), None)
        yield whole if whole is not None else _case(name, axes, weights.get(name, 1.0))


def _case(name: str, axes: tuple[str, ...], weight: float) -> Case:
    """By its name: "8192x4096-bf16-key=value"."""
    sizes, short, *extras = name.split("-")
    return Case(
        axes=dict(zip(axes, map(int, sizes.split("x")), strict=True)),
        dtype=next(dtype for dtype in DType if dtype.short == short),
        weight=weight,
        options=dict(extra.split("=", 1) for extra in extras),
    )


def _held(row: Baseline, evidence: Evidence) -> Baseline:
    """The row, its time held against today's ceilings."""
    cost = evidence.spec.costs.get(row.case, {}).get(row.mode)
    if row.time_ms is None or cost is None:
        return row
    dtype, device = evidence.spec.case(row.case).dtype, evidence.device
    heavy = bound_of(cost, dtype, device) == "matmul"
    return row.model_copy(
        update={
            "share_of_ceiling": share_of_nearer(cost, row.time_ms.value, dtype, device),
            "ceiling_gb_s": None if heavy else copy_ceiling_gb_s(cost, device),
        }
    )
