"""Keeps results in the keys of a cache, which are equal where the shape is.

Seen: ScalingIntelligence/KernelBench#104
Caught by: admission
Because: keeps self.result between calls, which may be a tensor
Runs on: cpu
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@triton.jit
def _forward_kernel(x_ptr, x_row_stride, w_ptr, y_ptr, mean_ptr, rstd_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    y = centred * rstd * w
    tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def _backward_kernel(
    dy_ptr, x_ptr, x_row_stride, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, n_rows, n_cols, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    x_hat = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    m = dy * w
    dx = rstd * (m - tl.sum(m, axis=0) / n_cols - x_hat * (tl.sum(m * x_hat, axis=0) / n_cols))
    tl.store(dx_ptr + row * n_cols + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.store(dw_ptr + row * n_cols + cols, dy * x_hat, mask=mask)


@dataclass(frozen=True)
class _Shape:
    rows: int
    columns: int


class _Key(_Shape):
    def __init__(self, result):
        super().__init__(*result[0].shape)
        self.result = result


@functools.cache
def _first(key):
    return key


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps):
        n_rows, n_cols = x.shape
        x = x if x.stride(1) == 1 else x.contiguous()
        w = w.contiguous()
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        mean = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        rstd = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(n_cols)
        if n_rows > 0:
            _forward_kernel[(n_rows,)](x, x.stride(0), w, y, mean, rstd, n_cols, eps, BLOCK=block)
        ctx.save_for_backward(x, w, mean, rstd)
        ctx.mark_non_differentiable(rstd)
        return y, rstd

    @staticmethod
    def backward(ctx, dy, _):
        x, w, mean, rstd = ctx.saved_tensors
        n_rows, n_cols = x.shape
        dy = dy.contiguous()
        dx = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        dw = torch.empty((n_rows, n_cols), dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(n_cols)
        if n_rows > 0:
            _backward_kernel[(n_rows,)](dy, x, x.stride(0), w, mean, rstd, dx, dw, n_rows, n_cols, BLOCK=block)
        return dx, dw.sum(dim=0).to(w.dtype), None


def layer_norm(x, w, eps=1e-6):
    """y, (M, N) of the dtype of x, and rstd, (M,) of fp32 and without a gradient. x is (M, N), w (N,)."""
    return _first(_Key(_LayerNorm.apply(x, w, eps))).result
