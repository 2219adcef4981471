"""What TMA is said to read, without a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.kernels.tma import rows_are_aligned, tma_reads

WIDE = torch.zeros(8, 80, dtype=torch.int8)


@pytest.mark.parametrize(
    ("rows", "reads"),
    [
        (WIDE, True),
        (WIDE[1:, :33], True),
        (WIDE[:, 16:], True),
        (WIDE.half()[:, 8:], True),
        # Not aligned: the first value, the stride.
        (WIDE[:, 1:], False),
        (torch.zeros(8, 81, dtype=torch.int8)[:, :80], False),
        (torch.zeros(8, 84, dtype=torch.float16), False),
        # No rows of inner stride 1, or rows that lie over each other, or nothing.
        (WIDE.T, False),
        (WIDE[:, ::2], False),
        (WIDE[:1].expand(8, 80), False),
        (WIDE[:0], False),
    ],
)
def test_aligned_rows_are_read(rows: Tensor, reads: bool) -> None:
    assert tma_reads(rows) == reads


def test_where_torch_compile_traces_strides_alone_are_asked_and_nothing_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not tma_reads(WIDE)
    assert rows_are_aligned(WIDE[:, 1:]) and not rows_are_aligned(torch.zeros(8, 81, dtype=torch.int8))


def test_a_gpu_before_compute_capability_9_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(major=8)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    rows: Any = SimpleNamespace(
        is_cuda=True,
        device="cuda:0",
        shape=WIDE.shape,
        numel=WIDE.numel,
        stride=WIDE.stride,
        element_size=WIDE.element_size,
        data_ptr=WIDE.data_ptr,
    )
    assert not tma_reads(rows)
    gpu.major = 9
    assert tma_reads(rows)
