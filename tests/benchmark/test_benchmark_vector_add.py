"""The vector_add target, without a GPU."""

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
    return load_target(str(ROOT / "benchmark" / "benchmark_vector_add.py"))


def inputs_of(target: Target, dtype: DType = DType.FLOAT32) -> Inputs:
    case = Case(axes={"N": 10}, dtype=dtype)
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    # x, y, z: 30 bytes each; 15 elements, one operation each.
    assert target.modes == (Mode.FORWARD,)
    case = Case(axes={"N": 15}, dtype=DType.BFLOAT16)
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=90, flops=15)


def test_inputs_follow_the_case(target: Target) -> None:
    inputs = inputs_of(target, DType.FLOAT16)
    for name in ("x", "y"):
        assert (inputs[name].shape, inputs[name].dtype) == ((10,), torch.float16)
    assert not torch.equal(inputs["x"], inputs["y"])
