"""Multiplies a gradient in place by a factor that is on the device, and writes nothing where the factor is 1.

For losses whose forward pass computes the gradient up to that factor. A gradient of 0 stays 0 even if the factor is
NaN: rows that count for nothing have no gradient. Must not know any loss.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from warpsmith.kernels.arguments import cdiv, row_stride, sm_count

#: What is multiplied at a time. Chosen.
_BLOCK_BYTES = 16384

#: Chosen: few, since mostly all that they do is to find a factor of 1.
_PROGRAMS_PER_SM = 8


@triton.jit
def _scale_gradient_kernel(
    gradient_ptr,  # (n_rows, n_cols), inner stride 1
    gradient_row_stride,
    dloss_ptr,  # (n_rows,), fp32
    n_rows,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """Programs share the blocks of all rows evenly."""
    blocks_per_row = tl.cdiv(n_cols, BLOCK_SIZE)
    n_blocks = n_rows * blocks_per_row
    if n_rows == 1:
        # There is one factor for all, which is read once.
        n_blocks = tl.where(tl.load(dloss_ptr) == 1.0, 0, n_blocks)
    lanes = tl.arange(0, BLOCK_SIZE)
    for block in tl.range(tl.program_id(0), n_blocks, tl.num_programs(0)):
        row = (block // blocks_per_row).to(tl.int64)
        dloss = tl.load(dloss_ptr + row)
        if dloss != 1.0:
            start = (block % blocks_per_row).to(tl.int64) * BLOCK_SIZE
            places = gradient_ptr + row * gradient_row_stride + start + lanes
            if start + BLOCK_SIZE <= n_cols:
                gradient = _scaled(tl.load(places), dloss)
                tl.store(places, gradient.to(gradient_ptr.dtype.element_ty))
            else:
                mask = start + lanes < n_cols
                gradient = _scaled(tl.load(places, mask=mask), dloss)
                tl.store(places, gradient.to(gradient_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _scaled(gradient, dloss):
    gradient = gradient.to(tl.float32)
    return tl.where(gradient == 0.0, 0.0, gradient * dloss)


def scale_gradient(gradient: Tensor, dloss: Tensor) -> None:
    """Multiplies a contiguous gradient in place, each of its parts by one of (parts,) factors of fp32, contiguous."""
    if gradient.numel() == 0:
        return
    rows = gradient.view(dloss.shape[0], -1)
    n_rows, n_cols = rows.shape
    block_size = _BLOCK_BYTES // rows.element_size()
    programs = min(n_rows * cdiv(n_cols, block_size), _PROGRAMS_PER_SM * sm_count(rows))
    _scale_gradient_kernel[(programs,)](
        rows, row_stride(rows), dloss, n_rows, n_cols, BLOCK_SIZE=block_size, num_warps=8
    )
