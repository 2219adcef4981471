"""The softmax target, without a GPU."""

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
    return load_target(str(ROOT / "benchmark" / "benchmark_softmax.py"))


def inputs_of(target: Target, **options: bool | float | str) -> Inputs:
    case = Case(axes={"M": 6, "N": 10}, dtype=DType.FLOAT32, options=options)
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    case = Case(axes={"M": 3, "N": 5}, dtype=DType.BFLOAT16)
    # x, y: 30 bytes each. 15 elements, 5 operations each.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=60, flops=75)
    # dy, y, dx. 4 operations an element.
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=90, flops=60)
    assert target.cost(case, Mode.FULL) == Cost(bytes_moved=150, flops=135)


def test_inputs_follow_the_case(target: Target) -> None:
    strided = inputs_of(target, layout="row_strided")["x"]
    assert (strided.shape, strided.stride()) == ((6, 10), (20, 1))
