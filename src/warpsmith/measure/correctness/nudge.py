"""What a few roundings of the inputs do to the float64 results: what computes in fp32 cannot be held to less.

Owns the nudge. It counts where the original's own error may be nothing by luck: one row, equal rows, equal values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from warpsmith.measure.correctness.trial import Results, Trial

_FP32 = torch.finfo(torch.float32)
#: By how much inputs are nudged, relatively. Chosen: a sum and the steps after it round a few times.
_NUDGE = 4 * _FP32.eps
#: What float64 leaves of nothing, relatively. Chosen.
_VANISHING = 1e-12


def nudged_reference(trial: Trial) -> Results:
    """Outputs and gradients in float64 on inputs and output gradients that are nudged.

    The same for the same seed. Raises as `reference`.
    """
    generator = torch.Generator(device=trial.device).manual_seed(trial.seed)
    inputs = {name: _nudged(value, generator) for name, value in trial.inputs.items()}
    gradients = {position: _nudged(value, generator) for position, value in trial.output_gradients.items()}
    return replace(trial, inputs=inputs, output_gradients=gradients).reference()


def nudged_probe(probe: Trial, reference: Results, usual: Results) -> Results:
    """The same of a trial that was made of another one, whose reference is `usual`.

    A result that vanishes by the formula, such as the gradient of a softmax over one value, stays nothing when inputs
    are nudged; rounding leaves what it would of one of the usual size.
    """
    moved = nudged_reference(probe)
    for name, part in reference.items():
        other, further = usual.get(name), moved.get(name)
        if part is None or other is None or further is None or not part.numel() or not other.numel():
            continue
        size = float(other[other.isfinite()].square().mean().sqrt())
        if float(part.abs().max()) <= _VANISHING * size:
            moved[name] = further + _NUDGE * size
    return moved


def _nudged(value: Any, generator: torch.Generator) -> Any:
    """In float64, every value up or down at random, and zero where fp32 may flush it to zero."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.device != generator.device:
        return value
    wide = value.detach().double()
    up = torch.randint(0, 2, wide.shape, device=wide.device, generator=generator).double()
    moved = wide * (1.0 + _NUDGE * (2.0 * up - 1.0))
    return moved.masked_fill_(wide.abs() < _FP32.tiny, 0.0)
