"""Owns which strategies are worth trying, in which order, and what each may bring to the goal metric.

A prediction is a share of the headroom that the roofline leaves, by rules of thumb stated beside their constants;
it is written before any result, so that the result can contradict it. Must not know how a strategy is carried out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Knob, Opportunity, OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Baseline, Bottleneck, ModeProfile, Recommendation
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.places import places

SETTINGS = "settings"
REWRITES: dict[str, OpportunityKind] = {
    "needless_initialisation": OpportunityKind.NEEDLESS_INITIALISATION,
    "cache_hints": OpportunityKind.STREAM_ONCE,
    "pipelined_loop": OpportunityKind.UNPIPELINED_LOOP,
}

#: Shares of a pass's headroom that settings won, lowest and highest. Measured on an H200 with Liger-Kernel 0.8.5:
#: of LayerNorm and RMSNorm backward at 8192×4096 0.4, of GeGLU and LayerNorm forward 0.6 to 0.7.
SETTINGS_OF_HEADROOM = {
    Bottleneck.LATENCY_BOUND: (0.2, 0.7),
    Bottleneck.GRID_TOO_SMALL: (0.2, 0.7),
    Bottleneck.BALANCED: (0.0, 0.4),
    Bottleneck.MEMORY_BOUND: (0.0, 0.6),
    Bottleneck.COMPUTE_BOUND: (0.0, 0.4),
}
#: Shares of a pass's time, never more than its headroom. Zeroing a whole output measured 24 to 26% of RMSNorm
#: backward on an H200; of a small buffer only a launch is saved. The audit cannot tell which. The others are chosen.
INITIALISATION_OF_TIME = (0.01, 0.27)
HINTS_OF_TIME = (0.0, 0.03)
PIPELINE_OF_TIME = {True: (0.0, 0.15), False: (0.0, 0.05)}


@dataclass(frozen=True)
class Pass:
    """One pass of the goal. `part` is its share of the goal's time, `headroom` the share of its own time to win."""

    profile: ModeProfile
    part: float
    functions: frozenset[str]

    @property
    def headroom(self) -> float:
        share = self.profile.share_of_ceiling
        return 0.0 if share is None else max(0.0, 1 - share)

    @property
    def open(self) -> bool:
        return self.profile.bottleneck is not Bottleneck.NEAR_PEAK


def recommend(
    evidence: Evidence, modes: Sequence[ModeProfile], goal: Mode, baselines: Sequence[Baseline]
) -> tuple[Recommendation, ...]:
    """Settings first, always; then the rewrites that the audit found a place for, best prediction first.

    Nothing is expected of a pass near its peak: opportunities there are left out, and the settings say so.
    """
    passes = goal_passes(evidence, modes, goal, baselines)
    rewrites = [r for name, kind in REWRITES.items() if (r := _rewrite(name, kind, evidence, passes)) is not None]
    rewrites.sort(key=lambda r: -r.predicted_high)
    return (_settings(evidence, passes), *rewrites)


def expected_variants(recommendations: Sequence[Recommendation], max_variants: int) -> int:
    """One for each that predicts anything, and another sweep where a rewrite may change which settings are best."""
    promising = [r for r in recommendations if r.predicted_high > 1]
    again = 1 if any(r.strategy != SETTINGS for r in promising) else 0
    return min(max_variants, max(1, len(promising)) + again)


def goal_passes(
    evidence: Evidence, modes: Sequence[ModeProfile], goal: Mode, baselines: Sequence[Baseline]
) -> tuple[Pass, ...]:
    """The passes that the goal is made of, each with its weighted mean share of their time at the tuning cases."""
    profiles = [m for m in modes if m.mode in goal.passes]
    times = {m.mode: {p.case.name: p.time_ms for p in places(m.mode, evidence, baselines)} for m in profiles}
    shared = [c for c in evidence.spec.tuning_cases if all(c.name in by_case for by_case in times.values())]
    weight = math.fsum(case.weight for case in shared)
    found: list[Pass] = []
    for profile in profiles:
        part = math.fsum(
            case.weight * times[profile.mode][case.name] / math.fsum(by_case[case.name] for by_case in times.values())
            for case in shared
        )
        functions = evidence.functions_of(profile.mode)
        found.append(Pass(profile, part / weight if weight else 1 / len(profiles), functions))
    return tuple(found)


def _settings(evidence: Evidence, passes: Sequence[Pass]) -> Recommendation:
    open_passes = [p for p in passes if p.open]
    knobs = {p.profile.mode: _tunable(evidence, p) for p in open_passes}
    usable = [p for p in open_passes if knobs[p.profile.mode]]
    reasons = [
        f"{p.profile.mode.value} reaches {p.profile.share_of_ceiling:.0%} of its ceiling and is "
        f"{p.profile.bottleneck.value.replace('_', ' ')}; {len(knobs[p.profile.mode])} knobs can be changed there "
        f"({', '.join(sorted({k.name for k in knobs[p.profile.mode]}))})"
        for p in usable
    ]
    reasons += [f"{p.profile.mode.value} has no knob that can be changed" for p in open_passes if p not in usable]
    low, high = _predicted(usable, lambda p: _of_headroom(p, SETTINGS_OF_HEADROOM[p.profile.bottleneck]))
    lines = sorted({knob.line for found in knobs.values() for knob in found})
    return Recommendation(
        strategy=SETTINGS,
        why="; ".join([*reasons, *near_peak_reasons(passes)]) or "the goal has no pass that was timed",
        predicted_low=low,
        predicted_high=high,
        lines=tuple(lines),
    )


def near_peak_reasons(passes: Sequence[Pass]) -> list[str]:
    """Why passes near their peak are left alone."""
    return [
        f"{p.profile.mode.value} is left alone: it is at {p.profile.share_of_ceiling:.0%} of its ceiling"
        for p in passes
        if not p.open
    ]


def _rewrite(name: str, kind: OpportunityKind, evidence: Evidence, passes: Sequence[Pass]) -> Recommendation | None:
    """The recommendation of one rewrite, None where no open pass has a place for it."""
    spots = {p.profile.mode: [o for o in evidence.audit.opportunities if _is_in(o, kind, p)] for p in passes if p.open}
    usable = [p for p in passes if spots.get(p.profile.mode)]
    if not usable:
        return None
    found = list(dict.fromkeys(o for p in usable for o in spots[p.profile.mode]))
    low, high = _predicted(usable, lambda p: _of_time(p, kind))
    told = "; ".join(f"line {o.line}: {o.what}" for o in found)
    return Recommendation(
        strategy=name,
        why=f"{told}. {found[0].why[0].upper()}{found[0].why[1:]}.",
        predicted_low=low,
        predicted_high=high,
        lines=tuple(sorted({o.line for o in found})),
    )


def _is_in(opportunity: Opportunity, kind: OpportunityKind, of: Pass) -> bool:
    """Whether the pass launches the function that the opportunity is about; every pass does where launches lack."""
    return opportunity.kind is kind and (not of.functions or opportunity.function in of.functions)


def _tunable(evidence: Evidence, of: Pass) -> list[Knob]:
    knobs = (k for k in evidence.audit.knobs if k.tunable)
    return [k for k in knobs if not of.functions or k.jit_function in of.functions]


def _of_headroom(of: Pass, shares: tuple[float, float]) -> tuple[float, float]:
    return of.headroom * shares[0], of.headroom * shares[1]


def _of_time(of: Pass, kind: OpportunityKind) -> tuple[float, float]:
    latency = of.profile.bottleneck in (Bottleneck.LATENCY_BOUND, Bottleneck.GRID_TOO_SMALL)
    shares = {
        OpportunityKind.NEEDLESS_INITIALISATION: INITIALISATION_OF_TIME,
        OpportunityKind.STREAM_ONCE: HINTS_OF_TIME,
        OpportunityKind.UNPIPELINED_LOOP: PIPELINE_OF_TIME[latency],
    }[kind]
    return min(of.headroom, shares[0]), min(of.headroom, shares[1])


def _predicted(passes: Sequence[Pass], saved: Callable[[Pass], tuple[float, float]]) -> tuple[float, float]:
    """Speed-up of the goal, lowest and highest, if each pass loses that share of its time. Amdahl's law."""
    low = math.fsum(p.part * saved(p)[0] for p in passes)
    high = math.fsum(p.part * saved(p)[1] for p in passes)
    return 1 / (1 - low), 1 / (1 - high)
