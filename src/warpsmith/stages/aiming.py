"""What a run is after against what there is: whether an aim fits the target, and whether the original reaches it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from warpsmith.contracts.aim import DTYPE, Condition, Objective, Quantity, hold, told_conditions
from warpsmith.contracts.case import Case, Role
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.verdict import TargetResult
from warpsmith.search.bench import Bench
from warpsmith.stages.rules import Rules
from warpsmith.verdict.targets import spoken_of, target_result


def expect_aim_fits(request: Request, spec: TargetSpec) -> None:
    """Raises UsageError for an axis, a case or a mode that the target lacks, where nothing is left to count, and where
    one thing that is asked for contradicts another.
    """
    if request.objective is Objective.MEMORY and request.target_speedup is not None:
        told = "--target-speedup is of time, and --objective memory weighs none"
        words = ["warpsmith", "run", request.kernel, "--objective", "memory"]
        again = shlex.join([*words, "--target-metric", "peak memory < 100 MiB"])
        raise UsageError(told, next_command=f"{again}   (for example)")
    conditions = [("--regime", each) for each in request.regime]
    conditions += [("--weight", each) for weight in request.weights for each in weight.where]
    conditions += [("--target-metric", each) for each in (request.target_metric.where if request.target_metric else ())]
    for option, condition in conditions:
        _expect_axis(request, spec, option, condition)
    counted = request.aim.goal_weights(spec.cases)
    if not counted:
        told = told_conditions(request.regime)
        raise _refused(request, spec, f"no tuning case of {spec.name} meets {told}; they have {_values(spec)}")
    for weight in request.weights:
        if not any(weight.is_of(case) for case in spec.cases if case.name in counted):
            names = ", ".join(counted)
            raise _refused(request, spec, f"--weight {weight}: none of the cases that count is meant; they are {names}")
    if request.target_metric is not None:
        _expect_target(request, spec, counted)


def original_target(profile: Profile, rules: Rules, cases: Sequence[Case]) -> TargetResult | None:
    """Whether the original meets the target as it is; None where there is no target."""
    target = rules.target
    if target is None:
        return None
    rows = [row for row in profile.baselines if row.provider == ORIGINAL]
    if target.quantity is Quantity.TIME:
        found = {(r.case, r.mode): r.time_ms.value for r in rows if r.time_ms is not None}
    elif target.quantity is Quantity.PEAK_MEMORY:
        found = {(r.case, r.mode): float(r.peak_bytes) for r in rows if r.peak_bytes is not None}
    else:
        found = {(r.case, r.mode): 1.0 for r in rows}
    weights = rules.weights or {case.name: case.weight for case in cases if case.role is Role.TUNING}
    return target_result(target, cases, weights, rules.goal, found)


def bench_in_regime(bench: Bench, request: Request) -> Bench:
    """A bench on which what does not count is held out: nothing is searched there."""
    return _bench_of(bench, request.aim.in_regime(bench.spec.cases))


def bench_aimed(bench: Bench, request: Request) -> Bench:
    """Likewise, and the cases have the weights that were asked for."""
    return _bench_of(bench, request.aim.applied(bench.spec.cases))


def _bench_of(bench: Bench, cases: tuple[Case, ...]) -> Bench:
    return bench if cases == bench.spec.cases else bench.of_cases(cases)


def _expect_axis(request: Request, spec: TargetSpec, option: str, condition: Condition) -> None:
    axes = dict.fromkeys(axis for case in spec.cases for axis in case.axes)
    if condition.axis not in (*axes, DTYPE):
        known = ", ".join((*axes, DTYPE))
        raise _refused(
            request, spec, f"{option} {condition}: {condition.axis} is no axis of {spec.name}; known: {known}"
        )


def _expect_target(request: Request, spec: TargetSpec, counted: dict[str, float]) -> None:
    target = request.target_metric
    assert target is not None
    if target.mode is not None and target.mode not in spec.modes:
        modes = ", ".join(mode.value for mode in spec.modes)
        raise _refused(request, spec, f"--target-metric {target}: {spec.name} has no such mode; known: {modes}")
    if target.mode is not None and target.mode not in (request.goal, *request.goal.passes):
        told = f"--target-metric {target}: the goal is {request.goal.value}, of which {target.mode.value} is no part"
        again = shlex.join(["warpsmith", "run", request.kernel, "--goal", target.mode.value])
        raise UsageError(told, next_command=f"{again} --target-metric {shlex.quote(str(target))}")
    asked = spoken_of(target, spec.cases, counted)
    if not asked:
        told = f"no case of {spec.name} meets {told_conditions(target.where)}; they have {_values(spec)}"
        raise _refused(request, spec, f"--target-metric {target}: {told}")
    if target.quantity is Quantity.PEAK_MEMORY and any(case.role is Role.HELD_OUT for case in asked):
        met = [case.name for case in spec.cases if hold(target.where, case)]
        told = f"peak memory is weighed at tuning cases only, and {', '.join(met)} only judge"
        raise _refused(request, spec, f"--target-metric {target}: {told}")


def _refused(request: Request, spec: TargetSpec, told: str) -> UsageError:
    axis = next(iter(spec.cases[0].axes))
    widest = max(case.axes[axis] for case in spec.tuning_cases if axis in case.axes)
    words = shlex.join(["warpsmith", "run", request.kernel, "--regime", f"{axis}<={widest}"])
    return UsageError(told, next_command=f"{words}   (for example)")


def _values(spec: TargetSpec) -> str:
    """The values of each axis at the tuning cases."""
    axes = dict.fromkeys(axis for case in spec.tuning_cases for axis in case.axes)
    sizes = [f"{axis} {_listed(c.axes[axis] for c in spec.tuning_cases if axis in c.axes)}" for axis in axes]
    dtypes = ", ".join(dict.fromkeys(case.dtype.short for case in spec.tuning_cases))
    return "; ".join([*sizes, f"{DTYPE} {dtypes}"])


def _listed(values: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(values))))
