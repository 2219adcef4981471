"""The LayerNorm and GELU target, without a GPU."""

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
    return load_target(str(ROOT / "benchmark" / "benchmark_layer_norm_gelu.py"))


def inputs_of(target: Target, **options: bool | float | str) -> Inputs:
    case = Case(axes={"M": 6, "N": 10}, dtype=DType.FLOAT32, options=options)
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    case = Case(axes={"M": 3, "N": 5}, dtype=DType.BFLOAT16)
    # x, y: 30 bytes each; weight, bias: 10 each; mean, rstd: 12 each. 15 elements, 7 + 5 operations each.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=60 + 20 + 24, flops=180)
    # x, dy, dx; weight, bias, dw, db; mean, rstd. 16 + 10 operations an element.
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=90 + 40 + 24, flops=390)
    assert target.cost(case, Mode.FULL) == Cost(bytes_moved=104 + 154, flops=570)


def test_missing_parameters_cost_nothing_and_tanh_more(target: Target) -> None:
    case = Case(
        axes={"M": 3, "N": 5}, dtype=DType.FLOAT32, options={"weight": False, "bias": False, "approximate": "tanh"}
    )
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=120 + 24, flops=75 + 15 * 9)
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=180 + 24, flops=150 + 15 * 17)


def test_inputs_follow_the_case(target: Target) -> None:
    strided = inputs_of(target, layout="row_strided")["x"]
    assert (strided.shape, strided.stride()) == ((6, 10), (20, 1))
    assert inputs_of(target, weight=False)["weight"] is None and inputs_of(target, bias=False)["bias"] is None
