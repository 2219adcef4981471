"""One over the number of targets that count, on the device: what the mean of a cross-entropy multiplies by.

Must not know any loss.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _inverse_count_kernel(
    target_ptr,  # (n_rows,), int64, contiguous
    scale_ptr,  # (1,), fp32
    n_rows,
    ignore_index,
    BLOCK_SIZE: tl.constexpr,
):
    """One program counts all that is not to be ignored: 1 / count, which is inf where that is nothing."""
    lanes = tl.arange(0, BLOCK_SIZE)
    counts = tl.zeros((BLOCK_SIZE,), dtype=tl.int32)
    for start in tl.range(0, n_rows, BLOCK_SIZE):
        at = start + lanes
        target = tl.load(target_ptr + at, mask=at < n_rows, other=ignore_index)
        counts += (target != ignore_index).to(tl.int32)
    tl.store(scale_ptr, 1.0 / tl.sum(counts, axis=0).to(tl.float32))


def inverse_count(target: Tensor, ignore_index: int) -> Tensor:
    """1 / the number of targets that are not to be ignored, (1,), fp32. target is (rows,), int64, contiguous."""
    scale = torch.empty(1, dtype=torch.float32, device=target.device)
    _inverse_count_kernel[(1,)](target, scale, target.shape[0], ignore_index, BLOCK_SIZE=4096, num_warps=32)
    return scale
