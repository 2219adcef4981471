"""The answer to `describe`: a target as data, and why one cannot be used. Asks no GPU."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path

from pydantic import ValidationError

from warpsmith.contracts.case import Case, Cost, Mode, Role
from warpsmith.contracts.target import Target, TargetSpec
from warpsmith.device.peaks import PEAKS
from warpsmith.measure.worker.loading import load_target
from warpsmith.measure.worker.protocol import Describe, WorkerError, WorkerFailure

#: Chosen: at the peaks of the fastest GPU known, no call of a kernel takes an hour; a cost that says so has a slip.
_LONGEST_CALL_S = 3600
_EXPECTED_COST = "Cost(bytes_moved=..., flops=...), whole numbers from 0 on"
_MOST_BYTES = int(_LONGEST_CALL_S * max(peaks.memory_gb_s for peaks in PEAKS.values()) * 1e9)
_MOST_FLOPS = int(
    _LONGEST_CALL_S * max(tflops for peaks in PEAKS.values() for tflops in peaks.matmul_tflops.values()) * 1e12
)


def describe(question: Describe) -> TargetSpec:
    """The target as data. Raises WorkerError (bad_target) where it cannot be used."""
    target = load_target(question.target.path)
    if Path(target.source).is_absolute() or ".." in Path(target.source).parts:
        raise _bad_target(f"source must be a path below the repository's root, found {target.source!r}")
    source = Path(question.target.root) / target.source
    if not source.is_file():
        raise _bad_target(f"{question.target.path} names the source {target.source}, which is not there")
    _refuse_without_cases(target, question.target.path)
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


def _refuse_without_cases(target: Target, path: str) -> None:
    """Raises WorkerError where there is no case to search on, or no pass to time."""
    if not target.cases:
        raise _bad_target(
            f"cases is empty in {path}; expected at least one tuning case, such as Case(axes=..., dtype=...)"
        )
    if all(case.role is not Role.TUNING for case in target.cases):
        raise _bad_target(f"all cases of {path} are held out; expected at least one tuning case, which is searched on")
    if not any(mode is not Mode.FULL for mode in target.modes):
        found = ", ".join(mode.value for mode in target.modes) or "none"
        raise _bad_target(f"modes of {path} names no pass: found {found}; expected forward, backward or both")


def _cost(target: Target, case: Case, mode: Mode) -> Cost:
    where = f"case {case.name}, mode {mode.value}"
    try:
        cost = target.cost(case, mode)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        told = "; ".join(f"{'.'.join(map(str, each['loc']))} {each['input']!r:.80}: {each['msg']}" for each in problems)
        raise _bad_target(f"cost fails for {where}: {told}; expected {_EXPECTED_COST}") from error
    except (Exception, SystemExit) as error:  # the user's function may fail in any way
        raise _bad_target(
            f"cost fails for {where}: {type(error).__name__}: {error}; mode full is forward and backward together, and "
            "a mode that is not there is left out of `modes`"
        ) from error
    if not isinstance(cost, Cost):
        raise _bad_target(f"cost returned {type(cost).__name__} for {where}; expected {_EXPECTED_COST}")
    if cost.bytes_moved > _MOST_BYTES or cost.flops > _MOST_FLOPS:
        raise _bad_target(
            f"cost says that {where}, moves {Decimal(cost.bytes_moved):.3g} bytes and does {Decimal(cost.flops):.3g} "
            "operations: more than an hour of the fastest GPU known; expected those of one call"
        )
    if case.role is Role.TUNING and not cost.bytes_moved and not cost.flops:
        raise _bad_target(
            f"cost says that {where}, moves 0 bytes and does 0 operations; expected the "
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
