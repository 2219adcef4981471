from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from warpsmith.contracts.case import Case, DType
from warpsmith.contracts.target import Target
from warpsmith.measure.correctness.gate import check
from warpsmith.measure.worker.implementation import Implementation

pytestmark = pytest.mark.gpu

Make = Callable[..., Implementation]

BF16 = Case(axes={"M": 512, "N": 2048}, dtype=DType.BFLOAT16)
FP32 = Case(axes={"M": 512, "N": 2048}, dtype=DType.FLOAT32)
LEGITIMATE = (
    BF16,
    FP32,
    Case(axes={"M": 127, "N": 1021}, dtype=DType.FLOAT16),
    Case(axes={"M": 1, "N": 4096}, dtype=DType.FLOAT32),
    Case(axes={"M": 300, "N": 1024}, dtype=DType.BFLOAT16, options={"layout": "row_strided"}),
    Case(axes={"M": 300, "N": 1024}, dtype=DType.BFLOAT16, options={"casting": "gemma", "offset": 1.0}),
    Case(axes={"M": 300, "N": 1024}, dtype=DType.BFLOAT16, options={"weight": False}),
)


def gate(candidate: Implementation, original: Implementation, target: Target, *cases: Case) -> list[tuple[str, ...]]:
    device = torch.device("cuda", torch.cuda.current_device())
    checks = check(candidate, original, target, cases, device=device, seed=3)
    return [tuple(map(str, checked.failures)) for checked in checks]


@pytest.mark.parametrize(
    "replacements",
    [
        (),
        (("num_warps = 4\n", "num_warps = 2\n"), ("        num_warps = 8\n", "        num_warps = 16\n")),
        # every program stores its whole row of partial sums, so they need no zeros
        (("dw_partial = torch.zeros(", "dw_partial = torch.empty("),),
        (("programs = torch.cuda", "programs = 3 * torch.cuda"),),
    ],
    ids=["itself", "other warps", "unzeroed workspace", "other programs"],
)
def test_legitimate_variants_pass_at_every_kind_of_case(
    variant: Make, original: Implementation, target: Target, replacements: tuple[tuple[str, str], ...]
) -> None:
    assert gate(variant(*replacements), original, target, *LEGITIMATE) == [()] * len(LEGITIMATE)


WRONG = [
    pytest.param(
        ("tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)",
         "tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols - 1)"),
        r"output: NaN where it does not belong, 512 times, first at \[0, 2047\].*never written",
        id="a column is never written",
    ),
    pytest.param(
        ("dw = dw_partial.sum(dim=0)", "dw = dw_partial[:-1].sum(dim=0)"),
        r"gradient of weight: RMS error",
        id="a partial sum is left out",
    ),
    pytest.param(
        ("    y = x * rstd\n", "    y = x.to(tl.bfloat16).to(tl.float32) * rstd\n"),
        r"output: RMS error",
        id="lower precision",
    ),
    pytest.param(
        ("    y = torch.empty_like(rows)\n", "    y = rows\n"),
        r"changes x, which the target does not declare in `overwrites`",
        id="in place",
    ),
    pytest.param(
        ("    return dx.view(x.shape), dw\n", "    return dx.view(x.shape), None\n"),
        r"gradient of weight: is missing",
        id="a gradient is missing",
    ),
    pytest.param(
        ("    return y.view(x.shape), rstd\n\n\ndef rms_norm_backward",
         "    float(rstd[0])\n    return y.view(x.shape), rstd\n\n\ndef rms_norm_backward"),
        r"cannot be captured into a CUDA graph, the original can",
        id="waits for the device",
    ),
    pytest.param(
        ("    if n_rows == 0:\n", "    if n_rows == 0 or torch.cuda.is_current_stream_capturing():\n"),
        r"output: a CUDA graph of the call gives another result on other values",
        id="does nothing while it is captured",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("replacement", "reason"), WRONG)
def test_wrong_variants_are_rejected_for_their_own_reason(
    variant: Make, original: Implementation, target: Target, replacement: tuple[str, str], reason: str
) -> None:
    (failures,) = gate(variant(replacement), original, target, FP32)

    assert failures and re.search(reason, failures[0]), failures


@pytest.mark.parametrize("waiting", ["float(x.sum())", "torch.cuda.synchronize()"])
def test_graphs_are_still_captured_after_a_variant_that_could_not_be(
    variant: Make, original: Implementation, target: Target, waiting: str
) -> None:
    settings, empty = "    block_size, num_warps = _launch_settings(n_cols)\n", "    if n_rows == 0"
    (refused,) = gate(variant((f"{settings}{empty}:", f"{settings}    {waiting}\n{empty}:")), original, target, BF16)
    (caught,) = gate(
        variant((f"{empty}:", f"{empty} or torch.cuda.is_current_stream_capturing():")), original, target, BF16
    )

    assert refused[0].startswith("cannot be captured into a CUDA graph, the original can: ")
    assert "a CUDA graph of the call" in caught[0]
    assert gate(original, original, target, BF16) == [()]
