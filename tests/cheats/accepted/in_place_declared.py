"""Overwrites its input, as the target declares, with other settings.

Looks like: an input that changes, an output that is an input
Runs on: cpu
Target: in_place_target.py
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _scale_kernel(x_ptr, w_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(x_ptr + row * n_cols + cols, (x * w).to(x_ptr.dtype.element_ty), mask=mask)


def scale_(x, w):
    """x, (M, N) and contiguous, after it was multiplied by w, (N,)."""
    if not x.is_contiguous():
        raise ValueError("scale_ needs a contiguous x")
    n_rows, n_cols = x.shape
    if n_rows > 0:
        _scale_kernel[(n_rows,)](x, w.contiguous(), n_cols, num_warps=2, BLOCK=triton.next_power_of_2(n_cols))
    return x
