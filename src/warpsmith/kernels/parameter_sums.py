"""Gradients of parameters that are sums over rows: each program of a backward kernel leaves a partial sum, in fp32.

No atomics, so that the same call gives the same bits. Owns the partial sums' memory and their summation.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from warpsmith.kernels.arguments import cdiv


@triton.jit
def _sum_partials_kernel(
    dw_partial_ptr,  # (programs, n_cols), contiguous, fp32, or None
    dw_ptr,  # (n_cols,), contiguous, the dtype of the weight, or None
    db_partial_ptr,  # (programs, n_cols), contiguous, fp32, or None
    db_ptr,  # (n_cols,), contiguous, the dtype of the bias, or None
    programs,
    n_cols,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """One program sums some columns of what the programs of a backward kernel left."""
    cols = tl.program_id(0) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    dw = tl.zeros((BLOCK_ROWS, BLOCK_COLS), dtype=tl.float32)
    db = tl.zeros((BLOCK_ROWS, BLOCK_COLS), dtype=tl.float32)

    for first_row in tl.range(0, programs, BLOCK_ROWS):
        rows = first_row + tl.arange(0, BLOCK_ROWS)[:, None]
        mask = (rows < programs) & (cols[None, :] < n_cols)
        at = rows.to(tl.int64) * n_cols + cols[None, :]
        if dw_ptr is not None:
            dw += tl.load(dw_partial_ptr + at, mask=mask, other=0.0)
        if db_ptr is not None:
            db += tl.load(db_partial_ptr + at, mask=mask, other=0.0)

    if dw_ptr is not None:
        tl.store(dw_ptr + cols, tl.sum(dw, axis=0).to(dw_ptr.dtype.element_ty), mask=cols < n_cols)
    if db_ptr is not None:
        tl.store(db_ptr + cols, tl.sum(db, axis=0).to(db_ptr.dtype.element_ty), mask=cols < n_cols)


def empty_partials(programs: int, rows: Tensor, needs_sums: tuple[bool, bool]) -> tuple[Tensor | None, Tensor | None]:
    """Not zeroed: every element is stored before it is read."""
    shape = (programs, rows.shape[1])
    needs_dw, needs_db = needs_sums
    dw = torch.empty(shape, dtype=torch.float32, device=rows.device) if needs_dw else None
    db = torch.empty(shape, dtype=torch.float32, device=rows.device) if needs_db else None
    return dw, db


def sum_partials(
    dw_partial: Tensor | None, db_partial: Tensor | None, dw_dtype: torch.dtype | None, db_dtype: torch.dtype | None
) -> tuple[Tensor | None, Tensor | None]:
    """dw and db of these dtypes, in one launch. Its blocks were measured on an H200, November 2026."""
    some_partial = dw_partial if dw_partial is not None else db_partial
    if some_partial is None:
        return None, None
    programs, n_cols = some_partial.shape
    device = some_partial.device
    dw = None if dw_partial is None else torch.empty(n_cols, dtype=dw_dtype, device=device)
    db = None if db_partial is None else torch.empty(n_cols, dtype=db_dtype, device=device)
    _sum_partials_kernel[(cdiv(n_cols, 16),)](
        dw_partial, dw, db_partial, db, programs, n_cols, BLOCK_ROWS=256, BLOCK_COLS=16, num_warps=8
    )
    return dw, db
