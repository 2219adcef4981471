"""LayerNorm: the Triton kernels of its forward and backward pass, and the autograd function over them.

Layer normalization, Ba, Kiros and Hinton 2016, https://arxiv.org/abs/1607.06450, equation 4. For a row x of N values,
weight w and bias b; without a weight, w is 1, and without a bias, b is 0:

    mean = Σ x / N
    rstd = 1 / sqrt(Σ (x - mean)² / N + eps)
    x̂    = (x - mean) · rstd
    y    = x̂ · w + b

Backward, from dy. Write m = dy · w, the gradient with respect to x̂. As mean and rstd depend on each x_j,

    dx_j = rstd · (m_j - mean(m) - x̂_j · mean(m · x̂))
    dw   = Σ over rows of dy · x̂
    db   = Σ over rows of dy

The variance is that of the centred row, which is still in registers: E[x²] - E[x]² cancels where the mean is large.

Three kernels: forward, a row a program; backward, programs that walk over rows and sum their own dw and db beside dx;
and, for rows too wide for that or where dx is not needed, dw and db alone, by columns. parameter_sums adds up what the
programs have summed.

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
    expect_floating_or_none,
    expect_last_dimension,
    expect_number,
    expect_one_device,
    expect_shape,
    loop_stages,
    runs_triton,
    sm_count,
)
from warpsmith.kernels.first_order import first_order
from warpsmith.kernels.parameter_sums import empty_partials, sum_partials

#: The widest row that is held in the registers of one program.
MAX_COLUMNS = 65536
#: The widest row whose dw and db fit into registers beside x and dy. Chosen: at 16384 they take half of an SM's.
MAX_SUMMED_COLUMNS = 8192


@triton.jit
def _layer_norm_forward_kernel(
    x_ptr,  # (n_rows, n_cols), inner stride 1
    x_row_stride,
    weight_ptr,  # (n_cols,), contiguous, or None
    bias_ptr,  # (n_cols,), contiguous, or None
    y_ptr,  # (n_rows, n_cols), contiguous, the dtype of x
    mean_ptr,  # (n_rows,), fp32
    rstd_ptr,  # (n_rows,), fp32
    n_cols,
    EPS: tl.constexpr,  # torch.compile would hand a float over in fp64
    BLOCK_SIZE: tl.constexpr,
):
    """One program normalizes one row."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + EPS)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)

    # Loaded late: until here they would only take registers, and so warps, away.
    y = centred * rstd
    if weight_ptr is not None:
        y = y * tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y = y + tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _add_pairs(first_a, second_a, first_b, second_b):
    return first_a + first_b, second_a + second_b


@triton.jit
def _layer_norm_backward_kernel(
    dy_ptr,  # (n_rows, n_cols), inner stride 1
    dy_row_stride,
    x_ptr,  # (n_rows, n_cols), inner stride 1
    x_row_stride,
    weight_ptr,  # (n_cols,), contiguous, or None
    mean_ptr,  # (n_rows,), fp32
    rstd_ptr,  # (n_rows,), fp32
    dx_ptr,  # (n_rows, n_cols), contiguous, the dtype of x
    dw_partial_ptr,  # (programs, n_cols), contiguous, fp32, or None
    db_partial_ptr,  # (programs, n_cols), contiguous, fp32, or None
    n_rows,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
    LOOP_STAGES: tl.constexpr,
):
    """One program walks over rows, far enough apart that all programs share them evenly, and sums its own dw and db."""
    program = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    if weight_ptr is not None:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    if dw_partial_ptr is not None:
        dw = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    if db_partial_ptr is not None:
        db = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    for row in tl.range(program, n_rows, tl.num_programs(0), num_stages=LOOP_STAGES):
        dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = tl.where(mask, x - tl.load(mean_ptr + row), 0.0) * rstd

        # Before the reduction, over which they would take registers.
        if dw_partial_ptr is not None:
            dw += dy * x_hat
        if db_partial_ptr is not None:
            db += dy

        m = dy
        if weight_ptr is not None:
            m = dy * weight
        sum_m, sum_m_x_hat = tl.reduce((m, m * x_hat), 0, _add_pairs)
        dx = rstd * (m - sum_m / n_cols - x_hat * (sum_m_x_hat / n_cols))
        tl.store(dx_ptr + row * n_cols + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)

    if dw_partial_ptr is not None:
        tl.store(dw_partial_ptr + program * n_cols + cols, dw, mask=mask)
    if db_partial_ptr is not None:
        tl.store(db_partial_ptr + program * n_cols + cols, db, mask=mask)


@triton.jit
def _layer_norm_parameters_backward_kernel(
    dy_ptr,  # (n_rows, n_cols), inner stride 1
    dy_row_stride,
    x_ptr,  # (n_rows, n_cols), inner stride 1
    x_row_stride,
    mean_ptr,  # (n_rows,), fp32
    rstd_ptr,  # (n_rows,), fp32
    dw_partial_ptr,  # (programs of axis 1, n_cols), contiguous, fp32, or None
    db_partial_ptr,  # (programs of axis 1, n_cols), contiguous, fp32, or None
    n_rows,
    n_cols,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """dw and db without dx: one program walks down some columns, taking every so many blocks of rows."""
    cols = tl.program_id(0) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)[None, :]
    program = tl.program_id(1).to(tl.int64)
    dw = tl.zeros((BLOCK_ROWS, BLOCK_COLS), dtype=tl.float32)
    db = tl.zeros((BLOCK_ROWS, BLOCK_COLS), dtype=tl.float32)

    for first_row in tl.range(program * BLOCK_ROWS, n_rows, tl.num_programs(1) * BLOCK_ROWS):
        rows = first_row + tl.arange(0, BLOCK_ROWS)[:, None]
        mask = (rows < n_rows) & (cols < n_cols)
        dy = tl.load(dy_ptr + rows * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        if dw_partial_ptr is not None:
            x = tl.load(x_ptr + rows * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
            mean = tl.load(mean_ptr + rows, mask=rows < n_rows, other=0.0)
            rstd = tl.load(rstd_ptr + rows, mask=rows < n_rows, other=0.0)
            dw += dy * ((x - mean) * rstd)
        if db_partial_ptr is not None:
            db += dy

    at = program * n_cols + cols
    if dw_partial_ptr is not None:
        tl.store(dw_partial_ptr + at, tl.sum(dw, axis=0, keep_dims=True), mask=cols < n_cols)
    if db_partial_ptr is not None:
        tl.store(db_partial_ptr + at, tl.sum(db, axis=0, keep_dims=True), mask=cols < n_cols)


def layer_norm_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """y, (..., N) of the dtype of x, and mean and rstd, (rows,) of fp32, which the backward pass needs.

    x is (..., N), weight and bias (N,) and contiguous or None. Raises ValueError where N is above 65536.
    """
    rows = as_rows(x)
    n_rows, n_cols = rows.shape
    block_size = _block_size(n_cols)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    mean = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    rstd = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if n_rows > 0:
        _layer_norm_forward_kernel[(n_rows,)](
            rows,
            rows.stride(0),
            weight,
            bias,
            y,
            mean,
            rstd,
            n_cols,
            EPS=eps,
            BLOCK_SIZE=block_size,
            num_warps=_forward_warps(block_size),
        )
    return y, mean, rstd


def layer_norm_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    rstd: Tensor,
    *,
    needs_dx: bool = True,
    dw_dtype: torch.dtype | None = None,
    db_dtype: torch.dtype | None = None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """dx, (..., N) of the dtype of x, and dw and db, (N,) of these dtypes; each None where it is not needed.

    dy and x are (..., N), weight (N,) and contiguous or None, mean and rstd as layer_norm_forward returned them.
    A dtype of None says that the gradient is not needed.
    """
    dy_rows, rows = as_rows(dy), as_rows(x)
    if rows.shape[0] == 0:
        dw = None if dw_dtype is None else torch.zeros(x.shape[-1], dtype=dw_dtype, device=x.device)
        db = None if db_dtype is None else torch.zeros(x.shape[-1], dtype=db_dtype, device=x.device)
        return torch.empty_like(x) if needs_dx else None, dw, db

    dx = None
    partials: tuple[Tensor | None, Tensor | None] = (None, None)
    needs_sums = (dw_dtype is not None, db_dtype is not None)
    sums_beside_dx = needs_dx and any(needs_sums) and x.shape[-1] <= MAX_SUMMED_COLUMNS
    if needs_dx:
        dx, partials = _rows_backward(
            dy_rows, rows, weight, mean, rstd, needs_sums if sums_beside_dx else (False, False)
        )
        dx = dx.view(x.shape)
    if any(needs_sums) and not sums_beside_dx:
        partials = _parameters_backward(dy_rows, rows, mean, rstd, needs_sums)
    dw, db = sum_partials(*partials, dw_dtype, db_dtype)
    return dx, dw, db


def _rows_backward(
    dy_rows: Tensor, rows: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, needs_sums: tuple[bool, bool]
) -> tuple[Tensor, tuple[Tensor | None, Tensor | None]]:
    """dx and the partial sums of dw and db that are needed."""
    n_rows, n_cols = rows.shape
    dx = torch.empty((n_rows, n_cols), dtype=rows.dtype, device=rows.device)
    block_size = _block_size(n_cols)
    programs, num_warps, stages = _backward_settings(rows, block_size, any(needs_sums))
    dw_partial, db_partial = empty_partials(programs, rows, needs_sums)
    _layer_norm_backward_kernel[(programs,)](
        dy_rows,
        dy_rows.stride(0),
        rows,
        rows.stride(0),
        weight,
        mean,
        rstd,
        dx,
        dw_partial,
        db_partial,
        n_rows,
        n_cols,
        BLOCK_SIZE=block_size,
        LOOP_STAGES=stages,
        num_warps=num_warps,
    )
    return dx, (dw_partial, db_partial)


def _parameters_backward(
    dy_rows: Tensor, rows: Tensor, mean: Tensor, rstd: Tensor, needs_sums: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The partial sums of dw and db that are needed, without dx."""
    n_rows, n_cols = rows.shape
    block_rows, block_cols = 8, 128
    col_blocks = cdiv(n_cols, block_cols)
    # Chosen: eight programs an SM keep enough loads in flight.
    programs = min(cdiv(8 * sm_count(rows), col_blocks), cdiv(n_rows, block_rows))
    dw_partial, db_partial = empty_partials(programs, rows, needs_sums)
    _layer_norm_parameters_backward_kernel[(col_blocks, programs)](
        dy_rows,
        dy_rows.stride(0),
        rows,
        rows.stride(0),
        mean,
        rstd,
        dw_partial,
        db_partial,
        n_rows,
        n_cols,
        BLOCK_ROWS=block_rows,
        BLOCK_COLS=block_cols,
        num_warps=4,
    )
    return dw_partial, db_partial


def _block_size(n_cols: int) -> int:
    """One block holds the whole row."""
    if n_cols > MAX_COLUMNS:
        raise ValueError(f"layer_norm: a row has {n_cols} columns; at most {MAX_COLUMNS} are supported")
    return block_holding(n_cols)


def _forward_warps(block_size: int) -> int:
    """32 values a thread, so that the registers of an SM hold two rows or more, up to 32 warps."""
    return min(max(block_size // 1024, 1), 32)


def _backward_settings(rows: Tensor, block_size: int, needs_sums: bool) -> tuple[int, int, int]:
    """(programs, num_warps, LOOP_STAGES): loads of the next rows run ahead. Measured on an H200, November 2026."""
    n_rows = rows.shape[0]
    num_warps = 32 if block_size > 16384 else min(max(block_size // 512, 1), 16)
    if not needs_sums and block_size <= MAX_SUMMED_COLUMNS:
        return n_rows, num_warps, 1
    programs_per_sm = 1
    if block_size <= 1024:
        programs_per_sm = 8
    elif block_size <= 4096:
        programs_per_sm = 2
    row_bytes = 2 * block_size * rows.element_size()
    stages = loop_stages(rows, row_bytes, programs_per_sm=programs_per_sm, most_ahead=3 if block_size <= 2048 else 2)
    return min(programs_per_sm * sm_count(rows), n_rows), num_warps, stages


class LayerNormFunction(torch.autograd.Function):
    """LayerNorm on a GPU. Gradients of x, weight and bias; of the first order only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
        y, mean, rstd = layer_norm_forward(x, weight, bias, eps)
        # The bias for its dtype: it is a parameter and takes no memory of its own.
        ctx.save_for_backward(x, weight, bias, mean, rstd)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight, bias, mean, rstd = ctx.saved_tensors
        needs_dx, needs_dw, needs_db = ctx.needs_input_grad[:3]
        dx, dw, db = layer_norm_backward(
            dy,
            x,
            weight,
            mean,
            rstd,
            needs_dx=needs_dx,
            dw_dtype=weight.dtype if needs_dw else None,
            db_dtype=bias.dtype if needs_db else None,
        )
        return dx, dw, db, None


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """Normalize the last dimension of x by its mean and standard deviation.

    As in torch.nn.functional.layer_norm, weight and bias are each optional. The output, (..., N), has the dtype of x,
    whatever theirs, and under torch.autocast too. Where Triton cannot run, layer_norm_reference computes. Sums are
    fp32: a row whose sum is beyond 3e38 is NaN.

    Args:
        x: (..., N), fp32, fp16 or bf16. On a GPU, the current one, as with any Triton launch.
        weight: (N,), fp32, fp16 or bf16, or None for none.
        bias: as weight.
        eps: added to the variance.

    Raises:
        TypeError: for another dtype.
        ValueError: for another shape, for tensors on several devices, or where N is 0 or, on a GPU, above 65536.
    """
    expect_floating("layer_norm", x=x)
    expect_floating_or_none("layer_norm", weight=weight, bias=bias)
    eps = expect_number("layer_norm", "eps", eps)
    expect_last_dimension("layer_norm", "x", x)
    expect_shape("layer_norm", "weight", weight, (x.shape[-1],))
    expect_shape("layer_norm", "bias", bias, (x.shape[-1],))
    expect_one_device("layer_norm", x=x, weight=weight, bias=bias)
    if not runs_triton("layer_norm", x):
        return layer_norm_reference(x, weight, bias, eps)
    weight = None if weight is None else weight.contiguous()
    bias = None if bias is None else bias.contiguous()
    y: Tensor = LayerNormFunction.apply(x, weight, bias, eps)
    return y


def layer_norm_reference(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """LayerNorm by plain, differentiable torch: (..., N) in, (..., N) of the same dtype out.

    Computes in fp32, but in float64 where x is float64.
    """
    compute_dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    weight = None if weight is None else weight.to(compute_dtype)
    bias = None if bias is None else bias.to(compute_dtype)
    y = torch.nn.functional.layer_norm(x.to(compute_dtype), x.shape[-1:], weight, bias, eps)
    return y.to(x.dtype)
