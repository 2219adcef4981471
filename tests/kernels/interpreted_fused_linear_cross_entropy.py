"""Runs fused_linear_cross_entropy on CPU tensors under TRITON_INTERPRET=1 and prints its largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from typing import Any

import torch
from torch import Tensor

#: The module: of the package, it is the function.
fused = importlib.import_module("warpsmith.kernels.fused_linear_cross_entropy")

# One chunk, two, a last one that is shorter, one row, none.
SHAPES = ((4, 16), (8, 16), (3, 3, 24), (1, 16), (0, 16))
SETTINGS: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "smoothed": {"label_smoothing": 0.3, "z_loss": 0.01},
}
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CLASSES = 37
CHUNK_ROWS = 4


def largest_errors(shape: tuple[int, ...], dtype: torch.dtype, settings: dict[str, Any]) -> dict[str, float]:
    """The error of the loss, and of the gradients of two backward passes, as a share of the norm of each."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(shape, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn((CLASSES, shape[-1]), generator=generator).to(dtype).requires_grad_()
    target = torch.randint(CLASSES, shape[:-1], generator=generator)
    target.view(-1)[1::3] = -100
    dloss = torch.tensor(0.7)
    loss = fused.fused_linear_cross_entropy(hidden, weight, target, **settings)
    first = torch.autograd.grad(loss, (hidden, weight), dloss, retain_graph=True)
    before = [each.clone() for each in first]
    again = torch.autograd.grad(loss, (hidden, weight), dloss)
    for kept, held, other in zip(first, before, again, strict=True):
        assert torch.equal(kept, held) and (kept.numel() == 0 or kept.data_ptr() != other.data_ptr())
    check_one_gradient_each(hidden, weight, target, settings, loss, again)

    exact_hidden, exact_weight = (each.detach().double().requires_grad_() for each in (hidden, weight))
    exact_loss = fused.fused_linear_cross_entropy_reference(exact_hidden, exact_weight, target, **settings)
    exact = torch.autograd.grad(exact_loss, (exact_hidden, exact_weight), dloss.double())
    names = ("loss", "dhidden", "dweight", "dhidden again", "dweight again")
    pairs = zip((loss, *first, *again), (exact_loss, *exact, *exact), strict=True)
    return {name: error(found, expected.detach()) for name, (found, expected) in zip(names, pairs, strict=True)}


def check_one_gradient_each(
    hidden: Tensor, weight: Tensor, target: Tensor, settings: dict[str, Any], loss: Tensor, both: tuple[Tensor, ...]
) -> None:
    """A gradient does not depend on whether the other is needed, nor the loss on either."""
    dloss = torch.tensor(0.7)
    for which in (0, 1):
        inputs = [hidden.detach(), weight.detach()]
        inputs[which].requires_grad_()
        alone = fused.fused_linear_cross_entropy(*inputs, target, **settings)
        torch.autograd.grad(alone, inputs[which], dloss, retain_graph=True)
        (again,) = torch.autograd.grad(alone, inputs[which], dloss)
        assert torch.equal(again, both[which])
        assert torch.equal(alone, loss) or loss.isnan()
    neither = fused.fused_linear_cross_entropy(hidden.detach(), weight.detach(), target, **settings)
    assert not neither.requires_grad and (torch.equal(neither, loss) or loss.isnan())


def check_one_tensor_for_both() -> None:
    """As many rows as classes: its gradient is the sum of both."""
    both = torch.randn((CHUNK_ROWS, 16), generator=torch.Generator().manual_seed(0)).requires_grad_()
    target = torch.arange(CHUNK_ROWS).flip(0)
    (found,) = torch.autograd.grad(fused.fused_linear_cross_entropy(both, both, target), both)
    exact = both.detach().double().requires_grad_()
    exact_loss = fused.fused_linear_cross_entropy_reference(exact, exact, target)
    assert error(found, torch.autograd.grad(exact_loss, exact)[0]) < 1e-6


def check_a_backward_pass_under_another_autocast() -> None:
    """Of fp16 the first computes gradients anew, of the others the second."""
    target = torch.arange(4)
    for dtype in DTYPES:
        generator = torch.Generator().manual_seed(0)
        inputs = [torch.randn((n, 16), generator=generator).to(dtype).requires_grad_() for n in (4, CLASSES)]
        loss = fused.fused_linear_cross_entropy(*inputs, target)
        outside = [torch.autograd.grad(loss, inputs, retain_graph=True) for _ in range(2)][1]
        with torch.autocast("cpu", torch.float16 if dtype == torch.bfloat16 else torch.bfloat16):
            inside = torch.autograd.grad(loss, inputs)
        assert all(torch.equal(a, b) for a, b in zip(inside, outside, strict=True))


def error(found: Tensor, exact: Tensor) -> float:
    assert found.shape == exact.shape, (found.shape, exact.shape)
    assert torch.equal(found.isnan(), exact.isnan())
    norm = exact.norm()
    return float((found.double() - exact).norm() / norm) if norm > 0 else float(found.abs().sum())


def main() -> None:
    check_one_tensor_for_both()
    check_a_backward_pass_under_another_autocast()
    errors = {}
    fused._ROWS = CHUNK_ROWS
    for dtype in DTYPES:
        fused.LOGITS_BYTES = CHUNK_ROWS * CLASSES * dtype.itemsize
        for shape, (name, settings) in itertools.product(SHAPES, SETTINGS.items()):
            label = f"{'x'.join(map(str, shape))}-{str(dtype).removeprefix('torch.')}-{name}"
            errors[label] = largest_errors(shape, dtype, settings)
    json.dump({name: {k: v for k, v in each.items() if v == v} for name, each in errors.items()}, sys.stdout)


if __name__ == "__main__":
    main()
