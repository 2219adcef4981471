"""Vector addition, z = x + y: the smallest kernel with all that an op needs. As ∂z/∂x = ∂z/∂y = 1, dx = dy = dz."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from warpsmith.kernels.arguments import cdiv, distinct, expect_floating, expect_one_device, expect_shape, runs_triton


@triton.jit
def _vector_add_forward_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK_SIZE: tl.constexpr):
    """One program adds one block of x, y and z, (n,) each and contiguous."""
    at = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + at, mask=mask).to(tl.float32)
    tl.store(z_ptr + at, (x + y).to(z_ptr.dtype.element_ty), mask=mask)


class VectorAddFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        z = torch.empty_like(x, memory_format=torch.contiguous_format)
        n, block_size = z.numel(), 1024
        if n > 0:
            grid = (cdiv(n, block_size),)
            _vector_add_forward_kernel[grid](x.contiguous(), y.contiguous(), z, n, BLOCK_SIZE=block_size, num_warps=4)
        return z

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor, Tensor]:
        return dz, dz


def vector_add(x: Tensor, y: Tensor) -> Tensor:
    """x + y, of equal shape and dtype (fp32, fp16 or bf16). Raises TypeError and ValueError where they are not."""
    expect_floating("vector_add", x=x, y=y)
    expect_shape("vector_add", "y", y, tuple(x.shape))
    expect_one_device("vector_add", x=x, y=y)
    if y.dtype != x.dtype:
        raise TypeError(f"vector_add: y must have the dtype of x, {x.dtype}, found {y.dtype}")
    if not runs_triton("vector_add", x):
        return vector_add_reference(x, y)
    z: Tensor = VectorAddFunction.apply(x, distinct(y, x))
    return z


def vector_add_reference(x: Tensor, y: Tensor) -> Tensor:
    """x + y by plain torch."""
    return x + y
