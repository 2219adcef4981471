"""A kernel that does as much as it is told to: y = x · w row by row, after SPIN dependent operations a program.

All programs are resident at once and begin together, so the operations add the same time to any call, whatever it
moves. That is how a slow-down of a known size is planted; SPIN is replaced in the text of this file.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

SPIN = 0
PROGRAMS_PER_SM = 4


@triton.jit(do_not_specialize=["spin"])
def _spun(spin):
    """0, after `spin` operations each of which waits for the one before."""
    value = spin.to(tl.float32)
    for _ in range(spin):
        value = value * 0.5 + 0.5
    return tl.where(value == -1.0, 1, 0)  # never -1, which the compiler does not know


@triton.jit(do_not_specialize=["spin", "rows"])
def _scale_forward_kernel(x_ptr, w_ptr, y_ptr, rows, spin, N: tl.constexpr):
    columns = tl.arange(0, N)
    w = tl.load(w_ptr + columns)
    for row in range(tl.program_id(0) + _spun(spin), rows, tl.num_programs(0)):
        offsets = row.to(tl.int64) * N + columns
        tl.store(y_ptr + offsets, (tl.load(x_ptr + offsets) * w).to(y_ptr.dtype.element_ty))


@triton.jit(do_not_specialize=["spin", "rows"])
def _scale_backward_kernel(dy_ptr, x_ptr, w_ptr, dx_ptr, partial_dw_ptr, rows, spin, N: tl.constexpr):
    columns = tl.arange(0, N)
    w = tl.load(w_ptr + columns)
    dw = tl.zeros((N,), dtype=tl.float32)
    for row in range(tl.program_id(0) + _spun(spin), rows, tl.num_programs(0)):
        offsets = row.to(tl.int64) * N + columns
        dy = tl.load(dy_ptr + offsets).to(tl.float32)
        dw += dy * tl.load(x_ptr + offsets)
        tl.store(dx_ptr + offsets, (dy * w).to(dx_ptr.dtype.element_ty))
    tl.store(partial_dw_ptr + tl.program_id(0) * N + columns, dw)


def _programs(x: Tensor) -> int:
    return PROGRAMS_PER_SM * torch.cuda.get_device_properties(x.device).multi_processor_count


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, w: Tensor) -> Tensor:
        rows, columns = x.shape
        y = torch.empty_like(x)
        _scale_forward_kernel[(_programs(x),)](x, w, y, rows, SPIN, N=columns, num_warps=8)
        ctx.save_for_backward(x, w)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        rows, columns = x.shape
        dx = torch.empty_like(x)
        partial_dw = torch.empty((_programs(x), columns), dtype=torch.float32, device=x.device)
        _scale_backward_kernel[(_programs(x),)](dy, x, w, dx, partial_dw, rows, SPIN, N=columns, num_warps=8)
        return dx, partial_dw.sum(dim=0).to(w.dtype)


def scale(x: Tensor, w: Tensor) -> Tensor:
    """x, (M, N) with N a power of two, times w, (N,). Differentiable in both."""
    return _Scale.apply(x, w)
