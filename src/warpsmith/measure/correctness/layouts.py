"""The same values laid out as callers lay them out: strided, transposed, shifted or expanded inputs and gradients.

Owns the layouts, and at which cases they are tried: small ones, and the smallest of each dtype.

A kernel that ignores strides, or takes those of one tensor for another's, must not break the CUDA context here. Every
offset that it can make of the strides and sizes at hand is less than the widest extent of a tensor of the probe. So
each tensor, the trial's and what a call allocates, has guard zones of at least that length on both sides: such a kernel
reads NaN or writes into a zone, and is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.guarded import GUARD_BYTES, extent
from warpsmith.measure.correctness.probing import probed
from warpsmith.measure.correctness.trial import Trial

#: A case whose largest input has no more elements is probed, or the smallest of its dtype up to the second limit.
#: Chosen: milliseconds each, and a few times 128 MiB of guard zones at most.
SMALL_ELEMENTS, MOST_ELEMENTS = 1 << 20, 1 << 24
#: What a wider tensor has in a row beside the slice. Chosen: aligned rows stay aligned.
_BESIDE = 32

#: The same values in another layout, or None where it would be no other.
Layout = Callable[[Tensor], "Tensor | None"]


def strided_rows(tensor: Tensor) -> Tensor | None:
    """(..., N) as a slice of (..., N + 32); what lies beside are values like those in the slice."""
    if tensor.ndim < 2 or math.prod(tensor.shape[:-1]) < 2:
        return None
    beside = tensor[..., :1].expand(*tensor.shape[:-1], _BESIDE)
    return torch.cat((tensor, beside), dim=-1)[..., : tensor.shape[-1]]


def transposed(tensor: Tensor) -> Tensor | None:
    """Dimensions in memory in the opposite order."""
    if sum(size > 1 for size in tensor.shape) < 2:
        return None
    backwards = tuple(reversed(range(tensor.ndim)))
    return tensor.permute(backwards).clone(memory_format=torch.contiguous_format).permute(backwards)


def shifted(tensor: Tensor) -> Tensor:
    """Contiguous, one element behind an address that is a multiple of 512 bytes."""
    return torch.cat((tensor.new_zeros(1), tensor.flatten()))[1:].view(tensor.shape)


def expanded(tensor: Tensor) -> Tensor | None:
    """The first row everywhere, with stride 0."""
    if tensor.ndim < 2 or tensor.shape[0] < 2:
        return None
    return tensor[:1].clone(memory_format=torch.contiguous_format).expand(tensor.shape)


def _ones(tensor: Tensor) -> Tensor | None:
    """What out.sum().backward() hands to a pass backward: ones, every stride 0."""
    return tensor.new_ones(()).expand(tensor.shape) if tensor.numel() > 1 else None


INPUT_LAYOUTS: dict[str, Layout] = {
    "strided rows": strided_rows,
    "transposed inputs": transposed,
    "inputs shifted by one element": shifted,
    "expanded inputs": expanded,
}
GRADIENT_LAYOUTS: dict[str, Layout] = {
    "an expanded output gradient": _ones,
    "a transposed output gradient": transposed,
}


def layouts(bout: Bout) -> Iterator[CheckFailure]:
    """All floating-point inputs in another layout. The first that the candidate fails ends it."""
    trial = bout.trial
    if not _is_chosen(trial):
        return
    trial.restore()
    for what, layout in INPUT_LAYOUTS.items():
        if not _laid_out(trial, layout):
            continue
        if failures := list(probed(bout, "layouts", what, partial(_with_inputs, bout, layout))):
            yield from failures
            return


def gradient_layouts(bout: Bout) -> Iterator[CheckFailure]:
    """Output gradients in another layout, then one input at a time that requires a gradient."""
    trial = bout.trial
    if not trial.output_gradients or not _is_chosen(trial):
        return
    trial.restore()
    for what, make in _gradient_probes(bout):
        if failures := list(probed(bout, "gradient layouts", what, make)):
            yield from failures
            return


def _gradient_probes(bout: Bout) -> Iterator[tuple[str, Callable[[], Trial]]]:
    trial = bout.trial
    for what, layout in GRADIENT_LAYOUTS.items():
        changed = {i: other for i, value in trial.output_gradients.items() if (other := layout(value)) is not None}
        if changed:
            gradients = {**trial.output_gradients, **changed}
            yield what, partial(_guarded, bout, output_gradients=gradients)
    for name in trial.differentiated if len(trial.differentiated) > 1 else ():
        yield f"the gradient of {name} alone", partial(_with_gradient_of, bout, name)


def _with_inputs(bout: Bout, layout: Layout) -> Trial:
    return _guarded(bout, inputs={**bout.trial.inputs, **_laid_out(bout.trial, layout)})


def _with_gradient_of(bout: Bout, name: str) -> Trial:
    inputs = {
        other: value.detach() if isinstance(value, Tensor) and other != name else value
        for other, value in bout.trial.inputs.items()
    }
    # which outputs carry a gradient now is for the first call to tell
    return _guarded(bout, inputs=inputs, differentiated=(name,), output_gradients={})


def _laid_out(trial: Trial, layout: Layout) -> dict[str, Tensor]:
    """The inputs that change, by name."""
    found: dict[str, Tensor] = {}
    for name, value in trial.inputs.items():
        if type(value) is not Tensor or not value.is_floating_point() or value.numel() == 0:
            continue
        if layout is expanded and name in trial.target.overwrites:
            continue
        other = layout(value.detach())
        if other is not None:
            found[name] = other.requires_grad_(value.requires_grad)
    return found


def _guarded(bout: Bout, **changes: Any) -> Trial:
    """The trial with changes, in guard zones as long as the longest tensor of the probe."""
    given = {"inputs": bout.trial.inputs, "output_gradients": bout.trial.output_gradients, **changes}
    tensors = [*given["inputs"].values(), *given["output_gradients"].values(), *bout.known.results.values()]
    lengths = [(max(extent(each), each.numel()), each.element_size()) for each in tensors if isinstance(each, Tensor)]
    longest_bytes = max(length for length, _ in lengths) * max(4, *(size for _, size in lengths))
    return replace(bout.trial, guard_bytes=-(-max(longest_bytes, GUARD_BYTES) // 512) * 512, **changes)


def _is_chosen(trial: Trial) -> bool:
    elements = max(value.numel() for value in trial.inputs.values() if isinstance(value, Tensor))
    sizes = [math.prod(case.axes.values()) for case in trial.target.cases if case.dtype is trial.case.dtype]
    smallest = math.prod(trial.case.axes.values()) <= min(sizes, default=0)
    return 0 < elements <= (MOST_ELEMENTS if smallest else SMALL_ELEMENTS)
