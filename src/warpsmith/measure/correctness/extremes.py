"""Runs both sides on values that kernels stumble over, in the tensors of the case.

Owns what a candidate is held to there, and that is never more than the original does. Element by element, by the
original's result and the reference's:

- Both finite: the candidate stays within the usual multiple of the original's error, or, where that is more, of what
  a few roundings of the inputs do to the reference; and it is finite. Where the original is far off although finite
  (it cancels, it loses a square to overflow), the candidate may fail with NaN or infinity as well. Nor is it held to be
  finite where the original is not at values four times as large: at the edge of the range, where a sum overflows hangs
  on its order.
- Neither finite: where both are NaN, or an output's infinity is the same, the candidate has exactly that; else it is
  NaN or infinite as it likes. In a gradient, which infinities meet and make NaN hangs on how the formula is factored.
- The original alone not finite: so is the candidate, unless it does better. Beyond the range of the dtype that is the
  reference's value to within a rounding; within it, where the original overflowed on the way, whatever errs by no more
  than a multiple of the result's size.
- The reference alone not finite (as where Triton's max passes over NaN): nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness.attempts import attempt, attempt_of_original
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.errors import (
    MAX_MULTIPLE,
    NEAR_EPSILONS,
    compared,
    element_at,
    figures,
    inaccuracy,
    larger,
    near,
)
from warpsmith.measure.correctness.nudge import nudged_reference
from warpsmith.measure.correctness.probes import probes
from warpsmith.measure.correctness.trial import Results, Trial

#: A case with a larger input is not probed: shapes that take long show nothing here that small ones do not. Chosen.
MOST_ELEMENTS = 1 << 22
#: So much larger values keep a sum off the edge of its range, whatever its order. Chosen.
_FURTHER = 4.0


def extremes(bout: Bout) -> Iterator[CheckFailure]:
    """NaN, infinities, large, tiny, equal and offset values, in one floating-point input at a time.

    The first probe that the candidate fails ends it.
    """
    trial = bout.trial
    start = {
        name: value.detach().clone(memory_format=torch.contiguous_format)
        for name, value in trial.inputs.items()
        if isinstance(value, Tensor) and value.is_floating_point() and _is_filled(value)
    }
    if (why := _unfit(trial, start)) is not None:
        bout.skipped["extremes"] = why
        return
    try:
        for probe, name, values in probes(start):
            what = f"{probe} in {name}"
            if {probe, what} & set(trial.target.unprobed):
                bout.skipped[f"extremes, {what}"] = "the target names it in `unprobed`"
                continue
            _put(trial, {**start, name: values})
            if failures := list(_probed(bout, what, _finite_further(bout, what, {**start, name: values * _FURTHER}))):
                yield from failures
                return
    finally:
        _put(trial, start)


@dataclass(frozen=True)
class _Part:
    """One result of a probe. `reference` and `nudged` are float64, of the same shape."""

    name: str
    found: Tensor
    original: Tensor
    reference: Tensor
    nudged: Tensor


def _probed(bout: Bout, what: str, finite_further: Callable[[str], Tensor | None]) -> Iterator[CheckFailure]:
    trial = bout.trial
    measure = attempt_of_original(
        lambda: (trial.run(bout.original), trial.reference(), nudged_reference(trial)), trial, what
    )
    if isinstance(measure, str):
        bout.skipped[f"extremes, {what}"] = f"the original or its reference fails there: {measure}"
        return
    known, reference, moved = measure
    found = attempt(lambda: trial.run(bout.candidate), trial)
    if isinstance(found, str):
        yield CheckFailure(check="extremes", message=f"with {what} it fails, the original does not: {found}")
        return
    for name, theirs in known.items():
        ours, wanted, off = found.get(name), reference.get(name), moved.get(name)
        if theirs is None or wanted is None or off is None or wanted.numel() == 0:
            continue
        if ours is None or ours.shape != theirs.shape:
            shapes = (None if each is None else tuple(each.shape) for each in (ours, theirs))
            told = "has shape {}, the original's {}".format(*shapes)
            yield CheckFailure(check="extremes", part=name, message=f"with {what} it {told}")
            continue
        for failure in _judged(_Part(name, ours, theirs, wanted, off), finite_further):
            yield failure.model_copy(update={"message": f"with {what}: {failure.message}"})


def _judged(part: _Part, finite_further: Callable[[str], Tensor | None]) -> Iterator[CheckFailure]:
    held = part.original.isfinite() & part.reference.to(part.original.dtype).isfinite()
    reference = part.reference.masked_fill(~held, float("nan"))
    own, theirs = figures(part.found, reference), figures(part.original, reference)
    moved = figures(part.nudged, reference)
    error = compared(part.name, own, larger(theirs, moved), reference, part.found.dtype)
    lost = held & ~part.found.isfinite()
    if bool(lost.any()):
        right = near(theirs, error.scale, part.found.dtype) or theirs.rms <= moved.rms
        further = finite_further(part.name) if right else None
        lost = lost & further if further is not None else torch.zeros_like(lost)
    if bool((wrong := lost | _other_kind(part) | _invented(part, error.scale)).any()):
        yield _misplaced(part, wrong)
    whose = "the original's, or that of a few roundings of the inputs,"
    if (off := inaccuracy("extremes", error, own.worst, part.found, part.reference, whose=whose)) is not None:
        yield off


def _other_kind(part: _Part) -> Tensor:
    """Where original and reference agree on NaN or an infinity, and the candidate has something else."""
    agreed = _same(part.original, part.reference) & ~part.reference.isfinite()
    different = agreed & ~_same(part.found, part.reference)
    factored = part.reference.isinf() & part.found.isnan() & part.name.startswith("gradient of ")
    return different & ~factored


def _invented(part: _Part, scale: float) -> Tensor:
    """Where the original is not finite, and the candidate is, without coming near enough to the reference."""
    claimed = ~part.original.isfinite() & part.found.isfinite()
    off = (part.found.double() - part.reference).abs_()
    if not part.found.dtype.is_floating_point:
        return torch.zeros_like(claimed)
    rounding = NEAR_EPSILONS * torch.finfo(part.found.dtype).eps * part.reference.abs()
    size = MAX_MULTIPLE * part.reference.abs().clamp(min=scale)
    representable = part.reference.to(part.original.dtype).isfinite()
    return claimed & ~(off <= torch.where(representable, size, rounding))


def _misplaced(part: _Part, wrong: Tensor) -> CheckFailure:
    first = int(wrong.flatten().nonzero()[0])
    element = element_at(first, part.found, part.reference)
    message = (
        f"{element.found} where it does not belong, {int(wrong.sum())} times, first at {element}, "
        f"the original has {part.original.flatten()[first].item():.6g}"
    )
    return CheckFailure(check="extremes", part=part.name, message=message, worst=element)


def _finite_further(bout: Bout, what: str, values: Mapping[str, Tensor]) -> Callable[[str], Tensor | None]:
    """Result -> where the original is finite on those values; None where that is unknown. Asked only if need be."""

    @cache
    def results() -> Results | str:
        _put(bout.trial, values)
        return attempt_of_original(lambda: bout.trial.run(bout.original), bout.trial, what)

    def finite(name: str) -> Tensor | None:
        found = results()
        part = None if isinstance(found, str) else found.get(name)
        return None if part is None else part.isfinite()

    return finite


def _put(trial: Trial, values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            trial.inputs[name].copy_(value)
    trial.watch()


def _unfit(trial: Trial, values: Mapping[str, Tensor]) -> str | None:
    if not values:
        return "no input is of floating point and has memory of its own"
    largest = max(value.numel() for value in trial.inputs.values() if isinstance(value, Tensor))
    return f"an input has {largest} elements, more than {MOST_ELEMENTS}" if largest > MOST_ELEMENTS else None


def _is_filled(value: Tensor) -> bool:
    """It has elements, and each its own place in memory."""
    expanded = any(size > 1 and stride == 0 for size, stride in zip(value.shape, value.stride(), strict=True))
    return value.numel() > 0 and not expanded


def _same(left: Tensor, right: Tensor) -> Tensor:
    return (left.double() == right) | (left.isnan() & right.isnan())
