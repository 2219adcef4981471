"""Runs the SwiGLU kernels on CPU tensors under TRITON_INTERPRET=1 and prints their largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import torch
from torch import Tensor

from warpsmith.kernels.swiglu import swiglu_backward, swiglu_forward, swiglu_reference

# One block, a prime size, rows in one, one row, blocks and a rest, one value, nothing.
SHAPES = ((5, 37), (1, 128), (2, 3, 64), (3, 1721), (1,), (4, 1), (0, 16), (3, 0))
LAYOUTS = ("contiguous", "halves", "expanded dy", "transposed", "not finite")
DTYPES = (torch.float32, torch.float16)


def largest_errors(shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> dict[str, float]:
    """Largest difference to float64 of y, dgate and dup, as a share of 1 + what is expected."""
    dy, gate, up = arguments(shape, dtype, layout)
    y = swiglu_forward(gate, up)
    dgate, dup = swiglu_backward(dy, gate, up)
    for alone, both in zip(one_gradient_each(dy, gate, up), (dgate, dup), strict=True):
        assert both is not None and alone is not None and torch.equal(alone.nan_to_num(0.5), both.nan_to_num(0.5))

    exact_gate, exact_up = (tensor.double().requires_grad_() for tensor in (gate, up))
    exact_y = swiglu_reference(exact_gate, exact_up)
    exact_y.backward(dy.double())
    pairs = {"y": (y, exact_y), "dgate": (dgate, exact_gate.grad), "dup": (dup, exact_up.grad)}
    return {name: _largest(found, exact) for name, (found, exact) in pairs.items()}


def arguments(shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> tuple[Tensor, Tensor, Tensor]:
    """dy, gate and up."""
    generator = torch.Generator().manual_seed(0)
    columns = shape[-1]
    both = torch.randn((*shape[:-1], 2 * columns), generator=generator).to(dtype)
    dy = torch.randn(shape, generator=generator).to(dtype)
    gate, up = both[..., :columns], both[..., columns:]
    if layout == "not finite":
        bad = torch.tensor([float("nan"), float("inf"), -float("inf"), 60000.0, -60000.0], dtype=dtype)
        gate[..., :5], up[..., 7:12] = bad[:columns], bad[: max(0, columns - 7)]
    if layout == "halves":
        return dy, gate, up
    if layout == "expanded dy":
        return torch.ones((), dtype=dtype).expand(shape), gate, up.contiguous()
    if layout == "transposed":
        return dy, gate.mT.contiguous().mT if gate.ndim > 1 else gate, up.contiguous()
    return dy, gate.contiguous(), up.contiguous()


def one_gradient_each(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor | None, Tensor | None]:
    dgate, no_dup = swiglu_backward(dy, gate, up, needs_dup=False)
    no_dgate, dup = swiglu_backward(dy, gate, up, needs_dgate=False)
    assert no_dup is None and no_dgate is None
    return dgate, dup


def _largest(found: Any, exact: Any) -> float:
    assert found.shape == exact.shape, (found.shape, exact.shape)
    assert found.is_contiguous()
    # What is not finite is so in the same places and ways; a value beyond fp16 is infinite in it.
    exact = exact.detach().to(found.dtype).double()
    assert torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isinf(), exact.isinf()), (found, exact)
    difference = ((found.double() - exact).abs() / (1 + exact.abs()))[exact.isfinite()]
    return float(difference.max()) if difference.numel() else 0.0


def main() -> None:
    errors = {}
    for shape, dtype, layout in itertools.product(SHAPES, DTYPES, LAYOUTS):
        name = f"{'x'.join(map(str, shape))}-{str(dtype).removeprefix('torch.')}-{layout}"
        errors[name] = largest_errors(shape, dtype, layout)
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
