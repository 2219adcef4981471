"""What holds for the backward pass of every op with a gradient of the first order alone. Must not know any kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.autograd.function import once_differentiable

Gradients = TypeVar("Gradients")


def first_order(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """For the backward pass of an autograd function: a gradient of what it returns raises RuntimeError.

    torch's once_differentiable raises only where the incoming gradient requires one, which that of a sum does not. But
    the outgoing gradients depend on the saved tensors too: of a gradient penalty, a part would be missing silently.
    """
    once = once_differentiable(backward)

    @functools.wraps(backward)
    def of_first_order(ctx: Any, *gradients: torch.Tensor | None) -> Gradients:
        # Only where a graph of the gradients is recorded. torch.compile records none, and itself refuses a second pass.
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            gradients = tuple(None if each is None else each.detach().requires_grad_() for each in gradients)
        return once(ctx, *gradients)

    return of_first_order
