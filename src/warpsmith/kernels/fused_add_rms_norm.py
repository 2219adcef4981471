"""Residual addition and RMSNorm in one pass: the Triton kernels of its two passes, and their autograd function.

What stands between two blocks of a transformer: the residual stream takes up x, and the next block is given it
normalized (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467, equation 4). For rows x and r of N values,
weight w and offset c; without a weight, w + c is 1:

    s    = x + r, rounded to their dtype: the residual of the next block
    rstd = 1 / sqrt(mean(s²) + eps)
    ŝ    = s · rstd
    y    = ŝ · (w + c)

Backward, from dy and the gradient ds_out that reached s by the stream. With m = dy · (w + c),

    ds = ds_out + rstd · (m - ŝ · mean(m · ŝ))
    dx = dr = ds
    dw = Σ over rows of dy · ŝ

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
    distinct,
    expect_choice,
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

#: llama: only the normalization is in fp32; ŝ is rounded to the dtype of x before it meets the weight.
#: gemma: everything is in fp32, and rounded once at the end.
CASTINGS = ("llama", "gemma")

_OP = "fused_add_rms_norm"


@triton.jit
def _fused_add_rms_norm_forward_kernel(
    x_ptr,  # (n_rows, n_cols), inner stride 1
    x_row_stride,
    residual_ptr,  # (n_rows, n_cols), inner stride 1, the dtype of x
    residual_row_stride,
    weight_ptr,  # (n_cols,), contiguous, or None
    y_ptr,  # (n_rows, n_cols), contiguous, the dtype of x; may be x
    s_ptr,  # (n_rows, n_cols), contiguous, the dtype of x; may be the residual
    rstd_ptr,  # (n_rows,), fp32
    n_cols,
    EPS: tl.constexpr,
    OFFSET: tl.constexpr,
    ROUND_BEFORE_WEIGHT: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One program adds and normalizes one row."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * residual_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    rounded = (x + residual).to(s_ptr.dtype.element_ty)
    tl.store(s_ptr + row * n_cols + cols, rounded, mask=mask)

    s = rounded.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(s * s, axis=0) / n_cols + EPS)
    tl.store(rstd_ptr + row, rstd)

    y = s * rstd
    if ROUND_BEFORE_WEIGHT:
        y = y.to(y_ptr.dtype.element_ty).to(tl.float32)
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        y = y * (weight + OFFSET)
    tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _fused_add_rms_norm_backward_kernel(
    dy_ptr,  # (n_rows, n_cols), inner stride 1
    dy_row_stride,
    ds_out_ptr,  # (n_rows, n_cols), inner stride 1, or None
    ds_out_row_stride,
    s_ptr,  # (n_rows, n_cols), contiguous
    weight_ptr,  # (n_cols,), contiguous, or None
    rstd_ptr,  # (n_rows,), fp32
    ds_ptr,  # (n_rows, n_cols), contiguous, the dtype of s
    dw_partial_ptr,  # (programs, n_cols), contiguous, fp32, or None
    n_rows,
    n_cols,
    OFFSET: tl.constexpr,
    ROUND_BEFORE_WEIGHT: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    LOOP_STAGES: tl.constexpr,
):
    """One program walks over rows, far enough apart that all programs share them evenly, and sums its own dw."""
    program = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    if weight_ptr is not None:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32) + OFFSET
    if dw_partial_ptr is not None:
        dw = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    for row in tl.range(program, n_rows, tl.num_programs(0), num_stages=LOOP_STAGES):
        dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        s = tl.load(s_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        s_hat = s * rstd

        # Before the reduction: after it, the rounded ŝ would take registers of its own.
        if dw_partial_ptr is not None:
            if ROUND_BEFORE_WEIGHT:
                dw += dy * s_hat.to(ds_ptr.dtype.element_ty).to(tl.float32)
            else:
                dw += dy * s_hat

        m = dy
        if weight_ptr is not None:
            m = dy * weight
        ds = rstd * (m - s_hat * (tl.sum(m * s_hat, axis=0) / n_cols))
        if ds_out_ptr is not None:
            ds += tl.load(ds_out_ptr + row * ds_out_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(ds_ptr + row * n_cols + cols, ds.to(ds_ptr.dtype.element_ty), mask=mask)

    if dw_partial_ptr is not None:
        tl.store(dw_partial_ptr + program * n_cols + cols, dw, mask=mask)


def fused_add_rms_norm_forward(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str, *, in_place: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """y and s, (..., N) of the dtype of x and contiguous, and rstd, (rows,) of fp32, which the backward pass needs.

    x and residual are (..., N), weight (N,) and contiguous or None. In place, y is x and s is residual, which must
    be contiguous. Raises ValueError where N is above 65536.
    """
    rows, residual_rows = as_rows(x), as_rows(residual)
    n_rows, n_cols = rows.shape
    if n_cols > MAX_COLUMNS:
        raise ValueError(f"{_OP}: a row has {n_cols} columns; at most {MAX_COLUMNS} are supported")
    y = x if in_place else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    s = residual if in_place else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rstd = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if n_rows > 0:
        block_size = block_holding(n_cols)
        _fused_add_rms_norm_forward_kernel[(n_rows,)](
            rows,
            rows.stride(0),
            residual_rows,
            residual_rows.stride(0),
            weight,
            y,
            s,
            rstd,
            n_cols,
            EPS=eps,
            OFFSET=offset,
            ROUND_BEFORE_WEIGHT=casting == "llama",
            BLOCK_SIZE=block_size,
            num_warps=_forward_warps(block_size),
        )
    return y, s, rstd


def fused_add_rms_norm_backward(
    dy: Tensor,
    ds_out: Tensor | None,
    s: Tensor,
    weight: Tensor | None,
    rstd: Tensor,
    offset: float,
    casting: str,
    *,
    needs_dw: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """ds, (..., N) of the dtype of s and contiguous, and dw, (N,) of the dtype of the weight.

    dy and ds_out are (..., N); no ds_out is zero. weight is as in the forward pass, which returned s and rstd.
    dw is None where there is no weight or needs_dw is false.
    """
    dy_rows, ds_out_rows = as_rows(dy), None if ds_out is None else as_rows(ds_out)
    n_rows, n_cols = dy_rows.shape
    block_size = block_holding(n_cols)
    programs = _backward_programs(s, n_rows, block_size)
    ds = torch.empty(s.shape, dtype=s.dtype, device=s.device)
    dw_partial, _ = empty_partials(programs, dy_rows, (weight is not None and needs_dw, False))
    if n_rows > 0:
        row_bytes = (2 if ds_out is None else 3) * block_size * s.element_size()
        programs_per_sm = cdiv(programs, sm_count(s))
        stages = loop_stages(s, row_bytes, programs_per_sm=programs_per_sm, most_ahead=3)
        _fused_add_rms_norm_backward_kernel[(programs,)](
            dy_rows,
            dy_rows.stride(0),
            ds_out_rows,
            0 if ds_out_rows is None else ds_out_rows.stride(0),
            s,
            weight,
            rstd,
            ds,
            dw_partial,
            n_rows,
            n_cols,
            OFFSET=offset,
            ROUND_BEFORE_WEIGHT=casting == "llama",
            BLOCK_SIZE=block_size,
            LOOP_STAGES=stages,
            num_warps=_backward_warps(block_size),
        )
    dw, _ = sum_partials(dw_partial, None, None if weight is None else weight.dtype, None)
    return ds, dw


def _forward_warps(block_size: int) -> int:
    """16 values a thread, and 32 where that would take more than 8 warps, of which few meet sooner than many."""
    if block_size <= 4096:
        return max(1, block_size // 512)
    return min(32, block_size // 1024)


def _backward_warps(block_size: int) -> int:
    """16 values a thread. Chosen, as it was measured for RMSNorm on an H200, November 2026."""
    return min(32, max(4, block_size // 512))


def _backward_programs(s: Tensor, n_rows: int, block_size: int) -> int:
    """One program an SM, of narrow rows up to eight where each still has 32 rows: its part of dw is summed again."""
    sms = sm_count(s)
    per_sm = min(8, max(1, 4096 // block_size))
    return min(n_rows, per_sm * sms, max(sms, n_rows // 32))


class FusedAddRMSNormFunction(torch.autograd.Function):
    """Residual addition and RMSNorm on a GPU. Gradients of x, residual and weight; of the first order only."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
    ) -> tuple[Tensor, Tensor]:
        y, s, rstd = fused_add_rms_norm_forward(x, residual, weight, eps, offset, casting, in_place=False)
        ctx.save_for_backward(s, weight, rstd)
        ctx.offset = offset
        ctx.casting = casting
        # As of torch's addition: the sum has no gradient where only the weight has one.
        if not any(ctx.needs_input_grad[:2]):
            ctx.mark_non_differentiable(s)
        # An output that nobody used has the gradient None, not zeros. torch.compile knows only zeros.
        if not torch.compiler.is_compiling():
            ctx.set_materialize_grads(False)
        return y, s

    @staticmethod
    @first_order
    def backward(
        ctx: Any, dy: Tensor | None, ds_out: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None, None]:
        s, weight, rstd = ctx.saved_tensors
        needs_dx, needs_dr, needs_dw = ctx.needs_input_grad[:3]
        if dy is None:
            ds, dw = ds_out, None
        else:
            ds, dw = fused_add_rms_norm_backward(
                dy, ds_out, s, weight, rstd, ctx.offset, ctx.casting, needs_dw=needs_dw
            )
        # One tensor for two gradients, as torch's own addition returns: autograd adds in place to, and keeps as .grad,
        # only a tensor that nothing else refers to. Two views of one memory would slip past that.
        return ds if needs_dx else None, ds if needs_dr else None, dw, None, None, None


def fused_add_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    offset: float = 0.0,
    casting: str = "llama",
    in_place: bool = False,
) -> tuple[Tensor, Tensor]:
    """Add x to the residual and normalize the sum's last dimension by its root mean square.

    Returns y, the normalized sum, and the sum, which is the residual of the next layer. Both are (..., N) and have
    the dtype of x, whatever the dtype of the weight and under torch.autocast too.
    Tensors on which Triton cannot run are computed by fused_add_rms_norm_reference.

    Args:
        x: (..., N), fp32, fp16 or bf16. On a GPU, the current one, as with any Triton launch.
        residual: of the shape and dtype of x.
        weight: (N,), fp32, fp16 or bf16, or None for none.
        eps: added to the mean of squares.
        offset: added to the weight, where there is one; Gemma uses 1.0.
        casting: "llama", where the normalized sum is rounded to the dtype of x before it meets the weight, or "gemma",
            where it is rounded once, after.
        in_place: overwrite x by y and residual by the sum, as vLLM does, and return them. For inference: refused
            where a gradient is required, either is not contiguous, or they share memory.

    Raises:
        TypeError: for another dtype.
        ValueError: for another device, shape or casting, where N is 0 or, on a GPU, above 65536, or as in_place says.
    """
    _check_arguments(x, residual, weight, casting)
    eps, offset = expect_number(_OP, "eps", eps), expect_number(_OP, "offset", offset)
    if in_place:
        _check_in_place(x, residual, weight)
    if not runs_triton(_OP, x):
        y, s = fused_add_rms_norm_reference(x, residual, weight, eps, offset, casting)
        return (x.copy_(y), residual.copy_(s)) if in_place else (y, s)
    if weight is not None:
        weight = weight.contiguous()
    if in_place:
        if not torch.compiler.is_compiling():
            torch.autograd.graph.increment_version((x, residual))  # as torch's own operations that overwrite do
        return fused_add_rms_norm_forward(x, residual, weight, eps, offset, casting, in_place=True)[:2]
    outputs: tuple[Tensor, Tensor] = FusedAddRMSNormFunction.apply(
        x, distinct(residual, x), weight, eps, offset, casting
    )
    return outputs


def fused_add_rms_norm_reference(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """y and the sum by plain, differentiable torch: (..., N) in, (..., N) of the same dtype out.

    Computes in fp32, but in float64 where x is float64: the roundings of the casting conventions then do nothing.
    """
    compute_dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    s = (x.to(compute_dtype) + residual.to(compute_dtype)).to(x.dtype)
    s_compute = s.to(compute_dtype)
    y = s_compute * torch.rsqrt(s_compute.square().mean(dim=-1, keepdim=True) + eps)
    if casting == "llama":
        y = y.to(x.dtype).to(compute_dtype)
    if weight is not None:
        y = y * (weight.to(compute_dtype) + offset)
    return y.to(x.dtype), s


def _check_arguments(x: Tensor, residual: Tensor, weight: Tensor | None, casting: str) -> None:
    expect_choice(_OP, "casting", casting, CASTINGS)
    expect_floating(_OP, x=x, residual=residual)
    expect_floating_or_none(_OP, weight=weight)
    expect_last_dimension(_OP, "x", x)
    expect_shape(_OP, "residual", residual, tuple(x.shape))
    expect_shape(_OP, "weight", weight, tuple(x.shape[-1:]))
    expect_one_device(_OP, x=x, residual=residual, weight=weight)
    if residual.dtype != x.dtype:
        raise TypeError(f"{_OP}: residual must have the dtype of x, {x.dtype}, found {residual.dtype}")


def _check_in_place(x: Tensor, residual: Tensor, weight: Tensor | None) -> None:
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, residual, weight)):
        raise ValueError(f"{_OP}: in_place is for inference, and a gradient is required: use torch.no_grad()")
    for name, tensor in (("x", x), ("residual", residual)):
        if not tensor.is_contiguous():
            raise ValueError(f"{_OP}: {name} must be contiguous to be overwritten, found strides {tensor.stride()}")
    if _share_memory(x, residual) or any(weight is not None and _share_memory(weight, each) for each in (x, residual)):
        raise ValueError(f"{_OP}: x, residual and weight share memory, and in_place overwrites two of them; clone one")


def _share_memory(one: Tensor, other: Tensor) -> bool:
    if torch.compiler.is_compiling():  # which cannot tell addresses
        return one is other
    first, second = sorted((one, other), key=lambda tensor: tensor.data_ptr())
    return second.numel() > 0 and second.data_ptr() - first.data_ptr() < first.nbytes
