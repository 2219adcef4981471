"""Runs the kernels of residual addition and RMSNorm on CPU tensors under TRITON_INTERPRET=1; prints errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import torch
from torch import Tensor

from warpsmith.kernels.fused_add_rms_norm import (
    FusedAddRMSNormFunction,
    fused_add_rms_norm_backward,
    fused_add_rms_norm_forward,
    fused_add_rms_norm_reference,
)

SHAPES = ((5, 37), (1, 128), (2, 3, 64), (4, 1), (0, 16))
CONVENTIONS = (("llama", 0.0), ("gemma", 1.0))
EPS = 1e-6


def largest_errors(
    shape: tuple[int, ...], dtype: torch.dtype, casting: str, offset: float, has_weight: bool, stream: bool
) -> dict[str, float]:
    """Largest absolute difference of y, s, ds and dw to float64. stream: whether a gradient comes by the residual.

    The exact sum is the rounded one: normalizing it is what the kernel is asked for.
    """
    generator = torch.Generator().manual_seed(0)

    def normal(*sizes: int) -> Tensor:
        return torch.randn((*sizes, 2), generator=generator).to(dtype)[..., 0]

    x, residual, dy, ds_out = (normal(*shape) for _ in range(4))
    weight = (1.0 - offset + 0.1 * normal(shape[-1])).contiguous() if has_weight else None
    y, s, rstd = fused_add_rms_norm_forward(x, residual, weight, EPS, offset, casting, in_place=False)
    ds, dw = fused_add_rms_norm_backward(dy, ds_out if stream else None, s, weight, rstd, offset, casting)
    errors = {"in place": _in_place_differs(x, residual, weight, offset, casting, y, s)}

    exact_s = s.double().requires_grad_()
    exact_weight = None if weight is None else weight.double().requires_grad_()
    exact_y, _ = fused_add_rms_norm_reference(exact_s, torch.zeros_like(exact_s), exact_weight, EPS, offset, casting)
    loss = (exact_y * dy.double()).sum()
    (loss + (exact_s * ds_out.double()).sum() if stream else loss).backward()
    assert exact_s.grad is not None
    errors |= {"y": _largest(y, exact_y.detach()), "ds": _largest(ds, exact_s.grad)}
    errors["s"] = _largest(s, (x + residual).double())
    if exact_weight is not None:
        assert dw is not None and exact_weight.grad is not None
        errors["dw"] = _largest(dw, exact_weight.grad)
    return errors


def autograd_errors() -> dict[str, float]:
    """Of gradients that autograd adds up itself; 1.0 for two inputs whose gradients share memory."""
    generator = torch.Generator().manual_seed(1)
    start = [torch.randn(4, 8, generator=generator) for _ in range(2)]
    weight = 1 + 0.1 * torch.randn(8, generator=generator)

    def gradients(apply: Any, dtype: torch.dtype, which: str) -> list[Tensor]:
        x, residual = (tensor.to(dtype, copy=True).requires_grad_() for tensor in start)
        for _ in range(2):
            # A layer whose input is its own residual, and one whose y or whose sum is not used.
            y, s = apply(x, residual, weight.to(dtype), EPS, 0.0, "gemma")
            if which == "twice":
                y, s = apply(y, y, None, EPS, 0.0, "gemma")
            used = {"y": (y,), "s": (s,)}.get(which, (y, s))
            torch.stack([(output**3).sum() for output in used]).sum().backward()
        assert x.grad is not None and residual.grad is not None
        return [x.grad, residual.grad]

    errors = {}
    for which in ("both", "y", "s", "twice"):
        found = gradients(FusedAddRMSNormFunction.apply, torch.float32, which)
        exact = gradients(fused_add_rms_norm_reference, torch.float64, which)
        errors[which] = max(
            _largest(ours, theirs) / float(theirs.abs().max()) for ours, theirs in zip(found, exact, strict=True)
        )
        errors[f"{which} shared"] = float(found[0].data_ptr() == found[1].data_ptr())
    return errors


def _in_place_differs(
    x: Tensor, residual: Tensor, weight: Tensor | None, offset: float, casting: str, y: Tensor, s: Tensor
) -> float:
    x, residual = x.contiguous().clone(), residual.contiguous().clone()
    found = fused_add_rms_norm_forward(x, residual, weight, EPS, offset, casting, in_place=True)
    written = found[0] is x and found[1] is residual
    return 0.0 if written and torch.equal(x, y) and torch.equal(residual, s) else 1.0


def _largest(found: Tensor, exact: Tensor) -> float:
    assert found.shape == exact.shape, (found.shape, exact.shape)
    difference = (found.double() - exact).abs()
    return float(difference.max()) if difference.numel() else 0.0


def main() -> None:
    errors = {"autograd-float32-": autograd_errors()}
    for shape, dtype, (casting, offset), has_weight, stream in itertools.product(
        SHAPES, (torch.float32, torch.float16), CONVENTIONS, (True, False), (True, False)
    ):
        sizes, short = "x".join(map(str, shape)), str(dtype).removeprefix("torch.")
        name = f"{sizes}-{short}-{casting}-weight={has_weight}-stream={stream}"
        errors[name] = largest_errors(shape, dtype, casting, offset, has_weight, stream)
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
