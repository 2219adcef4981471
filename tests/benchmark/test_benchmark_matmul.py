"""The matmul target, without a GPU."""

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
    return load_target(str(ROOT / "benchmark" / "benchmark_matmul.py"))


def inputs_of(target: Target, dtype: DType = DType.FLOAT32, **options: bool | float | str) -> Inputs:
    case = Case(axes={"M": 6, "N": 10, "K": 7}, dtype=dtype, options=options)
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    case = Case(axes={"M": 3, "N": 5, "K": 7}, dtype=DType.BFLOAT16)
    # a, b, c: 21, 35 and 15 elements of 2 bytes; 105 products and sums.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=142, flops=210)
    # dc, a, b, da, db; two products.
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=254, flops=420)
    assert target.cost(case, Mode.FULL) == Cost(bytes_moved=396, flops=630)


def test_costs_of_an_epilogue_by_hand(target: Target) -> None:
    case = Case(axes={"M": 3, "N": 5, "K": 7}, dtype=DType.FLOAT32, options={"bias": True, "activation": "silu"})
    # The bias has 5 elements; what is kept for the activation's gradient 15.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=4 * (71 + 5), flops=210)
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=4 * (127 + 5 + 15), flops=420)


def test_inputs_follow_the_case(target: Target) -> None:
    plain, linear = inputs_of(target), inputs_of(target, DType.FLOAT16, layout="linear", bias=True, activation="silu")
    assert (plain["a"].shape, plain["b"].shape) == ((6, 7), (7, 10))
    assert plain["a"].is_contiguous() and plain["b"].is_contiguous()
    assert plain["bias"] is None and plain["activation"] == "none"
    assert (linear["b"].shape, linear["b"].stride(), linear["b"].dtype) == ((7, 10), (1, 7), torch.float16)
    assert linear["bias"].shape == (10,) and linear["activation"] == "silu"
    assert inputs_of(target, layout="a_transposed")["a"].stride() == (1, 6)


def test_products_have_a_deviation_of_1(target: Target) -> None:
    case = Case(axes={"M": 256, "N": 256, "K": 512}, dtype=DType.FLOAT32)
    inputs = target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))
    assert target.reference(inputs).std().item() == pytest.approx(1.0, rel=0.02)
