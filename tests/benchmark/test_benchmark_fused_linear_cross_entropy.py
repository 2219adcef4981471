"""The target of the linear layer with cross-entropy, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.target import Target
from warpsmith.measure.worker.loading import load_target

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target(str(ROOT / "benchmark" / "benchmark_fused_linear_cross_entropy.py"))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    case = Case(axes={"M": 3, "H": 5, "N": 7}, dtype=DType.BFLOAT16)
    # hidden 30 bytes, weight 70, targets 24, the loss 4; one product of 105 multiplications and additions.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=128, flops=210)
    # Both gradients; two products.
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=100, flops=420)
    assert target.cost(case, Mode.FULL) == Cost(bytes_moved=228, flops=630)


def test_inputs_follow_the_case(target: Target) -> None:
    case = Case(axes={"M": 600, "H": 64, "N": 50}, dtype=DType.FLOAT32, options={"ignored": True})
    inputs = target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))
    assert inputs["hidden"].shape == (600, 64) and inputs["weight"].shape == (50, 64)
    assert float((inputs["hidden"] @ inputs["weight"].T).std()) == pytest.approx(2.0, rel=0.05)
    assert (inputs["target"] == -100).sum() == 200 and int(inputs["target"][-1]) == 49


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_exact_logits_are_held_by_their_dtype(target: Target, dtype: DType) -> None:
    for case in (each for each in target.cases if each.options.get("logits") == "exact" and each.dtype is dtype):
        inputs = target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))
        exact = inputs["hidden"].double() @ inputs["weight"].double().T
        assert torch.equal(exact.to(inputs["hidden"].dtype).double(), exact)
        assert float(exact.std()) == pytest.approx(2.0, rel=0.1)
