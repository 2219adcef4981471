"""Errors against float64, and how much of them is allowed."""

from __future__ import annotations

import torch
from torch import Tensor

from warpsmith.contracts.measurement import OutputError

#: A candidate's error may be this multiple of the original's own (chosen; another order of summation stays inside).
MULTIPLES = {"rms": 2.0, "p9999": 2.0, "max": 4.0}
#: Of the dtype's epsilon, times the reference's root mean square: the floor of the RMS error. A correctly rounded
#: result has an RMS error of 0.29 epsilons of each value, so a quarter forgives rounding and no loss of precision.
FLOOR_EPSILONS = 0.25
#: Floors of the other two, in multiples of the first: tails of a rounding error over large values.
FLOOR_MULTIPLES = {"rms": 1.0, "p9999": 4.0, "max": 8.0}


def error_of(name: str, found: Tensor, original: Tensor, wanted: Tensor) -> OutputError:
    """The errors of one output, of the candidate and of the original, where the reference is finite."""
    finite = torch.isfinite(wanted) & torch.isfinite(found) & torch.isfinite(original)
    wanted = wanted[finite]
    ours, theirs = (found[finite].double() - wanted).abs(), (original[finite].double() - wanted).abs()
    scale = _rms(wanted)
    return OutputError(
        output=name,
        rms=_rms(ours),
        p9999=_p9999(ours),
        max=_max(ours),
        original_rms=_rms(theirs),
        original_p9999=_p9999(theirs),
        original_max=_max(theirs),
        scale=scale,
        floor=FLOOR_EPSILONS * torch.finfo(found.dtype).eps * scale,
        elements=wanted.numel(),
    )


def allowed(error: OutputError) -> dict[str, float]:
    """The limits by measure: a multiple of the original's own error, plus a floor from the dtype."""
    own = {"rms": error.original_rms, "p9999": error.original_p9999, "max": error.original_max}
    return {name: MULTIPLES[name] * own[name] + FLOOR_MULTIPLES[name] * error.floor for name in own}


def worst(errors: Tensor) -> tuple[int, ...]:
    """The index of the largest value."""
    return tuple(int(i) for i in torch.unravel_index(errors.argmax(), errors.shape))


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt()) if values.numel() else 0.0


def _max(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _p9999(values: Tensor) -> float:
    """The value that one in ten thousand exceeds. torch.quantile refuses more than 16 million values; topk does not."""
    if not values.numel():
        return 0.0
    beyond = max(1, values.numel() // 10_000)
    return float(values.flatten().topk(beyond).values[-1])
