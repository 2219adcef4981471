"""What a cross-entropy takes besides its logits: how it is checked, in one wording. Must not know any kernel."""

from __future__ import annotations

import numbers
from typing import NamedTuple

import torch
from torch import Tensor

from warpsmith.kernels.arguments import expect_dense, expect_number, expect_shape

#: The longest row: beyond it, columns and chunks would be counted in more than 32 bits.
MAX_COLUMNS = 2**30


class LossSettings(NamedTuple):
    #: A target whose row counts for nothing.
    ignore_index: int
    #: The share of the target that is spread over all classes, 0 to 1.
    label_smoothing: float
    #: The factor of the squared log-sum-exp that is added to the loss of each row.
    z_loss: float


def expect_loss_settings(op: str, ignore_index: int, label_smoothing: float, z_loss: float) -> LossSettings:
    """Raises TypeError for what is no number, ValueError for a label_smoothing that is no share.

    Likewise for an ignore_index that is no integer, or none of 64 bits.
    """
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, numbers.Integral):
        raise TypeError(f"{op}: ignore_index must be an integer, found {type(ignore_index).__name__}")
    ignore_index = int(ignore_index)
    if not -(2**63) <= ignore_index < 2**63:
        raise ValueError(f"{op}: ignore_index must be an integer of 64 bits, found {ignore_index}")
    label_smoothing, z_loss = (
        expect_number(op, "label_smoothing", label_smoothing),
        expect_number(op, "z_loss", z_loss),
    )
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"{op}: label_smoothing must be 0 to 1, found {label_smoothing}")
    return LossSettings(ignore_index, label_smoothing, z_loss)


def expect_target(op: str, target: Tensor, shape: tuple[int, ...]) -> None:
    """Raises TypeError for what is no dense tensor of int64, ValueError for another shape."""
    expect_dense(op, target=target)
    if target.dtype != torch.int64:
        raise TypeError(f"{op}: target must be int64, the index of a class, found {target.dtype}")
    expect_shape(op, "target", target, shape)


def expect_countable_columns(op: str, n_cols: int) -> None:
    """Raises ValueError for a row that the kernel cannot read."""
    if n_cols > MAX_COLUMNS:
        raise ValueError(f"{op}: a row has {n_cols} logits; at most {MAX_COLUMNS} are supported")
