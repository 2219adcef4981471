"""The correctness gate: a candidate against float64 and against the original, case by case, with the reasons why not.

A candidate may err as much as the original does, within a multiple and a floor. Owns the order of the checks, of which
the first that fails ends a case. Must not time anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from warpsmith.contracts.case import Case
from warpsmith.contracts.measurement import CaseCheck, CheckFailure
from warpsmith.contracts.target import Target
from warpsmith.measure.correctness import first_run, layouts, repeats, support
from warpsmith.measure.correctness.bout import Bout, Check, Observed, observe
from warpsmith.measure.correctness.bystanders import bystanders
from warpsmith.measure.correctness.extremes import extremes
from warpsmith.measure.correctness.kernels_needed import kernels_needed
from warpsmith.measure.correctness.library_calls import library_calls
from warpsmith.measure.correctness.own_kernels import own_kernels
from warpsmith.measure.correctness.shapes import shapes
from warpsmith.measure.correctness.streams import streams
from warpsmith.measure.correctness.surroundings import Surroundings
from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.correctness.without_gradients import without_gradients
from warpsmith.measure.worker.failures import classify, is_sticky
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.protocol import WorkerError

#: Every check by its name, in order.
CHECKS: dict[str, Check] = {
    "inputs": first_run.inputs,
    "guards": first_run.guards,
    "form": first_run.form,
    "sharing": first_run.sharing,
    "values": first_run.values,
    "own kernels": own_kernels,
    "library calls": library_calls,
    "bystanders": bystanders,
    "streams": streams,
    "repeats": repeats.again,
    "backward again": repeats.backward_again,
    "other values": repeats.other_values,
    "kernels needed": kernels_needed,
    "layouts": layouts.layouts,
    "gradient layouts": layouts.gradient_layouts,
    "no gradients": without_gradients,
    "extremes": extremes,
    "shapes": shapes,
    "autocast": support.autocast,
    "compile": support.compiles,
}


def check(
    candidate: Implementation,
    original: Implementation,
    target: Target,
    cases: Sequence[Case],
    *,
    device: torch.device,
    seed: int,
    surroundings: Surroundings | None = None,
) -> tuple[CaseCheck, ...]:
    """The candidate through the gate at every case, in order. `surroundings` are as they were before it was loaded.

    A candidate that raises has failed that case. Raises WorkerError (bad_target) where the original itself raises or
    the reference is unfit, and whatever leaves the process unfit to go on: a broken CUDA context, exhausted memory.
    """
    around = surroundings or Surroundings.taken()
    trials = (Trial.of(target, case, device=device, seed=seed) for case in cases)
    return tuple(_check_case(candidate, original, trial, around) for trial in trials)


def _check_case(candidate: Implementation, original: Implementation, trial: Trial, around: Surroundings) -> CaseCheck:
    with around.excusing():
        known = _observed_original(original, trial)
    reference = trial.reference()
    _require_same_form(trial, reference, known.results)
    bout, running = None, "call"
    failures: list[CheckFailure] = []
    try:
        found = observe(candidate, trial, known)
        bout = Bout(candidate, original, trial, known, reference, found, around)
        for name, made in CHECKS.items():
            running = name
            failures += made(bout)
            if failures:
                break
        else:  # the checks after it call the candidate too
            running = "bystanders"
            failures += CHECKS[running](bout) if running in CHECKS else ()
    except (WorkerError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # the candidate's code may fail in any way
        if is_sticky(error):
            raise
        classified = classify(error)
        failures.append(CheckFailure(check=running, message=f"{classified.status}: {classified.message}"))
        error.__traceback__ = None  # it holds the failed call's tensors
    return CaseCheck(
        case=trial.case,
        errors=tuple(bout.errors) if bout else (),
        failures=tuple(failures),
        skipped=bout.skipped if bout else {},
    )


def _observed_original(implementation: Implementation, trial: Trial) -> Observed:
    """Raises WorkerError (bad_target) where the original cannot be run, or writes what it does not declare."""
    try:
        known = observe(implementation, trial)
    except WorkerError as error:
        raise trial.bad_target(error.failure.message) from error
    except Exception as error:  # the user's code may fail in any way
        if is_sticky(error) or isinstance(error, torch.OutOfMemoryError):
            raise
        raise trial.bad_target(f"the original itself fails: {classify(error).message}") from error
    if undeclared := sorted(set(known.changed) & set(trial.inputs) - set(trial.target.overwrites)):
        raise trial.bad_target(f"the original changes {', '.join(undeclared)}, which `overwrites` does not name")
    if not any(part is not None for part in known.results.values()):
        raise trial.bad_target("the original returned no tensor; expected a tensor or a tuple of tensors")
    return known


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
