"""What TMA, the tensor memory accelerator, can read, and which rows are aligned for it. Must not know any kernel."""

from __future__ import annotations

import torch
from torch import Tensor


def tma_reads(rows: Tensor) -> bool:
    """Whether there is TMA, from compute capability 9.0 on, and it can read (n_rows, n_cols) of these strides.

    Not where torch.compile traces, which cannot ask how a tensor is aligned.
    """
    if torch.compiler.is_compiling() or rows.numel() == 0:
        return False
    if rows.is_cuda and torch.cuda.get_device_properties(rows.device).major < 9:
        return False
    return rows.stride(1) == 1 and rows.stride(0) >= rows.shape[1] and rows_are_aligned(rows)


def rows_are_aligned(rows: Tensor) -> bool:
    """Whether each begins at a multiple of 16 bytes; torch.compile cannot ask where the first does."""
    is_aligned = rows.stride(0) * rows.element_size() % 16 == 0
    return is_aligned and (torch.compiler.is_compiling() or rows.data_ptr() % 16 == 0)
