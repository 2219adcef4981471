"""How far results lie from float64, and how far they may.

Owns the figures, the allowances and the words of a refusal. Must not know how results came to be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from warpsmith.contracts.measurement import CheckFailure, Element, OutputError

#: A candidate's error may be this multiple of the original's own, plus a floor.
RMS_MULTIPLE, P9999_MULTIPLE, MAX_MULTIPLE = 2.0, 2.0, 4.0
#: The floor of the RMS error: so many epsilons of the dtype, times the reference's root mean square. Chosen.
#: It counts where the original's own error happens to be nothing (one row, one scalar, exact values).
#: In half precision the rounding of the result dominates, 0.29 epsilons at most, whatever the order of summation: a
#: quarter is slack for that. In fp32 another order of summation moves a whole row by a few roundings, hence two
#: epsilons, 2.4e-7; TF32 products err by 3e-4 and fail by three orders of magnitude.
FLOOR_EPSILONS = {torch.float64: 2.0, torch.float32: 2.0, torch.float16: 0.25, torch.bfloat16: 0.25}
#: The floor of the percentile and the maximum, in multiples of the RMS floor: a rounding grows with its value, and
#: the largest of many values are four or five times their root mean square.
TAIL_FLOOR = 4.0
#: An original whose RMS error is above this many epsilons of its result's scale is not right there. Chosen, as for the
#: reference at the start of a run.
NEAR_EPSILONS = 16.0


@dataclass(frozen=True)
class Figures:
    """Absolute errors of one tensor. Elements that are not finite on either side are left out."""

    rms: float
    p9999: float
    max: float
    worst: int


def figures(found: Tensor, reference: Tensor) -> Figures:
    """Errors of `found`, of any dtype, against `reference`, float64 and of the same shape with at least one element."""
    error = (found.double() - reference).abs_().flatten()
    error.nan_to_num_(nan=0.0, posinf=0.0)
    # topk, for torch.quantile refuses more than 16 million elements
    largest = error.topk(_tail(error.numel())).values
    return Figures(
        rms=float(error.square().mean().sqrt()),
        p9999=float(largest[-1]),
        max=float(largest[0]),
        worst=int(error.argmax()),
    )


def larger(one: Figures, other: Figures) -> Figures:
    """The larger of both in every figure; the worst element is the first one's."""
    return Figures(
        rms=max(one.rms, other.rms), p9999=max(one.p9999, other.p9999), max=max(one.max, other.max), worst=one.worst
    )


def near(error: Figures, scale: float, dtype: torch.dtype) -> bool:
    """Whether results that are this far off, beside a reference of that root mean square, are right."""
    epsilon = torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
    return error.rms <= NEAR_EPSILONS * epsilon * scale


def compared(name: str, found: Figures, original: Figures, reference: Tensor, dtype: torch.dtype) -> OutputError:
    """The record of both sides' errors. `reference` is float64, `dtype` that of the result."""
    finite = reference[torch.isfinite(reference)]
    scale = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    epsilon = torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
    return OutputError(
        output=name,
        rms=found.rms,
        p9999=found.p9999,
        max=found.max,
        original_rms=original.rms,
        original_p9999=original.p9999,
        original_max=original.max,
        scale=scale,
        floor=FLOOR_EPSILONS.get(dtype, 1.0) * epsilon * scale,
        elements=reference.numel(),
    )


def allowed(error: OutputError) -> dict[str, float]:
    """Measure -> the most it may be. Under 10,000 elements the percentile is the maximum, and allowed as much."""
    tail = TAIL_FLOOR * error.floor
    largest = MAX_MULTIPLE * error.original_max + tail
    return {
        "rms": RMS_MULTIPLE * error.original_rms + error.floor,
        "p9999": largest if _tail(error.elements) == 1 else P9999_MULTIPLE * error.original_p9999 + tail,
        "max": largest,
    }


def inaccuracy(
    check: str, error: OutputError, worst: int, found: Tensor, reference: Tensor, *, whose: str = "the original's"
) -> CheckFailure | None:
    """Why the error is too large, or None. `worst` is the flat index of the element furthest off.

    `whose`: what the errors that stand as the original's are.
    """
    limits = allowed(error)
    values = {"rms": error.rms, "p9999": error.p9999, "max": error.max}
    originals = {"rms": error.original_rms, "p9999": error.original_p9999, "max": error.original_max}
    titles = {"rms": "RMS error", "p9999": "99.99th percentile of the error", "max": "largest error"}
    over = [
        f"{titles[key]} {values[key]:.3g}, at most {limits[key]:.3g} allowed ({whose} {originals[key]:.3g})"
        for key in titles
        if not values[key] <= limits[key] and not (key == "p9999" and _tail(error.elements) == 1)
    ]
    if not over:
        return None
    element = element_at(worst, found, reference)
    message = f"{'; '.join(over)}; worst at {element}"
    return CheckFailure(check=check, part=error.output, message=message, worst=element)


def not_finite(check: str, name: str, found: Tensor, original: Tensor, reference: Tensor) -> CheckFailure | None:
    """Where NaN or infinity stands without right, or is missing, or None.

    NaN is right only where the reference has it; infinity also where the original has it, since half precision
    overflows where float64 does not.
    """
    wide = found.double()
    as_reference = (wide == reference) | (wide.isnan() & reference.isnan())
    wrong = ~(wide.isfinite() & reference.isfinite()) & ~as_reference & (found != original)
    if not bool(wrong.any()):
        return None
    first = int(wrong.flatten().nonzero()[0])
    value = float(wide.flatten()[first])
    what = "NaN" if math.isnan(value) else "infinity" if math.isinf(value) else "a finite value"
    hint = ""
    if math.isnan(value):
        hint = "; memory that is never written reads as NaN in this check"
        hint += ", and the original has it there too" if math.isnan(float(original.flatten()[first])) else ""
    element = element_at(first, found, reference)
    message = f"{what} where it does not belong, {int(wrong.sum())} times, first at {element}{hint}"
    return CheckFailure(check=check, part=name, message=message, worst=element)


def element_at(flat: int, found: Tensor, expected: Tensor) -> Element:
    """An element by its flat index, with what was expected and what was found there."""
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), found.shape))
    values = (f"{side.flatten()[flat].item():.6g}" for side in (expected, found))
    return Element(index=index, expected=next(values), found=next(values))


def _tail(elements: int) -> int:
    """How many elements make up the largest ten-thousandth."""
    return max(1, math.ceil(elements / 10_000))
