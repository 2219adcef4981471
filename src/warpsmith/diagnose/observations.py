"""Owns what stands out in a profile, in plain sentences: where the time is, where headroom is, where scaling bends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Baseline, Bottleneck, ModeProfile
from warpsmith.contracts.target import TargetSpec
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.places import places
from warpsmith.verdict.statistics import geometric_mean

#: Chosen: a share of the ceiling that falls by more than this between neighbours is a bend.
BEND = 0.10
#: Chosen: a provider must be this much faster than the original to be worth a sentence.
FASTER = 1.02


def observations(evidence: Evidence, modes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> tuple[str, ...]:
    """Sentences, the most telling first."""
    passes = [m for m in modes if m.mode is not Mode.FULL] or list(modes)
    return (
        *_slowest(evidence, passes, baselines),
        *_most_headroom(evidence, passes, baselines),
        *_near_peak(passes),
        *_bends(evidence.spec, passes, baselines),
        *_faster_providers(evidence.spec, passes, baselines),
    )


def _slowest(evidence: Evidence, passes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    if len(passes) < 2:
        return
    totals = {m.mode: math.fsum(p.case.weight * p.time_ms for p in places(m.mode, evidence, baselines)) for m in passes}
    slowest = max(totals, key=lambda mode: totals[mode])
    part = totals[slowest] / math.fsum(totals.values())
    yield f"{slowest.value} is the slowest pass: {part:.0%} of the device time over the tuning cases"


def _most_headroom(evidence: Evidence, passes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    at = [(m.mode, p) for m in passes for p in places(m.mode, evidence, baselines)]
    if not at:
        return
    mode, place = max(at, key=lambda pair: pair[1].headroom_us)
    if place.headroom_us > 0:
        yield (
            f"most headroom: {mode.value} at {place.case.name} takes {place.time_ms * 1e3:.1f} us, "
            f"{place.headroom_us:.1f} us more than at its ceiling ({place.share:.0%} of it)"
        )


def _near_peak(passes: Sequence[ModeProfile]) -> Iterator[str]:
    for profile in passes:
        if profile.bottleneck is Bottleneck.NEAR_PEAK:
            share = f"{profile.share_of_ceiling:.0%}"
            yield f"{profile.mode.value} is near its peak, {share} of the ceiling: no strategy is recommended for it"


def _bends(spec: TargetSpec, passes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    for profile in passes:
        shares = {
            b.case: b.share_of_ceiling
            for b in baselines
            if b.provider == ORIGINAL and b.mode is profile.mode and b.share_of_ceiling is not None
        }
        for curve in _curves(spec, profile.mode, shares):
            for left, right in pairwise(curve):
                if shares[left.name] - shares[right.name] > BEND:
                    yield (
                        f"{profile.mode.value} bends along {spec.plot_axis} between {left.name} and {right.name}: "
                        f"{shares[left.name]:.0%} to {shares[right.name]:.0%} of the ceiling"
                    )


def _curves(spec: TargetSpec, mode: Mode, shares: dict[str, float]) -> list[list[Case]]:
    """Cases along the plot axis, a curve for each dtype and options; at each size the case that moves most bytes."""
    by_kind: dict[tuple[object, ...], dict[int, Case]] = {}
    for case in spec.cases:
        if case.name not in shares or spec.plot_axis not in case.axes:
            continue
        curve = by_kind.setdefault((case.dtype, *sorted(case.options.items())), {})
        size = case.axes[spec.plot_axis]
        known = curve.get(size)
        if known is None or _bytes(spec, case, mode) > _bytes(spec, known, mode):
            curve[size] = case
    return [[curve[size] for size in sorted(curve)] for curve in by_kind.values()]


def _bytes(spec: TargetSpec, case: Case, mode: Mode) -> int:
    return spec.costs[case.name][mode].bytes_moved


def _faster_providers(spec: TargetSpec, passes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    """Each mode's fastest provider over the tuning cases, where it beats the original at the same cases."""
    tuning = {case.name for case in spec.tuning_cases}
    for profile in passes:
        times = {
            (b.provider, b.case): b.time_ms.value
            for b in baselines
            if b.mode is profile.mode and b.time_ms is not None and b.case in tuning
        }
        gains = {p: g for p in spec.providers if (g := _gain(times, p)) is not None}
        if gains and (best := max(gains, key=lambda p: gains[p])) and gains[best] > FASTER:
            yield f"{best} is {gains[best]:.2f}× as fast as the original in {profile.mode.value} over the tuning cases"


def _gain(times: dict[tuple[str, str], float], provider: str) -> float | None:
    """Geometric mean of original over provider, None unless the provider ran wherever the original did."""
    cases = [case for name, case in times if name == ORIGINAL]
    if not cases or any((provider, case) not in times for case in cases):
        return None
    return geometric_mean([times[ORIGINAL, case] / times[provider, case] for case in cases])
