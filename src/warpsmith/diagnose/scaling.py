"""Owns how a mode scales: its share of the ceiling along the plot axis, where that bends, and the largest size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Baseline, ModeProfile
from warpsmith.contracts.target import TargetSpec

#: Chosen: a share of the ceiling that changes by more than this between neighbours is a bend.
BEND = 0.10
#: Chosen: neighbours whose bytes differ by more than this factor differ by their size, not by the axis.
ALIKE = 8


def bends(spec: TargetSpec, passes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    """Where a pass falls off most along the axis, and where it comes up to speed most."""
    for profile in passes:
        shares = _shares(profile.mode, baselines)
        steps = [
            (shares[right.name] - shares[left.name], left.name, right.name)
            for curve in _curves(spec, profile.mode, shares)
            for left, right in pairwise(curve)
            if _alike(_bytes(spec, left, profile.mode), _bytes(spec, right, profile.mode))
        ]
        for turn, (change, left, right) in (("bends", min(steps)), ("rises", max(steps))) if steps else ():
            if (change < -BEND) if turn == "bends" else (change > BEND):
                yield (
                    f"{profile.mode.value} {turn} along {spec.plot_axis} between {left} and {right}: "
                    f"{shares[left]:.0%} to {shares[right]:.0%} of the ceiling"
                )


def _alike(one: int, other: int) -> bool:
    return max(one, other) <= ALIKE * max(1, min(one, other))


def largest_size(spec: TargetSpec, passes: Sequence[ModeProfile], baselines: Sequence[Baseline]) -> Iterator[str]:
    """What happens at the widest tuning case, against the best of the others."""
    tuning = {case.name: case for case in spec.tuning_cases}
    for profile in passes:
        shares = {name: s for name, s in _shares(profile.mode, baselines).items() if name in tuning}
        on_axis = [tuning[name] for name in shares if spec.plot_axis in tuning[name].axes]
        if len({case.axes[spec.plot_axis] for case in on_axis}) < 2:
            continue
        widest = max(on_axis, key=lambda c: (c.axes[spec.plot_axis], _bytes(spec, c, profile.mode)))
        best = max((c for c in on_axis if c is not widest), key=lambda c: shares[c.name])
        rest = f"the best of the others is {shares[best.name]:.0%}, at {best.name}"
        yield f"{profile.mode.value} at the largest {spec.plot_axis}, {widest.name}: {shares[widest.name]:.0%}; {rest}"


def _shares(mode: Mode, baselines: Sequence[Baseline]) -> dict[str, float]:
    """Case -> the original's share of the ceiling."""
    return {
        b.case: b.share_of_ceiling
        for b in baselines
        if b.provider == ORIGINAL and b.mode is mode and b.share_of_ceiling is not None
    }


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
