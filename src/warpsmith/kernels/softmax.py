"""Softmax over the last dimension: the Triton kernels of its forward and backward pass, and their autograd function.

For a row x of N values, with the maximum taken out so that no exponential overflows:

    m = max(x)
    d = Σ exp(x - m)
    y = exp(x - m) / d

A row longer than a block is read in chunks. Then m and d are those of what has been read so far, by the recurrence of
Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867, algorithm 3:

    m' = max(m, x)
    d' = d · exp(m - m') + exp(x - m')

Backward, from dy. As ∂y_i/∂x_j = y_i · (δ_ij - y_j),

    dx = y · (dy - Σ dy · y)

Owns the kernels, how they are launched and the plain torch reference. Must not know the rest of warpsmith.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from warpsmith.kernels.arguments import (
    as_rows,
    block_holding,
    cdiv,
    expect_floating,
    expect_last_dimension,
    runs_triton,
)
from warpsmith.kernels.first_order import first_order

#: The longest row that is held in the registers of one program; longer ones are read in chunks. Chosen: at 65536 a
#: program of 32 warps has fewer registers a thread than values.
MAX_BLOCK_SIZE = 32768

#: The longest row: beyond it, columns and chunks would be counted in more than 32 bits.
MAX_COLUMNS = 2**30

#: Values that a program of short rows holds at least, several rows together.
_TILE_SIZE = 2048

#: What a program reads of a long row at a time, of all tensors together. Chosen: two are loaded ahead.
_CHUNK_BYTES = 32768
_CHUNK_STAGES = 3


@triton.jit
def _softmax_forward_kernel(
    x_ptr,  # (n_rows, n_cols), inner stride 1
    x_row_stride,
    y_ptr,  # (n_rows, n_cols), contiguous, the dtype of x
    n_rows,
    n_cols,
    ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One program holds ROWS whole rows."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)

    x = tl.load(x_ptr + rows * x_row_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    exponential = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    y = exponential * (1.0 / tl.sum(exponential, axis=1, keep_dims=True))
    tl.store(y_ptr + rows * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_backward_kernel(
    dy_ptr,  # (n_rows, n_cols), inner stride 1
    dy_row_stride,
    y_ptr,  # (n_rows, n_cols), contiguous
    dx_ptr,  # (n_rows, n_cols), contiguous, the dtype of y
    n_rows,
    n_cols,
    ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One program holds ROWS whole rows."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)

    dy = tl.load(dy_ptr + rows * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + rows * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(dy * y, axis=1, keep_dims=True))
    tl.store(dx_ptr + rows * n_cols + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_long_forward_kernel(
    x_ptr,  # (n_rows, n_cols), inner stride 1
    x_row_stride,
    y_ptr,  # (n_rows, n_cols), contiguous, the dtype of x
    n_cols,
    CHUNK_SIZE: tl.constexpr,
    LOOP_STAGES: tl.constexpr,
):
    """One program reads one row twice, in chunks: for its maximum and sum, then for y.

    The sum is kept for each lane of a chunk, so that a chunk takes one reduction, of its maximum.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, CHUNK_SIZE)
    x_ptr += row * x_row_stride
    y_ptr += row * n_cols

    largest = -float("inf")
    shift = 0.0
    lane_sums = tl.zeros((CHUNK_SIZE,), dtype=tl.float32)
    for start in tl.range(0, n_cols, CHUNK_SIZE, num_stages=LOOP_STAGES):
        cols = start + lanes
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        before = largest
        largest = tl.maximum(largest, tl.max(x, axis=0))
        # While there is nothing but -inf, 0 is taken out: exp(-inf - 0) is 0 where exp(-inf + inf) is NaN.
        shift = tl.where(largest == -float("inf"), 0.0, largest)
        lane_sums = lane_sums * tl.exp(before - shift) + tl.exp(x - shift)
    # A row of -inf alone has the sum 0, and 0 · (1 / 0) is NaN, as torch has it.
    scale = 1.0 / tl.sum(lane_sums, axis=0)

    for start in tl.range(0, n_cols, CHUNK_SIZE, num_stages=LOOP_STAGES):
        cols = start + lanes
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - shift) * scale
        tl.store(y_ptr + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols)


@triton.jit
def _softmax_long_backward_kernel(
    dy_ptr,  # (n_rows, n_cols), inner stride 1
    dy_row_stride,
    y_ptr,  # (n_rows, n_cols), contiguous
    dx_ptr,  # (n_rows, n_cols), contiguous, the dtype of y
    n_cols,
    CHUNK_SIZE: tl.constexpr,
    LOOP_STAGES: tl.constexpr,
):
    """One program reads one row twice, in chunks: for Σ dy · y, then for dx."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, CHUNK_SIZE)
    dy_ptr += row * dy_row_stride
    y_ptr += row * n_cols
    dx_ptr += row * n_cols

    lane_sums = tl.zeros((CHUNK_SIZE,), dtype=tl.float32)
    for start in tl.range(0, n_cols, CHUNK_SIZE, num_stages=LOOP_STAGES):
        cols = start + lanes
        dy = tl.load(dy_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        lane_sums += dy * y
    dot = tl.sum(lane_sums, axis=0)

    for start in tl.range(0, n_cols, CHUNK_SIZE, num_stages=LOOP_STAGES):
        cols = start + lanes
        dy = tl.load(dy_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(dx_ptr + cols, (y * (dy - dot)).to(dx_ptr.dtype.element_ty), mask=cols < n_cols)


def softmax_forward(x: Tensor) -> Tensor:
    """y, (..., N), contiguous, of the dtype of x. x is (..., N), N at least 1."""
    rows = as_rows(x)
    n_rows, n_cols = rows.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if n_rows == 0:
        return y
    if n_cols > MAX_BLOCK_SIZE:
        _softmax_long_forward_kernel[(n_rows,)](
            rows,
            rows.stride(0),
            y,
            n_cols,
            CHUNK_SIZE=_CHUNK_BYTES // x.element_size(),
            LOOP_STAGES=_CHUNK_STAGES,
            num_warps=32,
        )
        return y
    tile_rows, block_size = _tile(n_cols)
    _softmax_forward_kernel[(cdiv(n_rows, tile_rows),)](
        rows,
        rows.stride(0),
        y,
        n_rows,
        n_cols,
        ROWS=tile_rows,
        BLOCK_SIZE=block_size,
        num_warps=_num_warps(block_size),
    )
    return y


def softmax_backward(dy: Tensor, y: Tensor) -> Tensor:
    """dx, (..., N), contiguous, of the dtype of y. dy and y are (..., N), y as softmax_forward returned it."""
    dy_rows = as_rows(dy)
    n_rows, n_cols = dy_rows.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if n_rows == 0:
        return dx
    if n_cols > MAX_BLOCK_SIZE:
        _softmax_long_backward_kernel[(n_rows,)](
            dy_rows,
            dy_rows.stride(0),
            y,
            dx,
            n_cols,
            CHUNK_SIZE=_CHUNK_BYTES // 2 // y.element_size(),
            LOOP_STAGES=_CHUNK_STAGES,
            num_warps=16,
        )
        return dx
    tile_rows, block_size = _tile(n_cols)
    _softmax_backward_kernel[(cdiv(n_rows, tile_rows),)](
        dy_rows,
        dy_rows.stride(0),
        y,
        dx,
        n_rows,
        n_cols,
        ROWS=tile_rows,
        BLOCK_SIZE=block_size,
        num_warps=_num_warps(block_size),
    )
    return dx


def _tile(n_cols: int) -> tuple[int, int]:
    """(ROWS, BLOCK_SIZE): a block holds a whole row, and short rows share a program."""
    block_size = block_holding(n_cols)
    return max(1, _TILE_SIZE // block_size), block_size


def _num_warps(block_size: int) -> int:
    """16 values of a tensor a thread, where there are not more than a program can have."""
    return min(max(block_size // 512, 4), 32)


class SoftmaxFunction(torch.autograd.Function):
    """Softmax on a GPU. The gradient is of the first order only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = softmax_forward(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return softmax_backward(dy, y)


def softmax(x: Tensor) -> Tensor:
    """Softmax over the last dimension of x, of up to 2^30 values.

    The output, (..., N), has the dtype of x, under torch.autocast too, where torch.softmax returns fp32. A row of
    -inf alone is NaN, and so is one with a NaN or with +inf, as in torch.
    Tensors on which Triton cannot run are computed by softmax_reference.

    Args:
        x: (..., N), fp32, fp16 or bf16. On a GPU, the current one, as with any Triton launch.

    Raises:
        TypeError: for another dtype.
        ValueError: where there is no last dimension, or N is 0 or, on a GPU, above 2^30.
    """
    expect_floating("softmax", x=x)
    expect_last_dimension("softmax", "x", x)
    if not runs_triton("softmax", x):
        return softmax_reference(x)
    if x.shape[-1] > MAX_COLUMNS:
        raise ValueError(f"softmax: a row has {x.shape[-1]} columns; at most {MAX_COLUMNS} are supported")
    y: Tensor = SoftmaxFunction.apply(x)
    return y


def softmax_reference(x: Tensor) -> Tensor:
    """Softmax by plain, differentiable torch, (..., N), in fp32, but in float64 where x is float64."""
    compute_dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return torch.softmax(x.to(compute_dtype), dim=-1).to(x.dtype)
