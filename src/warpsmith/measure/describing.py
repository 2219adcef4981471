"""The answer to `describe`: a target as data, and why one cannot be used. Asks no GPU."""

from __future__ import annotations

import hashlib
from pathlib import Path

from warpsmith.contracts.case import Case, Cost, Mode, Role
from warpsmith.contracts.target import Target, TargetSpec
from warpsmith.measure.worker.loading import load_target
from warpsmith.measure.worker.protocol import Describe, WorkerError, WorkerFailure


def describe(question: Describe) -> TargetSpec:
    """The target as data. Raises WorkerError (bad_target) where it cannot be used."""
    target = load_target(question.target.path)
    if Path(target.source).is_absolute() or ".." in Path(target.source).parts:
        raise _bad_target(f"source must be a path below the repository's root, found {target.source!r}")
    source = Path(question.target.root) / target.source
    if not source.is_file():
        raise _bad_target(f"{question.target.path} names the source {target.source}, which is not there")
    names = [case.name for case in target.cases]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise _bad_target(f"{question.target.path} has several cases named {', '.join(repeated)}")
    if lacking := [case.name for case in target.cases if target.plot_axis not in case.axes]:
        raise _bad_target(f"plot_axis {target.plot_axis!r} of {question.target.path} is no axis of {lacking[0]}")
    costs = {case.name: {mode: _cost(target, case, mode) for mode in target.modes} for case in target.cases}
    available, missing = _providers(target)
    return TargetSpec(
        name=target.name,
        source=target.source,
        module=target.module,
        target_file=Path(question.target.path).resolve().relative_to(Path(question.target.root).resolve()).as_posix(),
        source_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        cases=target.cases,
        modes=target.modes,
        differentiable=target.differentiable,
        overwrites=target.overwrites,
        costs=costs,
        providers=available,
        missing_providers=missing,
        tests=target.tests,
        plot_axis=target.plot_axis,
    )


def _cost(target: Target, case: Case, mode: Mode) -> Cost:
    try:
        cost = target.cost(case, mode)
    except Exception as error:  # the user's function may fail in any way
        raise _bad_target(
            f"cost fails for case {case.name}, mode {mode.value}: {type(error).__name__}: {error}; mode full is "
            "forward and backward together, and a mode that is not there is left out of `modes`"
        ) from error
    if case.role is Role.TUNING and not cost.bytes_moved and not cost.flops:
        raise _bad_target(
            f"cost says that case {case.name}, mode {mode.value}, moves 0 bytes and does 0 operations; expected the "
            "least that must cross device memory, and the operations, as a tuning case is held against the time that "
            "these take"
        )
    return cost


def _providers(target: Target) -> tuple[tuple[str, ...], dict[str, str]]:
    """Providers whose dependencies are here, and why the others are not."""
    missing: dict[str, str] = {}
    for name, factory in target.providers.items():
        try:
            factory()
        except ImportError as error:
            missing[name] = str(error)
    return tuple(name for name in target.providers if name not in missing), missing


def _bad_target(message: str) -> WorkerError:
    return WorkerError(WorkerFailure(status="bad_target", message=message))
