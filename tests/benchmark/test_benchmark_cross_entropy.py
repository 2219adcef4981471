"""The cross-entropy target, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.worker.loading import load_target

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target(str(ROOT / "benchmark" / "benchmark_cross_entropy.py"))


def case_of(dtype: DType = DType.FLOAT32, **options: bool | float | str) -> Case:
    return Case(axes={"M": 6, "N": 10}, dtype=dtype, options=options)


def inputs_of(target: Target, case: Case) -> Inputs:
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    case = case_of(DType.BFLOAT16)
    # 60 logits of 2 bytes in, 6 targets of 8, 6 losses of 4; 4 operations an element.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=192, flops=240)
    # The gradient out; 2 operations an element.
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=120, flops=120)
    # A third of the rows is not read, but all gradients are written.
    assert target.cost(case_of(ignored=True), Mode.FULL) == Cost(bytes_moved=160 + 72 + 240, flops=240)
    # One operation more an element in each pass.
    assert target.cost(case_of(label_smoothing=0.1), Mode.FULL).flops == 480


def test_inputs_follow_the_case(target: Target) -> None:
    plain, strided = inputs_of(target, case_of()), inputs_of(target, case_of(layout="row_strided"))
    assert plain["logits"].is_contiguous() and strided["logits"].stride() == (20, 1)
    assert int(plain["target"].min()) >= 0 and int(plain["target"].max()) < 10
    assert int(plain["target"][-1]) == 9
    assert (inputs_of(target, case_of(ignored=True))["target"] == -100).sum() == 2


def test_the_gradient_that_comes_in_is_1_unless_the_case_asks_for_a_random_one(target: Target) -> None:
    def gradient(incoming: float, **options: str) -> torch.Tensor:
        inputs = inputs_of(target, case_of(**options))
        inputs["logits"].requires_grad_()
        loss = target.providers["torch"]()(inputs)
        return torch.autograd.grad(loss, inputs["logits"], torch.tensor(incoming))[0]

    torch.testing.assert_close(gradient(3.0), gradient(1.0))
    torch.testing.assert_close(gradient(3.0, gradient="random"), 3.0 * gradient(1.0))
