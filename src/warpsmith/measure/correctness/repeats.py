"""Runs a candidate more than once: the same values again, other values at the same addresses, and from a CUDA graph.

Owns what calls that depend on each other betray: results that vary, are kept, or belong to earlier values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from warpsmith.contracts.measurement import OutputError
from warpsmith.measure.correctness.errors import allowed, at
from warpsmith.measure.correctness.form import Form
from warpsmith.measure.correctness.poison import poisoned_memory
from warpsmith.measure.correctness.replay import CapturedCall, captured
from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.worker.failures import is_sticky
from warpsmith.measure.worker.implementation import Implementation

#: Two results on other values may differ by this multiple of both sides' largest allowed error. It is wide, as
#: those values may be larger ones: it is to find results that belong to other inputs, which are off by their size.
_OTHER_VALUES = 4.0


@dataclass(frozen=True)
class Observed:
    """What a call of the original did. `shared` are (result, input) that lie in one storage."""

    outputs: Form
    gradients: Form
    results: Results
    changed: frozenset[str]
    shared: frozenset[tuple[str, str]]


def again(
    candidate: Implementation,
    original: Implementation,
    trial: Trial,
    found: Results,
    known: Observed,
    errors: Sequence[OutputError],
) -> Iterator[str]:
    """The same call on the same values: equal bits in memory of its own, unless the original does no better.

    Where the original varies too, the candidate may vary within the error that is allowed to it.
    """
    with poisoned_memory():
        second = trial.run(candidate)
        varying = [name for name in found if not _equal(found[name], second[name])]
        kept = [name for name in found if _same_memory(found[name], second[name])]
        if not varying and not kept:
            return
        theirs = trial.run(original)
    limits = _limits(errors)
    for name in varying:
        if _equal(known.results[name], theirs[name]):
            difference = _difference(second[name], found[name], limit=0.0)
            yield f"{name}: varies between two calls on the same inputs, the original's does not; {difference}"
        elif (difference := _difference(second[name], found[name], limit=2 * limits.get(name, 0.0))) is not None:
            yield f"{name}: varies between two calls on the same inputs by more than rounding; {difference}"
    for name in kept:
        if not _same_memory(known.results[name], theirs[name]):
            yield f"{name}: a second call returns the memory of the first, which a caller may still hold"


def other_values(
    candidate: Implementation, original: Implementation, trial: Trial, errors: Sequence[OutputError]
) -> Iterator[str]:
    """Other values in the same tensors: the candidate follows the original, and its graph follows the candidate."""
    graph: CapturedCall | None = None
    if trial.device.type == "cuda" and isinstance(_captured(original, trial), CapturedCall):
        ours_captured = _captured(candidate, trial)
        if isinstance(ours_captured, CapturedCall):
            graph = ours_captured
        else:
            yield f"cannot be captured into a CUDA graph, the original can: {ours_captured}"
    trial.refill(trial.seed + 1)
    limits = {name: _OTHER_VALUES * limit for name, limit in _limits(errors).items()}
    theirs = trial.run(original)
    ours = trial.run(candidate)
    for name, difference in _differences(ours, theirs, limits):
        yield f"{name}: does not follow its inputs: on other values at the same addresses {difference}"
    del theirs
    if graph is not None:
        for name, difference in _differences(graph.replay(trial), ours, limits):
            yield f"{name}: a CUDA graph of the call, replayed on other values, gives another result; {difference}"


def _captured(implementation: Implementation, trial: Trial) -> CapturedCall | str:
    """The call as a graph, or why it cannot be captured."""
    try:
        return captured(implementation, trial)
    except Exception as error:  # many things cannot be captured, each with its own exception
        if is_sticky(error):
            raise
        torch.cuda.synchronize(trial.device)
        return f"{type(error).__name__}: {error}".splitlines()[0]


def _limits(errors: Sequence[OutputError]) -> dict[str, float]:
    """Result -> how far two implementations may lie apart where each keeps its largest allowed error."""
    return {error.output: allowed(error)["max"] + error.original_max for error in errors}


def _differences(found: Results, expected: Results, limits: dict[str, float]) -> Iterator[tuple[str, str]]:
    for name, part in found.items():
        difference = _difference(part, expected[name], limit=limits.get(name, 0.0))
        if difference is not None:
            yield name, difference


def _difference(found: Tensor | None, expected: Tensor | None, *, limit: float) -> str | None:
    """The element that differs most, if by more than `limit`. Equal infinities and NaN on both sides do not differ."""
    if found is None or expected is None or found.numel() == 0:
        return None
    apart = (found.double() - expected.double()).abs_()
    apart.masked_fill_((found == expected) | (found.isnan() & expected.isnan()), 0.0)
    apart.nan_to_num_(nan=float("inf"))
    worst = int(apart.argmax())
    if float(apart.flatten()[worst]) <= limit:
        return None
    return f"most at {at(worst, found, expected)}"


def _equal(left: Tensor | None, right: Tensor | None) -> bool:
    if left is None or right is None:
        return left is right
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def _same_memory(left: Tensor | None, right: Tensor | None) -> bool:
    if left is None or right is None:
        return False
    return left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr() != 0
