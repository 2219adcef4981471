"""The correctness gate: a candidate against float64 and against the original, case by case, with the reasons why not.

A candidate may err as much as the original does, within a multiple and a floor. It runs several times: on inputs that
must be left alone, with unwritten memory poisoned, again on the same values, on other values at the same addresses,
and from a CUDA graph. Owns the order of these checks. Must not time anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from warpsmith.contracts.case import Case
from warpsmith.contracts.measurement import CaseCheck, OutputError
from warpsmith.contracts.target import Target
from warpsmith.measure.correctness.errors import compared, figures, inaccuracy, not_finite
from warpsmith.measure.correctness.form import differences, gradient_form, output_form
from warpsmith.measure.correctness.poison import poisoned_memory
from warpsmith.measure.correctness.repeats import Observed, again, other_values
from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.worker.failures import classify, is_sticky
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import as_outputs
from warpsmith.measure.worker.protocol import WorkerError


@dataclass(frozen=True)
class _Sides:
    candidate: Implementation
    original: Implementation


def check(
    candidate: Implementation,
    original: Implementation,
    target: Target,
    cases: Sequence[Case],
    *,
    device: torch.device,
    seed: int,
) -> tuple[CaseCheck, ...]:
    """The candidate through the gate at every case, in order.

    A candidate that raises has failed that case. Raises WorkerError (bad_target) where the original itself raises or
    the reference is unfit, and whatever leaves the process unfit to go on: a broken CUDA context, exhausted memory.
    """
    sides = _Sides(candidate, original)
    return tuple(_check_case(sides, target, case, device=device, seed=seed) for case in cases)


def _check_case(sides: _Sides, target: Target, case: Case, *, device: torch.device, seed: int) -> CaseCheck:
    trial = Trial.of(target, case, device=device, seed=seed)
    original = _original(sides.original, trial)
    reference = trial.reference()
    _require_same_form(trial, reference, original.results)
    errors: list[OutputError] = []
    failures: list[str] = []
    try:
        for failure in _failures(sides, trial, original, reference, errors):
            failures.append(failure)
    except (WorkerError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # the candidate's code may fail in any way
        if is_sticky(error):
            raise
        classified = classify(error)
        failures.append(f"{classified.status}: {classified.message}")
        error.__traceback__ = None  # it holds the failed call's tensors
    return CaseCheck(case=case, errors=tuple(errors), failures=tuple(failures))


def _failures(
    sides: _Sides, trial: Trial, original: Observed, reference: Results, errors: list[OutputError]
) -> Iterator[str]:
    """Every reason against the candidate at this case. What cannot be compared ends the list."""
    with poisoned_memory():
        outputs = trial.forward(sides.candidate)
    if wrong := [*differences(output_form(outputs), original.outputs), *_changes(trial, original)]:
        yield from wrong
        return
    with poisoned_memory():
        found = trial.backward(sides.candidate, outputs)
    del outputs  # and with them the graph of autograd, which would bind a capture to this stream
    yield from _changes(trial, original)
    for part, name in sorted(_shared(trial, found) - original.shared):
        if name not in trial.target.overwrites:
            yield f"{part}: shares its memory with the input {name}, the original's does not"
    if wrong := differences(gradient_form(found), original.gradients):
        yield from wrong
        return
    wrong = list(_values(trial, found, original.results, reference, errors))
    yield from wrong
    if wrong:
        return
    yield from again(sides.candidate, sides.original, trial, found, original, errors)
    del found
    yield from other_values(sides.candidate, sides.original, trial, errors)


def _original(implementation: Implementation, trial: Trial) -> Observed:
    """What the original does, with unwritten memory poisoned as for the candidate."""
    try:
        with poisoned_memory():
            outputs = trial.forward(implementation)
            results = trial.backward(implementation, outputs)
        as_outputs(outputs)
    except WorkerError as error:
        raise trial.bad_target(error.failure.message) from error
    except Exception as error:  # the user's code may fail in any way
        if is_sticky(error) or isinstance(error, torch.OutOfMemoryError):
            raise
        raise trial.bad_target(f"the original itself fails: {classify(error).message}") from error
    changed = frozenset(trial.changes())
    if undeclared := sorted(changed & set(trial.inputs) - set(trial.target.overwrites)):
        raise trial.bad_target(f"the original changes {', '.join(undeclared)}, which `overwrites` does not name")
    return Observed(
        outputs=output_form(outputs),
        gradients=gradient_form(results),
        results=results,
        changed=changed,
        shared=frozenset(_shared(trial, results)),
    )


def _changes(trial: Trial, original: Observed) -> list[str]:
    """Inputs and output gradients that were written, unless the target declares it or the original does as much."""
    permitted = frozenset(trial.target.overwrites) | original.changed
    return [
        f"changes {name}{', which the target does not declare in `overwrites`' * (name in trial.inputs)}: {where}"
        for name, where in trial.changes().items()
        if name not in permitted
    ]


def _shared(trial: Trial, results: Results) -> set[tuple[str, str]]:
    """(result, input) that lie in one storage."""
    owners = {name: trial.memory.owner(part) for name, part in results.items() if isinstance(part, Tensor)}
    return {(name, owner) for name, owner in owners.items() if owner is not None}


def _values(
    trial: Trial, found: Results, original: Results, reference: Results, errors: list[OutputError]
) -> Iterator[str]:
    """Errors against float64, of every output and gradient that the original has."""
    for name, theirs in original.items():
        ours, wanted = found[name], reference[name]
        if theirs is None or ours is None or wanted is None or wanted.numel() == 0:
            continue
        if (wrong := not_finite(name, ours, theirs, wanted)) is not None:
            yield wrong
        own = figures(ours, wanted)
        error = compared(name, own, figures(theirs, wanted), wanted, ours.dtype)
        errors.append(error)
        if (wrong := inaccuracy(error, own.worst, ours, wanted)) is not None:
            yield wrong
    if not errors and all(size > 0 for size in trial.case.axes.values()):
        yield "no element was compared, though the case is not empty"


def _require_same_form(trial: Trial, reference: Results, original: Results) -> None:
    """The reference gives what the original gives. Raises WorkerError (bad_target)."""
    for name, part in original.items():
        if part is None:
            continue
        wanted = reference.get(name)
        if wanted is None:
            raise trial.bad_target(f"the reference gives no {name}, the original does")
        if wanted.shape != part.shape:
            raise trial.bad_target(
                f"the reference's {name} has shape {tuple(wanted.shape)}, the original's {tuple(part.shape)}"
            )
