"""Guard zones, poison and layouts on a GPU: autograd's own thread, writes of kernels, strides that kernels ignore."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import Case, DType
from warpsmith.contracts.measurement import CaseCheck
from warpsmith.contracts.target import Target
from warpsmith.measure.correctness.allocations import GuardedAllocations, Poison
from warpsmith.measure.correctness.gate import check
from warpsmith.measure.worker.implementation import Implementation

pytestmark = pytest.mark.gpu

Make = Callable[..., Implementation]

#: Rows narrower than their block, so that a store without its mask leaves the row.
NARROW = Case(axes={"M": 96, "N": 1000}, dtype=DType.BFLOAT16)


def gate(candidate: Implementation, original: Implementation, target: Target, case: Case = NARROW) -> CaseCheck:
    device = torch.device("cuda", torch.cuda.current_device())
    (found,) = check(candidate, original, target, [case], device=device, seed=3)
    return found


def told(found: CaseCheck) -> list[str]:
    return [f"{failure.check}: {failure}" for failure in found.failures]


def test_a_pass_backward_is_guarded_on_autograds_own_thread() -> None:
    threads: list[threading.Thread] = []

    class Unwritten(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            threads.append(threading.current_thread())
            return torch.empty_like(gradients[0])

    x = torch.ones(64, 3, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    allocations = GuardedAllocations(Poison.NOT_A_NUMBER)
    with allocations:
        y = Unwritten.apply(x)  # type: ignore[no-untyped-call]
        (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))

    assert threads[0] is not threading.main_thread()
    assert bool(gradient.isnan().all())
    assert "aten::empty_like" in allocations.operations
    assert allocations.violations() == ()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int32, torch.bool])
def test_a_guarded_tensor_looks_like_any_other(dtype: torch.dtype) -> None:
    with GuardedAllocations(Poison.LARGE):
        tensor = torch.empty(7, 3, device="cuda", dtype=dtype)

    assert (type(tensor), tensor.is_contiguous(), tensor.storage_offset()) == (Tensor, True, 0)
    assert (tensor.data_ptr() % 512, tensor.untyped_storage().nbytes()) == (0, 21 * dtype.itemsize)


def test_the_original_passes_in_every_layout_and_none_is_skipped(original: Implementation, target: Target) -> None:
    found = gate(original, original, target)

    assert told(found) == []
    assert [check for check in found.skipped if "layouts" in check or check == "guards"] == []


WRONG = [
    pytest.param(
        ("tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)",
         "tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols + (row == 95))"),
        "guards: writes 2 bytes after a buffer of shape (96, 1000) and torch.bfloat16, first at offset 192000",
        id="a store beyond the end",
    ),
    pytest.param(
        ("tl.store(dw_partial_ptr + program * n_cols + cols, dw, mask=mask)",
         "tl.store(dw_partial_ptr + program * n_cols + cols, dw, mask=cols < n_cols + "
         "(program == tl.num_programs(0) - 1))"),
        "guards: writes 4 bytes after a buffer of shape",
        id="a workspace that is too short",
    ),
    pytest.param(
        ("        rows.stride(0),\n        weight,\n        y,\n", "        n_cols,\n        weight,\n        y,\n"),
        "layouts: output: with strided rows: ",
        id="the row stride is ignored",
    ),
    pytest.param(
        ("    dy_rows, rows = _as_rows(dy), _as_rows(x)\n",
         "    dy_rows, rows = dy.reshape(-1, dy.shape[-1]), _as_rows(x)\n"),
        "gradient layouts: gradient of x: with an expanded output gradient: NaN where it does not belong",
        id="an expanded gradient is read as rows",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("replacement", "reason"), WRONG)
def test_what_happens_to_work_is_found(
    variant: Make, original: Implementation, target: Target, replacement: tuple[str, str], reason: str
) -> None:
    failures = told(gate(variant(replacement), original, target))

    assert failures and failures[0].startswith(reason), failures


def test_a_probe_of_every_layout_leaves_the_gpu_usable_where_the_original_ignores_strides(
    variant: Make, target: Target
) -> None:
    ignores = variant(
        ("        rows.stride(0),\n        weight,\n        y,\n", "        n_cols,\n        weight,\n        y,\n"),
        ("    dy_rows, rows = _as_rows(dy), _as_rows(x)\n", "    dy_rows, rows = dy, x\n"),
    )

    found = gate(ignores, ignores, target)

    assert told(found) == []
    assert "layouts, strided rows" in found.skipped
    assert "gradient layouts, an expanded output gradient" in found.skipped
    assert float(torch.ones(3, device="cuda").sum()) == 3.0
