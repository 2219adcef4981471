"""SwiGLU: the Triton kernels of its forward and backward pass, and the autograd function over them.

The gated unit of Shazeer 2020, https://arxiv.org/abs/2002.05202, equation 5, after its two matmuls have given gate g
and up u. With σ(g) = 1 / (1 + exp(-g)), elementwise,

    silu(g)  = g · σ(g)
    y        = silu(g) · u

Backward, from dy. As σ' = σ · (1 - σ),

    silu'(g) = σ(g) · (1 + g · (1 - σ(g)))
    dg       = dy · u · silu'(g)
    du       = dy · silu(g)

All in fp32, rounded once at the end; the activation is computed again in the backward pass, not saved.

Owns the kernels, how they are launched and the plain torch reference. Must not know the rest of warpsmith.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from warpsmith.kernels.arguments import (
    as_few_rows,
    block_holding,
    cdiv,
    distinct,
    expect_floating,
    expect_one_device,
    expect_shape,
    row_stride,
    runs_triton,
)
from warpsmith.kernels.first_order import first_order

#: What a program reads of each tensor: one access of 16 bytes a thread, in 8 warps. Measured on an H200, November 2026.
BLOCK_BYTES = 4096


@triton.jit
def _swiglu_forward_kernel(
    gate_ptr,  # (n_rows, n_cols), inner stride 1
    gate_row_stride,
    up_ptr,  # (n_rows, n_cols), inner stride 1
    up_row_stride,
    y_ptr,  # (n_rows, n_cols), inner stride 1
    y_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """One program computes one block of one row."""
    blocks_per_row = (n_cols - 1) // BLOCK_SIZE + 1  # tl.cdiv overflows just below 2^31 columns
    row = (tl.program_id(0) // blocks_per_row).to(tl.int64)
    start = (tl.program_id(0) % blocks_per_row).to(tl.int64) * BLOCK_SIZE
    cols = tl.arange(0, BLOCK_SIZE)
    gates = gate_ptr + row * gate_row_stride + start + cols
    ups = up_ptr + row * up_row_stride + start + cols
    ys = y_ptr + row * y_row_stride + start + cols

    # A mask of an odd number of columns would break accesses of 16 bytes up; only the last block of a row needs one.
    if start + BLOCK_SIZE <= n_cols:
        _swiglu_forward_block(gates, ups, ys, None)
    else:
        _swiglu_forward_block(gates, ups, ys, start + cols < n_cols)


@triton.jit
def _swiglu_forward_block(gates, ups, ys, mask):
    gate = tl.load(gates, mask=mask).to(tl.float32)
    up = tl.load(ups, mask=mask).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(ys, y.to(ys.dtype.element_ty), mask=mask)


@triton.jit
def _swiglu_backward_kernel(
    dy_ptr,  # (n_rows, n_cols), inner stride 1
    dy_row_stride,
    gate_ptr,  # (n_rows, n_cols), inner stride 1
    gate_row_stride,
    up_ptr,  # (n_rows, n_cols), inner stride 1
    up_row_stride,
    dgate_ptr,  # (n_rows, n_cols), inner stride 1, with the row stride of dup, or None
    dup_ptr,  # (n_rows, n_cols), inner stride 1, or None
    gradient_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """One program computes one block of one row of both gradients."""
    blocks_per_row = (n_cols - 1) // BLOCK_SIZE + 1  # tl.cdiv overflows just below 2^31 columns
    row = (tl.program_id(0) // blocks_per_row).to(tl.int64)
    start = (tl.program_id(0) % blocks_per_row).to(tl.int64) * BLOCK_SIZE
    cols = tl.arange(0, BLOCK_SIZE)
    dys = dy_ptr + row * dy_row_stride + start + cols
    gates = gate_ptr + row * gate_row_stride + start + cols
    ups = up_ptr + row * up_row_stride + start + cols
    gradients = row * gradient_row_stride + start + cols

    if start + BLOCK_SIZE <= n_cols:
        _swiglu_backward_block(dys, gates, ups, dgate_ptr, dup_ptr, gradients, None)
    else:
        _swiglu_backward_block(dys, gates, ups, dgate_ptr, dup_ptr, gradients, start + cols < n_cols)


@triton.jit
def _swiglu_backward_block(dys, gates, ups, dgate_ptr, dup_ptr, gradients, mask):
    dy = tl.load(dys, mask=mask).to(tl.float32)
    gate = tl.load(gates, mask=mask).to(tl.float32)
    sigma = tl.sigmoid(gate)

    if dgate_ptr is not None:
        up = tl.load(ups, mask=mask).to(tl.float32)
        dgate = dy * up * (sigma * (1.0 + gate * (1.0 - sigma)))
        tl.store(dgate_ptr + gradients, dgate.to(dgate_ptr.dtype.element_ty), mask=mask)

    if dup_ptr is not None:
        dup = dy * (gate * sigma)
        tl.store(dup_ptr + gradients, dup.to(dup_ptr.dtype.element_ty), mask=mask)


def swiglu_forward(gate: Tensor, up: Tensor) -> Tensor:
    """y, contiguous, of the shape and dtype of gate and up, which are equal."""
    y = torch.empty_like(gate, memory_format=torch.contiguous_format)
    if y.numel() == 0:
        return y
    gate_rows, up_rows, y_rows = as_few_rows(gate, up, y)
    n_rows, n_cols = gate_rows.shape
    block_size, num_warps = _launch_settings(n_cols, gate.element_size())

    _swiglu_forward_kernel[(n_rows * cdiv(n_cols, block_size),)](
        gate_rows,
        row_stride(gate_rows),
        up_rows,
        row_stride(up_rows),
        y_rows,
        row_stride(y_rows),
        n_cols,
        BLOCK_SIZE=block_size,
        num_warps=num_warps,
    )
    return y


def swiglu_backward(
    dy: Tensor, gate: Tensor, up: Tensor, *, needs_dgate: bool = True, needs_dup: bool = True
) -> tuple[Tensor | None, Tensor | None]:
    """dgate and dup, contiguous, of the shape and dtype of dy, gate and up, which are equal; None where not needed."""
    dgate = torch.empty_like(gate, memory_format=torch.contiguous_format) if needs_dgate else None
    dup = torch.empty_like(gate, memory_format=torch.contiguous_format) if needs_dup else None
    if gate.numel() == 0 or not (needs_dgate or needs_dup):
        return dgate, dup
    dy_rows, gate_rows, up_rows = as_few_rows(dy, gate, up)
    n_rows, n_cols = gate_rows.shape
    block_size, num_warps = _launch_settings(n_cols, gate.element_size())

    _swiglu_backward_kernel[(n_rows * cdiv(n_cols, block_size),)](
        dy_rows,
        row_stride(dy_rows),
        gate_rows,
        row_stride(gate_rows),
        up_rows,
        row_stride(up_rows),
        dgate,
        dup,
        n_cols if n_rows > 1 else 0,
        n_cols,
        BLOCK_SIZE=block_size,
        num_warps=num_warps,
    )
    return dgate, dup


def _launch_settings(n_cols: int, element_bytes: int) -> tuple[int, int]:
    """(BLOCK_SIZE, num_warps): up to BLOCK_BYTES of a row, and 512 of them a warp."""
    block_size = BLOCK_BYTES // element_bytes
    if n_cols < block_size:
        block_size = block_holding(n_cols)
    return block_size, max(1, block_size * element_bytes // 512)


class SwiGLUFunction(torch.autograd.Function):
    """SwiGLU on a GPU. Gradients of gate and up; of the first order only."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return swiglu_forward(gate, up)

    @staticmethod
    @first_order
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        gate, up = ctx.saved_tensors
        needs_dgate, needs_dup = ctx.needs_input_grad
        return swiglu_backward(dy, gate, up, needs_dgate=needs_dgate, needs_dup=needs_dup)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) · up, elementwise, computed in fp32 and rounded once.

    The output, contiguous, has the shape and dtype of gate and up, under torch.autocast too. gate and up may be views
    of one tensor, such as the halves of (..., 2N): rows that lie apart are read where they are. CPU tensors, on which
    Triton cannot run, are computed by swiglu_reference.

    Args:
        gate: (..., N), fp32, fp16 or bf16. On a GPU, the current one, as with any Triton launch.
        up: as gate.

    Raises:
        TypeError: for another dtype, or two.
        ValueError: for two shapes or devices.
    """
    _check_arguments(gate, up)
    if not runs_triton("swiglu", gate):
        return swiglu_reference(gate, up)
    y: Tensor = SwiGLUFunction.apply(gate, distinct(up, gate))
    return y


def swiglu_reference(gate: Tensor, up: Tensor) -> Tensor:
    """SwiGLU by plain, differentiable torch, in fp32, but in float64 where gate is float64."""
    compute_dtype = torch.float64 if gate.dtype == torch.float64 else torch.float32
    return (functional.silu(gate.to(compute_dtype)) * up.to(compute_dtype)).to(gate.dtype).contiguous()


def _check_arguments(gate: Tensor, up: Tensor) -> None:
    expect_floating("swiglu", gate=gate, up=up)
    if up.dtype != gate.dtype:
        raise TypeError(f"swiglu: up must have the dtype of gate, {gate.dtype}, found {up.dtype}")
    expect_shape("swiglu", "up", up, tuple(gate.shape))
    expect_one_device("swiglu", gate=gate, up=up)
