from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from warpsmith.measure.compiled.gradients import gradients


class ScaledWithSum(torch.autograd.Function):
    """(factor · x · w, the sum of x), and how often its backward pass has run."""

    runs = 0

    @staticmethod
    def forward(ctx: Any, factor: float, x: Tensor, w: Tensor | None, name: str) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, w)
        ctx.factor = factor
        return factor * x * (1.0 if w is None else w), x.sum()

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dsum: Tensor) -> Any:
        ScaledWithSum.runs += 1
        x, w = ctx.saved_tensors
        dw = None if w is None else (ctx.factor * dy * x).sum(0)
        return None, ctx.factor * dy * (1.0 if w is None else w) + dsum, dw, None


def leaves() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(4, 3, generator=generator, requires_grad=True),
        torch.randn(3, generator=generator, requires_grad=True),
    )


def assert_as_autograd(outputs: tuple[Tensor, ...], inputs: tuple[Tensor, ...]) -> None:
    starts = [torch.full_like(out, 1.0 + index) for index, out in enumerate(outputs)]
    expected = torch.autograd.grad(outputs, inputs, starts, retain_graph=True, allow_unused=True)
    found = gradients(outputs, inputs, starts, retain_graph=True, allow_unused=True)
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or theirs is None or torch.equal(ours, theirs)


def test_gradients_of_one_function_are_autograds() -> None:
    x, w = leaves()
    y, total = ScaledWithSum.apply(2.0, x, w, "scale")

    assert_as_autograd((y, total), (x, w))


def test_an_output_without_a_gradient_counts_as_zeros() -> None:
    x, w = leaves()
    y, _ = ScaledWithSum.apply(2.0, x, w, "scale")

    assert_as_autograd((y,), (w, x))


def test_paths_that_meet_add_up_and_each_node_runs_once() -> None:
    x, w = leaves()
    y, total = ScaledWithSum.apply(3.0, x.t().contiguous().t(), None, "scale")
    z = (y * w).exp() + y[1:].sum() * total
    before = ScaledWithSum.runs
    gradients(z, (x,), [torch.ones_like(z)])

    assert ScaledWithSum.runs == before + 1
    assert_as_autograd((z, y), (x, w, y))


def test_what_no_wanted_input_needs_is_not_run() -> None:
    x, w = leaves()
    y, _ = ScaledWithSum.apply(3.0, x, None, "scale")
    before = ScaledWithSum.runs

    assert_as_autograd((y.detach() + w * y.detach(),), (w, x))
    gradients((y + w,), (w,), [torch.ones(4, 3)])

    assert ScaledWithSum.runs == before
