"""Runs the softmax kernels on CPU tensors under TRITON_INTERPRET=1 and prints their largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import itertools
import json
import sys

import torch
from torch import Tensor

from warpsmith.kernels.softmax import softmax_backward, softmax_forward, softmax_reference

#: Several rows a program; one; rows that a program walks over; rows in chunks, the last of them partly filled.
SHAPES = ((67, 128), (2, 3, 37), (1, 1021), (4, 1), (3, 4099), (7, 16384), (2, 20011), (2, 40009), (1, 65536), (0, 16))


def largest_errors(shape: tuple[int, ...], dtype: torch.dtype, strided: bool) -> dict[str, float]:
    """Largest difference to float64 of y and dx, as a share of the largest value of its row."""
    generator = torch.Generator().manual_seed(0)
    x, dy = (torch.randn((*shape, 2), generator=generator).to(dtype)[..., 0] for _ in range(2))
    if not strided:
        x, dy = x.contiguous(), dy.contiguous()
    y = softmax_forward(x)
    dx = softmax_backward(dy, y)

    exact_x = x.double().requires_grad_()
    exact_y = softmax_reference(exact_x)
    exact_y.backward(dy.double())
    assert exact_x.grad is not None
    return {"y": _largest(y, exact_y.detach()), "dx": _largest(dx, exact_x.grad)}


def special_values_differ(columns: int) -> dict[str, float]:
    """1.0 where a row of special values is not what torch makes of it, and a block lies in front of them."""
    x = torch.randn((6, columns), generator=torch.Generator().manual_seed(0))
    x[0] = -torch.inf
    x[1, 3], x[2, -2], x[3, -2] = torch.nan, torch.inf, -torch.inf
    x[4, :-5] = -torch.inf
    x[5] = 1e30
    y, expected = softmax_forward(x), torch.softmax(x, dim=-1)
    same = torch.isclose(y, expected, rtol=1e-5, atol=1e-7, equal_nan=True).all(dim=-1)
    return {f"row {row}": 0.0 if same[row] else 1.0 for row in range(6)}


def _largest(found: Tensor, exact: Tensor) -> float:
    assert found.shape == exact.shape, (found.shape, exact.shape)
    if not exact.numel():
        return 0.0
    scale = exact.abs().amax(dim=-1, keepdim=True).clamp_min(1e-6)
    return float(((found.double() - exact).abs() / scale).max())


def main() -> None:
    errors = {f"special-float32-{columns}": special_values_differ(columns) for columns in (64, 20000, 70000)}
    for shape, dtype, strided in itertools.product(SHAPES, (torch.float32, torch.float16), (False, True)):
        name = f"{'x'.join(map(str, shape))}-{str(dtype).removeprefix('torch.')}-strided={strided}"
        errors[name] = largest_errors(shape, dtype, strided)
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
