"""GeGLU: the Triton kernels of its forward and backward pass, and the autograd function over them.

The gated unit of Shazeer 2020, https://arxiv.org/abs/2002.05202, equation 5, after its two matmuls have given gate g
and up u. With gelu and gelu' as warpsmith.kernels.gelu states them, exact or by tanh, elementwise,

    y  = gelu(g) · u

Backward, from dy,

    dg = dy · u · gelu'(g)
    du = dy · gelu(g)

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
    expect_choice,
    expect_floating,
    expect_one_device,
    expect_shape,
    row_stride,
    runs_triton,
)
from warpsmith.kernels.first_order import first_order
from warpsmith.kernels.gelu import APPROXIMATIONS, gelu, gelu_derivative

#: What a program reads of each tensor: one access of 16 bytes a thread, in 8 warps. Measured on an H200, November 2026.
BLOCK_BYTES = 4096


@triton.jit
def _geglu_forward_kernel(
    gate_ptr,  # (n_rows, n_cols), inner stride 1
    gate_row_stride,
    up_ptr,  # (n_rows, n_cols), inner stride 1
    up_row_stride,
    y_ptr,  # (n_rows, n_cols), inner stride 1
    y_row_stride,
    n_cols,
    TANH: tl.constexpr,
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
        _geglu_forward_block(gates, ups, ys, None, TANH)
    else:
        _geglu_forward_block(gates, ups, ys, start + cols < n_cols, TANH)


@triton.jit
def _geglu_forward_block(gates, ups, ys, mask, TANH: tl.constexpr):
    gate = tl.load(gates, mask=mask).to(tl.float32)
    up = tl.load(ups, mask=mask).to(tl.float32)
    y = gelu(gate, TANH) * up
    tl.store(ys, y.to(ys.dtype.element_ty), mask=mask)


@triton.jit
def _geglu_backward_kernel(
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
    TANH: tl.constexpr,
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
        _geglu_backward_block(dys, gates, ups, dgate_ptr, dup_ptr, gradients, None, TANH)
    else:
        _geglu_backward_block(dys, gates, ups, dgate_ptr, dup_ptr, gradients, start + cols < n_cols, TANH)


@triton.jit
def _geglu_backward_block(dys, gates, ups, dgate_ptr, dup_ptr, gradients, mask, TANH: tl.constexpr):
    dy = tl.load(dys, mask=mask).to(tl.float32)
    gate = tl.load(gates, mask=mask).to(tl.float32)

    if dgate_ptr is not None:
        up = tl.load(ups, mask=mask).to(tl.float32)
        dgate = dy * up * gelu_derivative(gate, TANH)
        tl.store(dgate_ptr + gradients, dgate.to(dgate_ptr.dtype.element_ty), mask=mask)

    if dup_ptr is not None:
        dup = dy * gelu(gate, TANH)
        tl.store(dup_ptr + gradients, dup.to(dup_ptr.dtype.element_ty), mask=mask)


def geglu_forward(gate: Tensor, up: Tensor, approximate: str) -> Tensor:
    """y, contiguous, of the shape and dtype of gate and up, which are equal."""
    y = torch.empty_like(gate, memory_format=torch.contiguous_format)
    if y.numel() == 0:
        return y
    gate_rows, up_rows, y_rows = as_few_rows(gate, up, y)
    n_rows, n_cols = gate_rows.shape
    block_size, num_warps = _launch_settings(n_cols, gate.element_size())

    _geglu_forward_kernel[(n_rows * cdiv(n_cols, block_size),)](
        gate_rows,
        row_stride(gate_rows),
        up_rows,
        row_stride(up_rows),
        y_rows,
        row_stride(y_rows),
        n_cols,
        TANH=approximate == "tanh",
        BLOCK_SIZE=block_size,
        num_warps=num_warps,
    )
    return y


def geglu_backward(
    dy: Tensor, gate: Tensor, up: Tensor, approximate: str, *, needs_dgate: bool = True, needs_dup: bool = True
) -> tuple[Tensor | None, Tensor | None]:
    """dgate and dup, contiguous, of the shape and dtype of dy, gate and up, which are equal; None where not needed."""
    dgate = torch.empty_like(gate, memory_format=torch.contiguous_format) if needs_dgate else None
    dup = torch.empty_like(gate, memory_format=torch.contiguous_format) if needs_dup else None
    if gate.numel() == 0 or not (needs_dgate or needs_dup):
        return dgate, dup
    dy_rows, gate_rows, up_rows = as_few_rows(dy, gate, up)
    n_rows, n_cols = gate_rows.shape
    block_size, num_warps = _launch_settings(n_cols, gate.element_size())

    _geglu_backward_kernel[(n_rows * cdiv(n_cols, block_size),)](
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
        TANH=approximate == "tanh",
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


class GeGLUFunction(torch.autograd.Function):
    """GeGLU on a GPU. Gradients of gate and up; of the first order only."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, approximate: str) -> Tensor:
        ctx.save_for_backward(gate, up)
        ctx.approximate = approximate
        return geglu_forward(gate, up, approximate)

    @staticmethod
    @first_order
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        gate, up = ctx.saved_tensors
        needs_dgate, needs_dup = ctx.needs_input_grad[:2]
        dgate, dup = geglu_backward(dy, gate, up, ctx.approximate, needs_dgate=needs_dgate, needs_dup=needs_dup)
        return dgate, dup, None


def geglu(gate: Tensor, up: Tensor, *, approximate: str = "none") -> Tensor:
    """gelu(gate) · up, elementwise, computed in fp32 and rounded once.

    The output, contiguous, has the shape and dtype of gate and up, under torch.autocast too. gate and up may be views
    of one tensor, such as the halves of (..., 2N): rows that lie apart are read where they are. CPU tensors, on which
    Triton cannot run, are computed by geglu_reference.

    Args:
        gate: (..., N), fp32, fp16 or bf16. On a GPU, the current one, as with any Triton launch.
        up: as gate.
        approximate: "none" for the exact GELU, or "tanh", as torch.nn.functional.gelu calls them.

    Raises:
        TypeError: for another dtype, or two.
        ValueError: for two shapes or devices, or another approximation.
    """
    _check_arguments(gate, up, approximate)
    if not runs_triton("geglu", gate):
        return geglu_reference(gate, up, approximate)
    y: Tensor = GeGLUFunction.apply(gate, distinct(up, gate), approximate)
    return y


def geglu_reference(gate: Tensor, up: Tensor, approximate: str) -> Tensor:
    """GeGLU by plain, differentiable torch, in fp32, but in float64 where gate is float64."""
    compute_dtype = torch.float64 if gate.dtype == torch.float64 else torch.float32
    y = functional.gelu(gate.to(compute_dtype), approximate=approximate) * up.to(compute_dtype)
    return y.to(gate.dtype).contiguous()


def _check_arguments(gate: Tensor, up: Tensor, approximate: str) -> None:
    expect_choice("geglu", "approximate", approximate, APPROXIMATIONS)
    expect_floating("geglu", gate=gate, up=up)
    if up.dtype != gate.dtype:
        raise TypeError(f"geglu: up must have the dtype of gate, {gate.dtype}, found {up.dtype}")
    expect_shape("geglu", "up", up, tuple(gate.shape))
    expect_one_device("geglu", gate=gate, up=up)
