"""Values that kernels stumble over, made of a target's own: not finite, large, tiny, zero, all the same, far off zero.

Owns the values alone. Must not run anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

Fill = Callable[[Tensor], "Tensor | None"]


def _placed(special: float) -> Fill:
    """That value once in the first, the middle and the last row, at the first, middle and last place of the row."""

    def fill(value: Tensor) -> Tensor:
        changed = value.clone(memory_format=torch.contiguous_format)
        rows = changed.view(value.shape[0] if value.ndim else 1, -1)
        for place in (lambda size: 0, lambda size: size // 2, lambda size: size - 1):
            rows[place(rows.shape[0]), place(rows.shape[1])] = special
        return changed

    return fill


def _scaled(magnitude: Callable[[torch.finfo], float]) -> Fill:
    """All values by one factor, so that the largest magnitude is the given one. None of zeros."""

    def fill(value: Tensor) -> Tensor | None:
        largest = _finite(value).abs().max() if _finite(value).numel() else torch.zeros(())
        if not float(largest):
            return None
        return (value.double() * (magnitude(torch.finfo(value.dtype)) / float(largest))).to(value.dtype)

    return fill


def _constant(value: Tensor) -> Tensor:
    """The first value everywhere, with three bits, so that sums of it are exact."""
    mantissa, exponent = math.frexp(float(value.flatten()[0]))
    if not math.isfinite(mantissa):
        return torch.ones_like(value)
    return torch.full_like(value, math.ldexp(round(8 * mantissa) / 8, exponent))


def _offset(value: Tensor) -> Tensor | None:
    """A thousand deviations are added. None where nothing deviates."""
    spread = float(_finite(value).std(correction=0)) if _finite(value).numel() else 0.0
    return (value.double() + 1000.0 * spread).to(value.dtype) if spread else None


#: Every probe by its name. The magnitudes are chosen: squares still finite in the dtype, a sum of eight still finite,
#: hardly any value subnormal, every value subnormal.
PROBES: dict[str, Fill] = {
    "NaN": _placed(math.nan),
    "infinity": _placed(math.inf),
    "-infinity": _placed(-math.inf),
    "magnitudes up to sqrt(max)": _scaled(lambda info: math.sqrt(info.max)),
    "magnitudes up to max/8": _scaled(lambda info: info.max / 8),
    "magnitudes up to 64 times the smallest normal": _scaled(lambda info: 64 * info.tiny),
    "subnormal values": _scaled(lambda info: info.tiny / 8),
    "zeros": torch.zeros_like,
    "one constant": _constant,
    "a mean of 1000 deviations": _offset,
}


def probes(values: Mapping[str, Tensor]) -> Iterator[tuple[str, str, Tensor]]:
    """The name of a probe, the input that it changes, and what it has that hold instead. One input at a time."""
    for name, value in values.items():
        for probe, fill in PROBES.items():
            if (changed := fill(value)) is not None:
                yield probe, name, changed


def _finite(value: Tensor) -> Tensor:
    return value[value.isfinite()].double()
