"""One call of an implementation in a mode, as a function of an input set: what is captured, timed and weighed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputSet, as_outputs, bad_target

#: Runs the mode on the input set of that index and returns what it produced.
Call = Callable[[int], tuple[Tensor, ...]]


def prepared(implementation: Implementation, mode: Mode, sets: Sequence[InputSet]) -> Call:
    """The timed part of a mode. For backward alone the forward pass runs here, once a set, outside what is timed.

    Raises WorkerError (bad_target), as the call does, for outputs that are no tensors or not those of the reference.
    """
    if mode is Mode.FORWARD:
        return lambda index: as_outputs(implementation.call(sets[index].inputs))
    if mode is Mode.FULL:
        return lambda index: _forward_and_gradients(implementation, sets[index])
    outputs = [as_outputs(implementation.call(each.inputs)) for each in sets]
    return lambda index: _gradients_of(outputs[index], sets[index], keep=True)


def _forward_and_gradients(implementation: Implementation, each: InputSet) -> tuple[Tensor, ...]:
    """Outputs, then gradients: whoever keeps what a call returns keeps all that it wrote."""
    outputs = as_outputs(implementation.call(each.inputs))
    return (*outputs, *_gradients_of(outputs, each))


def _gradients_of(outputs: tuple[Tensor, ...], each: InputSet, *, keep: bool = False) -> tuple[Tensor, ...]:
    floating = [out for out in outputs if out.is_floating_point()]
    if len(floating) != len(each.output_gradients):
        raise bad_target(
            f"call returned {len(floating)} floating-point tensors and reference {len(each.output_gradients)}; "
            "expected as many"
        )
    pairs = [(out, g) for out, g in zip(floating, each.output_gradients, strict=True) if out.requires_grad]
    if not pairs:
        raise bad_target("no output of call carries a gradient; a kernel without a backward pass has the mode forward")
    differentiable: list[Any] = [out for out, _ in pairs]
    gradients = torch.autograd.grad(
        differentiable, each.differentiated, [g for _, g in pairs], retain_graph=keep, allow_unused=True
    )
    return tuple(gradient for gradient in gradients if gradient is not None)
