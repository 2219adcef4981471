"""Runs the cross-entropy kernels on CPU tensors under TRITON_INTERPRET=1 and prints their largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import itertools
import json
import sys

import torch
from torch import Tensor
from torch.autograd import forward_ad

from warpsmith.kernels.cross_entropy import cross_entropy, cross_entropy_reference

# One chunk, a prime width, rows that begin anywhere, chunks and a rest, a row within one access, one class, nothing.
SHAPES = ((5, 40), (7, 37), (2, 3, 1031), (3, 4104), (9, 3), (3, 1), (), (0, 16))
SETTINGS = ("mean", "sum", "none", "smoothed", "z-loss", "row strided", "in place")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
IGNORED, WRONG = -7, 10**9


def largest_errors(shape: tuple[int, ...], dtype: torch.dtype, setting: str) -> dict[str, float]:
    """Largest difference to float64 of the loss and of the gradients of two backward passes, as a share of 1 + it."""
    leaf, target, options = arguments(shape, dtype, setting)
    logits = leaf * 1.0 if setting == "in place" else leaf
    dloss = torch.full((target.shape if setting == "none" else ()), 0.7)
    loss = cross_entropy(logits, target, in_place=setting == "in place", **options)
    first, again = gradients_of(loss, leaf, dloss, twice=setting != "in place")
    assert torch.equal(loss, cross_entropy(leaf.detach(), target, **options)) or loss.isnan().all()

    exact_logits = leaf.detach().double().requires_grad_()
    exact_loss = cross_entropy_reference(exact_logits, target, **options)
    (exact,) = torch.autograd.grad(exact_loss, exact_logits, dloss.double())
    pairs = {"loss": (loss, exact_loss), "gradient": (first, exact), "gradient again": (again, exact)}
    return {name: largest(found, expected.detach()) for name, (found, expected) in pairs.items()}


def arguments(shape: tuple[int, ...], dtype: torch.dtype, setting: str) -> tuple[Tensor, Tensor, dict[str, object]]:
    generator = torch.Generator().manual_seed(0)
    classes = shape[-1] if shape else 5
    width = 2 * classes + 1 if setting == "row strided" else classes
    logits = 3.0 * torch.randn((*shape[:-1], width), generator=generator).to(dtype)
    target = torch.randint(classes, shape[:-1], generator=generator)
    if target.numel() > 2:
        target.view(-1)[1] = IGNORED
    options = {"ignore_index": IGNORED, "reduction": setting if setting in ("sum", "none") else "mean"}
    options |= {"smoothed": {"label_smoothing": 0.3}, "z-loss": {"z_loss": 0.01}}.get(setting, {})
    return logits[..., :classes].requires_grad_(), target, options


def gradients_of(loss: Tensor, logits: Tensor, dloss: Tensor, *, twice: bool) -> tuple[Tensor, Tensor]:
    """Of a first and a second backward pass, which have memory of their own."""
    (first,) = torch.autograd.grad(loss, logits, dloss, retain_graph=True)
    if not twice:
        try:
            torch.autograd.grad(loss, logits, dloss)
        except RuntimeError as error:
            assert "in_place" in str(error), error
            return first, first
        raise AssertionError("a second backward pass of in_place=True went through")
    before = first.clone()
    (again,) = torch.autograd.grad(loss, logits, dloss)
    assert torch.equal(first.nan_to_num(), before.nan_to_num())
    assert first.numel() == 0 or first.data_ptr() != again.data_ptr()
    return first, again


def largest(found: Tensor, exact: Tensor) -> float:
    assert found.shape == exact.shape, (found.shape, exact.shape)
    assert torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isinf(), exact.isinf()), (found, exact)
    difference = ((found.double() - exact).abs() / (1 + exact.abs()))[exact.isfinite()]
    return float(difference.max()) if difference.numel() else 0.0


def check_awkward_rows() -> None:
    """Wrong targets, infinities, NaN, nothing but -inf, all ignored: as float64 has it, and nothing in other rows."""
    generator = torch.Generator().manual_seed(0)
    for columns, smoothing in itertools.product((37, 40, 1031), (0.0, 0.2)):
        logits = torch.randn((9, columns), generator=generator)
        target = torch.randint(columns, (9,), generator=generator)
        target[0], target[1], target[2], target[3] = WRONG, -1, IGNORED, columns
        logits[2] = float("nan")
        logits[4, 5], logits[5, 7], logits[6, 3], logits[7] = float("nan"), float("inf"), -float("inf"), -float("inf")
        target[6] = 3
        options = {"ignore_index": IGNORED, "label_smoothing": smoothing, "reduction": "none"}
        logits.requires_grad_()
        loss = cross_entropy(logits, target, **options)
        first, again = gradients_of(loss, logits, torch.ones(9), twice=True)
        exact_logits = logits.detach().double().requires_grad_()
        exact_loss = cross_entropy_reference(exact_logits, target, **options)
        (exact,) = torch.autograd.grad(exact_loss, exact_logits, torch.ones(9).double())
        assert largest(loss, exact_loss.detach()) < 1e-6
        assert max(largest(first, exact), largest(again, exact)) < 1e-6
        assert (first[2] == 0).all() and first[[0, 1, 3, 4, 5, 7]].isnan().all() and first[8].isfinite().all()
    logits, ignored = torch.randn(4, 40, requires_grad=True), torch.full((4,), IGNORED)
    loss = cross_entropy(logits, ignored, ignore_index=IGNORED)
    assert loss.isnan() and (torch.autograd.grad(loss, logits)[0] == 0).all()


def check_nan_and_infinity_that_come_in() -> None:
    """What is ignored has the gradient 0 nevertheless, in a first and a second pass."""
    target, dloss = (
        torch.tensor([IGNORED, 4, IGNORED, 5]),
        torch.tensor([float("nan"), float("nan"), float("inf"), 1.0]),
    )
    for dtype in DTYPES:
        logits = torch.randn((4, 37), generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
        loss = cross_entropy(logits, target, ignore_index=IGNORED, reduction="none")
        for each in gradients_of(loss, logits, dloss, twice=True):
            assert (each[[0, 2]] == 0).all() and each[1].isnan().all() and each[3].isfinite().all()
        loss = cross_entropy(logits, torch.full((4,), IGNORED), ignore_index=IGNORED)
        for each in gradients_of(loss, logits, torch.tensor(float("nan")), twice=True):
            assert (each == 0).all()


def check_writes_to_logits_that_hold_the_gradient() -> None:
    """Another loss of the same logits in place, or anybody else: torch tells of both."""
    target = torch.arange(4)
    for dtype in DTYPES:
        leaf = torch.randn((4, 37), generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
        twice = leaf * 1
        zeroed = leaf * 1
        losses = [
            cross_entropy(twice, target, in_place=True) + cross_entropy(twice, target, in_place=True),
            cross_entropy(zeroed, target, in_place=True),
        ]
        with torch.no_grad():
            zeroed.zero_()
        for loss in losses:
            assert "modified by an inplace operation" in refusal(loss)


def refusal(loss: Tensor) -> str:
    try:
        loss.backward()
    except RuntimeError as error:
        return str(error)
    return ""


def check_forward_mode_is_refused() -> None:
    """A tangent would be lost. Without a gradient none is computed."""
    logits, target = torch.randn(4, 37), torch.arange(4)
    with forward_ad.dual_level():
        try:
            cross_entropy(forward_ad.make_dual(logits, torch.ones_like(logits)), target)
        except NotImplementedError:
            pass
        else:
            raise AssertionError("a tangent was lost")
    logits.requires_grad_()
    with torch.no_grad():
        assert not cross_entropy(logits, target, in_place=False).requires_grad


def main() -> None:
    check_awkward_rows()
    check_nan_and_infinity_that_come_in()
    check_writes_to_logits_that_hold_the_gradient()
    check_forward_mode_is_refused()
    errors = {}
    for shape, dtype, setting in itertools.product(SHAPES, DTYPES, SETTINGS):
        if shape == () and setting == "row strided":
            continue
        at = (5,) if shape == () else shape
        name = f"{'x'.join(map(str, shape))}-{str(dtype).removeprefix('torch.')}-{setting}"
        errors[name] = largest_errors(at, dtype, setting)
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
