"""Owns whether a target metric is met, and by which figure. Pure.

A time or a peak is that of the worst case it speaks of; a speed-up is the weighted geometric mean over them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsmith.contracts.aim import Quantity, TargetMetric, hold
from warpsmith.contracts.case import Case, Mode, Role
from warpsmith.contracts.verdict import TargetResult
from warpsmith.verdict.statistics import geometric_mean


def spoken_of(target: TargetMetric, cases: Sequence[Case], weights: Mapping[str, float]) -> tuple[Case, ...]:
    """The cases that a target speaks of: with no condition those that count for the goal, else those that meet it, the
    tuning cases among them where there are any."""
    if not target.where:
        return tuple(case for case in cases if case.name in weights)
    met = [case for case in cases if hold(target.where, case)]
    return tuple([case for case in met if case.role is Role.TUNING] or met)


def target_result(
    target: TargetMetric,
    cases: Sequence[Case],
    weights: Mapping[str, float],
    goal_mode: Mode,
    found: Mapping[tuple[str, Mode], float],
) -> TargetResult:
    """`found` is (case, mode) -> the figure of the target's quantity: ms, bytes or a speed-up."""
    mode, asked = target.mode or goal_mode, spoken_of(target, cases, weights)
    missing = [case.name for case in asked if (case.name, mode) not in found]
    if not asked or missing:
        where = f"at {', '.join(missing)}" if missing else "at no case that it speaks of"
        return TargetResult(target=target, met=False, reason=f"{mode.value} was not measured {where}")
    figures = {case.name: found[case.name, mode] for case in asked}
    if target.quantity is Quantity.SPEEDUP:
        of = [weights.get(case.name, case.weight) for case in asked]
        value, worst = geometric_mean(list(figures.values()), of), None
    else:
        worst = max(figures, key=lambda name: figures[name])
        value = figures[worst]
    return TargetResult(target=target, met=target.is_met_by(value), measured=value, case=worst)
