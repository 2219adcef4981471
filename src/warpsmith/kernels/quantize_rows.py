"""Quantizing rows to int8 or float8_e4m3fn by their largest magnitude: the Triton kernel and how it is launched.

For a row x, with Q = 127 for int8 and 448 for float8_e4m3fn:

    s = max |x| / Q
    q = round(x / s), to the nearest, half to even

both in fp32.

Owns the kernel and the plain torch reference. Must not know the rest of warpsmith.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from warpsmith.kernels.arguments import (
    as_rows,
    block_holding,
    expect_float8_hardware,
    expect_floating,
    expect_no_gradient,
    expect_quantized,
    row_stride,
    runs_triton,
)

#: The largest magnitude that quantize_rows gives. float8_e4m3fn has no larger one.
_LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
#: What a program reads of a row at a time. Chosen.
_CHUNK_SIZE = 8192


@triton.jit
def _quantize_rows_kernel(
    x_ptr,  # (n_rows, n_cols), inner stride 1
    x_row_stride,
    q_ptr,  # (n_rows, n_cols), contiguous, int8 or float8_e4m3fn
    scale_ptr,  # (n_rows,), fp32
    n_cols,
    INT8: tl.constexpr,
    LARGEST: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One program reads one row twice, in chunks: for its largest magnitude, then to quantize it."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE)
    x_ptr += row * x_row_stride
    q_ptr += row * n_cols

    lane_largest = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        # A NaN counts as infinity: a maximum would pass over it.
        lane_largest = tl.maximum(lane_largest, tl.where(x == x, tl.abs(x), float("inf")))
    scale = tl.div_rn(tl.max(lane_largest, axis=0), LARGEST)
    finite = scale < float("inf")
    divisor = tl.where((scale > 0.0) & finite, scale, 1.0)
    tl.store(scale_ptr + row, tl.where(finite, divisor, float("nan")))

    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        # A scale that is subnormal is so coarse that a quotient may exceed the largest.
        q = tl.minimum(tl.maximum(tl.div_rn(tl.where(finite, x, 0.0), divisor), -LARGEST), LARGEST)
        if INT8:
            q = _rounded_half_to_even(q)
        tl.store(q_ptr + cols, q.to(q_ptr.dtype.element_ty), mask=cols < n_cols)


@triton.jit
def _rounded_half_to_even(x):
    """Of magnitudes under 2²²: 1.5 · 2²³ leaves no bits behind the point, and addition rounds half to even."""
    return (x + 12582912.0) - 12582912.0


def quantize_rows(x: Tensor, dtype: torch.dtype = torch.int8) -> tuple[Tensor, Tensor]:
    """(q, scale): q of the shape of x, contiguous, and scale, (rows,) of fp32, one for each row of x.reshape(-1, K).

    Of x, (rows, K), q * scale[:, None] is about x. Where it has more dimensions, flatten it first, as quantized_matmul
    takes two alone; its docstring has an example.

    The largest magnitude of a row becomes 127 in int8 or 448 in float8_e4m3fn. A row of zeros, or one whose scale
    would be less than the least positive fp32, has q 0 and scale 1. A row with NaN or infinity has q 0 and scale NaN,
    so that all that is computed from it is NaN. For inference: no gradient.
    Where Triton cannot run, quantize_rows_reference computes.

    Args:
        x: (..., K), fp32, fp16 or bf16. On a GPU, the current one, as with any Triton launch.
        dtype: int8 or float8_e4m3fn.

    Raises:
        TypeError: for another dtype.
        ValueError: where there is no last dimension, or a gradient is required.
        RuntimeError: for float8 on a GPU without it, of a compute capability below 8.9.
    """
    expect_floating("quantize_rows", x=x)
    expect_quantized("quantize_rows", "dtype", dtype)
    if x.ndim == 0:
        raise ValueError("quantize_rows: x must have a last dimension, found shape ()")
    expect_no_gradient("quantize_rows", x=x)
    if not runs_triton("quantize_rows", x):
        return quantize_rows_reference(x, dtype)
    expect_float8_hardware("quantize_rows", dtype, x)
    return _quantize_rows_forward(x, dtype)


def _quantize_rows_forward(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    q = torch.empty(x.shape, dtype=dtype, device=x.device)
    if x.shape[-1] == 0:
        return q, torch.ones(x.shape[:-1], dtype=torch.float32, device=x.device).flatten()
    rows = as_rows(x)
    n_rows, n_cols = rows.shape
    scale = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    block_size = block_holding(n_cols) if n_cols < _CHUNK_SIZE else _CHUNK_SIZE
    if n_rows > 0:
        _quantize_rows_kernel[(n_rows,)](
            rows,
            row_stride(rows),
            q,
            scale,
            n_cols,
            INT8=dtype == torch.int8,
            LARGEST=_LARGEST[dtype],
            BLOCK_SIZE=block_size,
            num_warps=min(max(block_size // 512, 1), 16),
        )
    return q, scale


def quantize_rows_reference(x: Tensor, dtype: torch.dtype = torch.int8) -> tuple[Tensor, Tensor]:
    """The same by plain torch, in fp32, but in float64 where x is."""
    x = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    largest = x.abs().amax(dim=-1) if x.shape[-1] else x.new_zeros(x.shape[:-1])
    scale = largest / _LARGEST[dtype]
    finite = scale.isfinite()
    divisor = torch.where((scale > 0) & finite, scale, 1.0)
    q = torch.where(finite[..., None], x, 0.0) / divisor[..., None]
    q = q.clamp(-_LARGEST[dtype], _LARGEST[dtype])
    q = (q.round() if dtype == torch.int8 else q).to(dtype)
    return q, torch.where(finite, divisor, torch.nan).flatten()
