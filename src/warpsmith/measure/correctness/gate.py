"""The correctness gate: a candidate against float64 and against the original, at every case, or the reasons why not.

A candidate may err as much as the original does, within a multiple and a floor from the dtype. It runs with all
uninitialised memory filled with NaN, twice, and must leave its inputs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import CaseCheck, OutputError
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.correctness.errors import allowed, error_of, worst
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputSet, as_outputs, make_one


@dataclass(frozen=True)
class Result:
    """Outputs and gradients by name ("output 0", "gradient of x"), and whether the inputs were left as they were."""

    values: dict[str, Tensor]
    changed_inputs: tuple[str, ...] = ()
    aliased: tuple[str, ...] = ()


def check(
    candidate: Implementation,
    original: Implementation,
    target: Target,
    cases: Sequence[Case],
    *,
    device: torch.device,
    seed: int,
) -> tuple[CaseCheck, ...]:
    """One CaseCheck a case. Raises whatever an implementation raises: a call that fails is no result."""
    return tuple(
        _check_case(candidate, original, target, case, device=device, seed=seed + 104729 * index)
        for index, case in enumerate(cases)
    )


def _check_case(
    candidate: Implementation, original: Implementation, target: Target, case: Case, *, device: torch.device, seed: int
) -> CaseCheck:
    mode = Mode.FULL if Mode.BACKWARD in target.modes else Mode.FORWARD
    given = make_one(target, case, mode, seed=seed, device=device)
    reference = _reference(target, given)
    theirs = _run(original, given, target)
    ours = _run(candidate, given, target)
    failures = [*_form_failures(ours, theirs), *_side_effects(ours)]
    errors: list[OutputError] = []
    if not failures:
        for name, wanted in reference.items():
            error = error_of(name, ours.values[name], theirs.values[name], wanted)
            errors.append(error)
            failures += _error_failures(error, ours.values[name], wanted, theirs.values[name])
        failures += _not_repeatable(candidate, original, given, target, ours, theirs)
    return CaseCheck(case=case, errors=tuple(errors), failures=tuple(failures))


def _reference(target: Target, given: InputSet) -> dict[str, Tensor]:
    """Outputs and gradients in float64, on upcast inputs."""
    upcast: Inputs = {
        name: value.detach().double() if isinstance(value, Tensor) and value.is_floating_point() else value
        for name, value in given.inputs.items()
    }
    differentiated = [name for name in target.differentiable if isinstance(upcast.get(name), Tensor)]
    for name in differentiated:
        upcast[name].requires_grad_()
    outputs = as_outputs(target.reference(upcast))
    gradients = [gradient.double() for gradient in given.output_gradients]
    return _named(outputs, differentiated, [upcast[name] for name in differentiated], gradients)


def _run(implementation: Implementation, given: InputSet, target: Target) -> Result:
    """One call, forward and backward, with fresh memory poisoned and the inputs compared before and after."""
    implementation.activate()
    tensors = {name: value for name, value in given.inputs.items() if isinstance(value, Tensor)}
    before = {name: value.detach().clone() for name, value in tensors.items()}
    differentiated = [name for name in target.differentiable if name in tensors]
    with _poisoned_memory():
        outputs = as_outputs(implementation.call(given.inputs))
        values = _named(
            outputs, differentiated, [tensors[name] for name in differentiated], list(given.output_gradients)
        )
    changed = tuple(
        name
        for name, value in tensors.items()
        if name not in target.overwrites and not _equal(value.detach(), before[name])
    )
    aliased = tuple(
        name
        for name, value in tensors.items()
        if name not in target.overwrites and any(_share_storage(value, out) for out in outputs)
    )
    return Result(values, changed, aliased)


def _named(
    outputs: Sequence[Tensor], names: Sequence[str], inputs: Sequence[Tensor], output_gradients: Sequence[Tensor]
) -> dict[str, Tensor]:
    values = {f"output {index}": out.detach() for index, out in enumerate(outputs)}
    differentiable = [out for out in outputs if out.requires_grad]
    if output_gradients and differentiable:
        gradients = torch.autograd.grad(differentiable, inputs, output_gradients, allow_unused=True)
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is not None:
                values[f"gradient of {name}"] = gradient
    return values


@contextmanager
def _poisoned_memory() -> Iterator[None]:
    """torch.empty gives NaN (or the largest integer), so that an element nobody wrote cannot pass by luck."""
    strict, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    settings: Any = torch.utils.deterministic
    fill = settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    settings.fill_uninitialized_memory = True
    try:
        yield
    finally:
        settings.fill_uninitialized_memory = fill
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)


def _form_failures(ours: Result, theirs: Result) -> list[str]:
    """Differences in what was returned, before any number is compared."""
    if set(ours.values) != set(theirs.values):
        return [f"returns {sorted(ours.values)}, the original {sorted(theirs.values)}"]
    failures: list[str] = []
    for name, wanted in theirs.values.items():
        found = ours.values[name]
        if type(found) is not type(wanted):
            failures.append(f"{name} is a {type(found).__name__}, the original's a {type(wanted).__name__}")
        for what in ("shape", "dtype", "device"):
            if getattr(found, what) != getattr(wanted, what):
                told = f"{getattr(found, what)}, the original's {getattr(wanted, what)}"
                failures.append(f"{name}: {what} is {told}")
        if not failures and found.stride() != wanted.stride():
            failures.append(f"{name}: strides are {found.stride()}, the original's {wanted.stride()}")
    return failures


def _side_effects(ours: Result) -> list[str]:
    return [
        *(f"changes its input {name}, which the target does not declare" for name in ours.changed_inputs),
        *(f"returns memory of its input {name}, which the target does not declare" for name in ours.aliased),
    ]


def _error_failures(error: OutputError, found: Tensor, wanted: Tensor, original: Tensor) -> list[str]:
    if error.elements == 0:
        return [] if wanted.numel() == 0 else [f"{error.output}: no element was compared"]
    if not torch.equal(torch.isfinite(found), torch.isfinite(original)):
        index = worst((torch.isfinite(found) != torch.isfinite(original)).double())
        return [f"{error.output}[{index}] is {found[index].item()}, expected {wanted[index].item()}"]
    limits = allowed(error)
    over = [name for name in ("rms", "p9999", "max") if not getattr(error, name) <= limits[name]]
    if not over:
        return []
    index = worst((found.double() - wanted).abs().nan_to_num())
    told = ", ".join(f"{name} error {getattr(error, name):.3g} above {limits[name]:.3g}" for name in over)
    return [f"{error.output}: {told}; worst at {index}: {found[index].item():.6g}, expected {wanted[index].item():.6g}"]


def _not_repeatable(
    candidate: Implementation, original: Implementation, given: InputSet, target: Target, ours: Result, theirs: Result
) -> list[str]:
    """Outputs that change between two calls, where the original's do not."""
    again = _run(candidate, given, target)
    unstable = [name for name, value in ours.values.items() if not _equal(value, again.values[name])]
    if not unstable:
        return []
    theirs_again = _run(original, given, target)
    return [
        f"{name} differs between two calls on the same inputs; the original's does not"
        for name in unstable
        if _equal(theirs.values[name], theirs_again.values[name])
    ]


def _equal(left: Tensor, right: Tensor) -> bool:
    """Bitwise equality, NaN equal to itself."""
    return bool(((left == right) | ((left != left) & (right != right))).all())


def _share_storage(left: Tensor, right: Tensor) -> bool:
    return left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr() != 0
