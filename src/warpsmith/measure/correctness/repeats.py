"""Runs a candidate more than once: the same values again, other values at the same addresses, and from a CUDA graph.

Owns what calls that depend on each other betray: results that vary, are kept, or belong to earlier values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from warpsmith.contracts.measurement import CheckFailure, Element, OutputError
from warpsmith.measure.correctness.allocations import GuardedAllocations, Poison
from warpsmith.measure.correctness.attempts import attempt, attempt_of_original
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.errors import allowed, element_at
from warpsmith.measure.correctness.replay import CapturedCall, captured
from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.worker.failures import is_sticky
from warpsmith.measure.worker.implementation import Implementation

#: Two results on other values may differ by this multiple of both sides' largest allowed error. It is wide, as
#: those values may be larger ones: it is to find results that belong to other inputs, which are off by their size.
_OTHER_VALUES = 4.0


def again(bout: Bout) -> Iterator[CheckFailure]:
    """The same call on the same values: equal within rounding, in memory of its own unless the original does no better.

    Rounding is the error that is allowed to the candidate: atomic additions vary by it, races by more. Memory that is
    never written holds something else than in the first run.
    """
    trial, found = bout.trial, bout.found.results
    second = trial.run(bout.candidate, GuardedAllocations(Poison.LARGE))
    varying = [name for name in found if not _equal(found[name], second[name])]
    kept = [name for name in found if _same_memory(found[name], second[name])]
    theirs = trial.run(bout.original, GuardedAllocations(Poison.LARGE)) if kept else {}
    third = trial.run(bout.candidate, GuardedAllocations(Poison.NOT_A_NUMBER)) if varying else {}
    limits = limits_of(bout.errors)
    for name in varying:
        if (worst := _difference(second[name], found[name], limit=2 * limits.get(name, 0.0))) is not None:
            how = " by more than rounding"
            if _equal(found[name], third[name]):
                how += "; it follows what memory that is never written happened to hold"
            yield _failure("repeats", name, f"varies between two calls on the same inputs{how}", worst)
    for name in kept:
        if not _same_memory(bout.known.results[name], theirs[name]):
            message = "a second call returns the memory of the first, which a caller may still hold"
            yield CheckFailure(check="repeats", part=name, message=message)


def backward_again(bout: Bout) -> Iterator[CheckFailure]:
    """A second pass backward over the same graph, from gradients with the other sign, gives the first one's with the
    other sign, where the original's does."""
    trial, name = bout.trial, "backward again"
    if not trial.output_gradients:
        return
    limits = limits_of(bout.errors)
    theirs = attempt_of_original(lambda: _second_backward(bout.original, trial), trial, name)
    if isinstance(theirs, str) or any(differences(theirs, _negated(bout.known.results), limits)):
        bout.skipped[name] = theirs if isinstance(theirs, str) else "the original's second pass gives something else"
        return
    ours = attempt(lambda: _second_backward(bout.candidate, trial), trial)
    if isinstance(ours, str):
        message = f"fails in a second pass backward (retain_graph), the original does not: {ours}"
        yield CheckFailure(check=name, message=message)
        return
    for part, worst in differences(ours, _negated(bout.found.results), limits):
        yield _failure(name, part, "a second pass backward (retain_graph) gives another result", worst)


def _second_backward(side: Implementation, trial: Trial) -> Results:
    outputs = trial.forward(side)
    trial.backward(side, outputs, retain=True)
    trial.gradient_memory.restore()
    for gradient in trial.output_gradients.values():
        gradient.neg_()
    return trial.kept(trial.backward(side, outputs))


def _negated(results: Results) -> Results:
    """What comes of output gradients with the other sign: gradients are linear in them."""
    is_gradient = {name: name.startswith("gradient of ") for name in results}
    return {name: -part if is_gradient[name] and part is not None else part for name, part in results.items()}


def other_values(bout: Bout) -> Iterator[CheckFailure]:
    """Other values in the same tensors: the candidate follows the original, and its graph follows the candidate.

    Here the candidate runs first, in the first run the original did.
    """
    trial, name = bout.trial, "other values"
    graph: CapturedCall | None = None
    if trial.device.type == "cuda" and isinstance(_captured(bout.original, trial), CapturedCall):
        captured_call = _captured(bout.candidate, trial)
        if isinstance(captured_call, CapturedCall):
            graph = captured_call
        else:
            message = f"cannot be captured into a CUDA graph, the original can: {captured_call}"
            yield CheckFailure(check=name, message=message)
    trial.refill(trial.seed + 1)
    limits = {part: _OTHER_VALUES * limit for part, limit in limits_of(bout.errors).items()}
    ours = trial.run(bout.candidate)
    theirs = trial.run(bout.original)
    for part, worst in differences(ours, theirs, limits):
        yield _failure(name, part, "does not follow its inputs: on other values at the same addresses it is off", worst)
    del theirs
    if graph is not None:
        for part, worst in differences(graph.replay(trial), ours, limits):
            yield _failure(name, part, "a CUDA graph of the call gives another result on other values", worst)


def _failure(check: str, part: str, message: str, worst: Element) -> CheckFailure:
    return CheckFailure(check=check, part=part, message=f"{message}; most at {worst}", worst=worst)


def _captured(implementation: Implementation, trial: Trial) -> CapturedCall | str:
    """The call as a graph, or why it cannot be captured."""
    try:
        return captured(implementation, trial)
    except Exception as error:  # many things cannot be captured, each with its own exception
        if is_sticky(error):
            raise
        torch.cuda.synchronize(trial.device)
        return f"{type(error).__name__}: {error}".splitlines()[0]


def limits_of(errors: Sequence[OutputError]) -> dict[str, float]:
    """Result -> how far two implementations may lie apart where each keeps its largest allowed error."""
    return {error.output: allowed(error)["max"] + error.original_max for error in errors}


def differences(found: Results, expected: Results, limits: dict[str, float]) -> Iterator[tuple[str, Element]]:
    """The results that differ by more than their limit, 0 where there is none, each with its worst element."""
    for name, part in found.items():
        difference = _difference(part, expected[name], limit=limits.get(name, 0.0))
        if difference is not None:
            yield name, difference


def _difference(found: Tensor | None, expected: Tensor | None, *, limit: float) -> Element | None:
    """The element that differs most, if by more than `limit`. Equal infinities and NaN on both sides do not differ."""
    if found is None or expected is None or found.numel() == 0:
        return None
    apart = (found.double() - expected.double()).abs_()
    apart.masked_fill_((found == expected) | (found.isnan() & expected.isnan()), 0.0)
    apart.nan_to_num_(nan=float("inf"))
    worst = int(apart.argmax())
    if float(apart.flatten()[worst]) <= limit:
        return None
    return element_at(worst, found, expected)


def _equal(left: Tensor | None, right: Tensor | None) -> bool:
    if left is None or right is None:
        return left is right
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def _same_memory(left: Tensor | None, right: Tensor | None) -> bool:
    if left is None or right is None:
        return False
    return left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr() != 0
