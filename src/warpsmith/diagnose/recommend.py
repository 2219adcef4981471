"""Owns which strategies are worth trying, in which order, and what each may bring to the goal metric.

A prediction is the sum of what the opportunities that a strategy takes up may bring; it is written before any result,
so that the result can contradict it. Must not know how a strategy is carried out, nor how an opportunity is priced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Knob, KnobKind, KnobOrigin, Opportunity, OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Baseline, Bottleneck, ModeProfile, Recommendation
from warpsmith.diagnose.architectures import strategies_for
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.places import Place, places, sites
from warpsmith.diagnose.price_rules import SETTINGS_OF_HEADROOM
from warpsmith.diagnose.pricing import Price, opportunities_in, speedup
from warpsmith.diagnose.probes import inert_knobs
from warpsmith.diagnose.rules import told
from warpsmith.diagnose.work import ridge_of

SETTINGS = "settings"
#: What settings take up, all at once.
KNOBS = (OpportunityKind.ONE_PROGRAM_PER_SM, OpportunityKind.STEPPED_WARPS, OpportunityKind.SHORT_ROWS)
#: In the order in which they are tried where nothing was measured.
REWRITES: dict[str, OpportunityKind] = {
    "needless_initialisation": OpportunityKind.NEEDLESS_INITIALISATION,
    "pipelined_loop": OpportunityKind.UNPIPELINED_LOOP,
    "cache_hints": OpportunityKind.STREAM_ONCE,
    "stream_once_stores": OpportunityKind.STORED_ONCE,
    "grouped_ordering": OpportunityKind.UNGROUPED_TILES,
    "loop_invariant_loads": OpportunityKind.LOOP_INVARIANT_LOAD,
    "two_dimensional_tiles": OpportunityKind.ROW_A_PROGRAM,
    "dot_precision": OpportunityKind.WIDENED_DOT,
    "cheap_functions": OpportunityKind.COSTLY_FUNCTION,
}
#: Not worth a variant where its price is 0 at every call: rows that are not short, arithmetic that nothing waits for.
ONLY_WHERE_PRICED = frozenset(
    {OpportunityKind.ROW_A_PROGRAM, OpportunityKind.COSTLY_FUNCTION, OpportunityKind.WIDENED_DOT}
)
#: Tiles decide how often operands are read, and so how well arithmetic units are fed.
FED_BY_TILES = (Bottleneck.COMPUTE_BOUND, Bottleneck.BALANCED)
UNMEASURED = "nothing was run, so no gain is predicted"

#: Microseconds of a call of a pass at a place, at least and at most.
Saved = tuple[float, float]


@dataclass(frozen=True)
class Pass:
    """One pass of the goal. `at` are its timed places by case, none where nothing was run."""

    profile: ModeProfile
    at: dict[str, Place]
    functions: frozenset[str]
    prices: tuple[Price, ...]

    @property
    def name(self) -> str:
        return self.profile.mode.value

    @property
    def open(self) -> bool:
        return self.profile.bottleneck is not Bottleneck.NEAR_PEAK

    def saved_by(self, kinds: Sequence[OpportunityKind], case: str) -> Saved | None:
        """What the opportunities of these kinds may save together, None where the pass has none of them."""
        gains = [g for p in self.prices if p.opportunity.kind in kinds and (g := p.at_case(case)) is not None]
        if not gains:
            return None
        most = self.at[case].headroom_us
        return min(most, math.fsum(g.low_us for g in gains)), min(most, math.fsum(g.high_us for g in gains))


def recommend(
    evidence: Evidence,
    modes: Sequence[ModeProfile],
    goal: Mode,
    baselines: Sequence[Baseline],
    prices: Sequence[Price],
) -> tuple[Recommendation, ...]:
    """Settings first, always; then the rewrites that the audit found a place for: the surest gain first, then the
    largest. Those for the GPU's architecture alone come last, in the same order.

    Nothing is expected of a pass near its peak: opportunities there are left out, and the settings say so.
    """
    passes = goal_passes(evidence, modes, goal, baselines, prices)
    general = {name: (kind,) for name, kind in REWRITES.items()}
    layers = (general, strategies_for(evidence.device.capability))
    rewrites = (r for layer in layers for r in _in_order(layer, evidence, passes))
    return (_settings(evidence, passes), *rewrites)


def _in_order(
    layer: Mapping[str, Sequence[OpportunityKind]], evidence: Evidence, passes: Sequence[Pass]
) -> list[Recommendation]:
    found = [r for name, kinds in layer.items() if (r := _rewrite(name, kinds, evidence, passes)) is not None]
    return sorted(found, key=lambda r: (-r.predicted_low, -r.predicted_high))


def goal_passes(
    evidence: Evidence,
    modes: Sequence[ModeProfile],
    goal: Mode,
    baselines: Sequence[Baseline],
    prices: Sequence[Price],
) -> tuple[Pass, ...]:
    """The passes that the goal is made of."""
    return tuple(
        Pass(
            profile=profile,
            at={p.case.name: p for p in places(profile.mode, evidence, baselines)},
            functions=evidence.functions_of(profile.mode),
            prices=tuple(p for p in prices if p.mode is profile.mode),
        )
        for profile in modes
        if profile.mode in goal.passes
    )


def speedup_at_ceiling(passes: Sequence[Pass]) -> float:
    """Of the goal, if all that its open passes have left to win were won; 1 where nothing was timed."""

    def all_of(each: Pass, case: str) -> Saved:
        return each.at[case].headroom_us, each.at[case].headroom_us

    return _predicted(passes, [each for each in passes if each.open], all_of)[1]


def _settings(evidence: Evidence, passes: Sequence[Pass]) -> Recommendation:
    open_passes = [p for p in passes if p.open]
    knobs = {p.profile.mode: _tunable(evidence, p) for p in open_passes}
    usable = [p for p in open_passes if knobs[p.profile.mode]]
    reasons = [f"{_standing(evidence, p)}; {_knobs_told(evidence, p, knobs[p.profile.mode])}" for p in usable]
    reasons += [_no_knob(evidence, p) for p in open_passes if p not in usable]
    reasons += near_peak_reasons(passes) + ([] if evidence.is_measured else [UNMEASURED])
    low, high = _predicted(passes, usable, lambda p, case: _saved_by_settings(p, case, knobs[p.profile.mode]))
    lines = sorted({knob.line for found in knobs.values() for knob in found})
    return Recommendation(
        strategy=SETTINGS,
        why="; ".join(reasons) or "the goal has no pass that was timed",
        predicted_low=low,
        predicted_high=high,
        lines=tuple(lines),
    )


def _knobs_told(evidence: Evidence, of: Pass, knobs: Sequence[Knob]) -> str:
    """How many knobs are worth a change; by name those of which compiling showed that they change nothing."""
    inert = inert_knobs([probe for probe in evidence.probes if probe.mode is of.profile.mode])
    live = [knob for knob in knobs if knob.id not in inert]
    names = sorted({knob.name for knob in live})
    dead = sorted({knob.name for knob in knobs} - set(names))
    can = f"{len(live)} knob{'s' if len(live) > 1 else ''} can be changed there ({', '.join(names)})" if live else ""
    cannot = f"{' and '.join(dead)} change{'' if len(dead) > 1 else 's'} nothing" if dead else ""
    return ", ".join(part for part in (can, cannot) if part)


def _standing(evidence: Evidence, of: Pass) -> str:
    found = of.profile.bottleneck
    at = sites(of.profile.mode, evidence)
    ridges = [ridge_of(site, evidence) for site in at]
    if not evidence.is_measured and all(ridge is None for ridge in ridges):
        return f"what holds {of.name} back is not known"
    if evidence.is_measured and of.profile.share_of_ceiling is None:
        return f"how near {of.name} comes to its ceiling is not known"
    if of.profile.share_of_ceiling is None:
        return f"{of.name} is predicted to {told(found, 'be', 'have')}"
    return f"{of.name} reaches {of.profile.share_of_ceiling:.0%} of its ceiling and {told(found)}"


def _saved_by_settings(of: Pass, case: str, knobs: Sequence[Knob]) -> Saved:
    """By the opportunities that are settings; without any, by what settings won elsewhere.

    No opportunity tells of the sizes of tiles: where they can be changed and arithmetic decides, it is at most what
    settings won elsewhere.
    """
    found = of.saved_by(KNOBS, case)
    low, high = SETTINGS_OF_HEADROOM[of.profile.bottleneck]
    headroom_us = of.at[case].headroom_us
    if found is None:
        return low * headroom_us, high * headroom_us
    tiles = of.profile.bottleneck in FED_BY_TILES and any(knob.kind is KnobKind.BLOCK_TILING for knob in knobs)
    return found[0], max(found[1], high * headroom_us) if tiles else found[1]


def _no_knob(evidence: Evidence, of: Pass) -> str:
    """That a pass has none, and where a decorator has them, that it does."""
    knobs = (k for k in evidence.audit.knobs if not of.functions or k.jit_function in of.functions)
    tuned = sorted({k.line for k in knobs if k.origin is KnobOrigin.AUTOTUNE})
    lines = f"line{'s' if len(tuned) > 1 else ''} {', '.join(map(str, tuned))}"
    return f"{of.name} has no knob that can be changed" + (f": autotune sets them ({lines})" if tuned else "")


def near_peak_reasons(passes: Sequence[Pass]) -> list[str]:
    """Why passes near their peak are left alone."""
    return [
        f"{p.name} is left alone: it is at {p.profile.share_of_ceiling:.0%} of its ceiling"
        for p in passes
        if not p.open
    ]


def _rewrite(
    name: str, kinds: Sequence[OpportunityKind], evidence: Evidence, passes: Sequence[Pass]
) -> Recommendation | None:
    """The recommendation of one rewrite, None where no open pass has a place for it that pays."""
    spots: dict[Mode, list[Opportunity]] = {
        p.profile.mode: [o for o in opportunities_in(p.profile.mode, evidence) if o.kind in kinds]
        for p in passes
        if p.open
    }
    usable = [p for p in passes if spots.get(p.profile.mode) and not _saves_nothing(p, kinds)]
    if not usable:
        return None
    found = list(dict.fromkeys(o for p in usable for o in spots[p.profile.mode]))
    low, high = _predicted(passes, usable, lambda p, case: p.saved_by(kinds, case) or (0.0, 0.0))
    spotted = "; ".join(f"line {o.line}: {o.what}" for o in found)
    unmeasured = "" if evidence.is_measured else f" {UNMEASURED[0].upper()}{UNMEASURED[1:]}."
    return Recommendation(
        strategy=name,
        why=f"{spotted}. {found[0].why[0].upper()}{found[0].why[1:]}.{unmeasured}",
        predicted_low=low,
        predicted_high=high,
        lines=tuple(sorted({o.line for o in found})),
    )


def _saves_nothing(of: Pass, kinds: Sequence[OpportunityKind]) -> bool:
    """Whether it is tried only where it is priced, and was priced at calls of the pass, at none above 0."""
    saved = [found for case in of.at if (found := of.saved_by(kinds, case)) is not None]
    return ONLY_WHERE_PRICED.issuperset(kinds) and bool(saved) and all(high <= 0 for _, high in saved)


def _tunable(evidence: Evidence, of: Pass) -> list[Knob]:
    unwritten = KnobOrigin.HEURISTICS  # what a heuristics decorator sets has no place in a variant
    knobs = (k for k in evidence.audit.knobs if k.tunable and not k.is_unset_cap and k.origin is not unwritten)
    return [k for k in knobs if not of.functions or k.jit_function in of.functions]


def _predicted(
    passes: Sequence[Pass], usable: Sequence[Pass], saved: Callable[[Pass, str], Saved]
) -> tuple[float, float]:
    """Speed-up of the goal, at least and at most, over the cases at which all its passes were timed."""
    shared = [p for p in passes[0].at.values() if all(p.case.name in each.at for each in passes)] if passes else []
    if not shared:
        return 1.0, 1.0
    names, weights = [place.case.name for place in shared], [place.case.weight for place in shared]
    times = [math.fsum(each.at[name].time_us for each in passes) for name in names]
    low = [math.fsum(saved(each, name)[0] for each in usable) for name in names]
    high = [math.fsum(saved(each, name)[1] for each in usable) for name in names]
    return speedup(times, low, weights), speedup(times, high, weights)
