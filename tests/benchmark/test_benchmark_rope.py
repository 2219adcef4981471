"""The rope target, without a GPU."""

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
    return load_target(str(ROOT / "benchmark" / "benchmark_rope.py"))


def small(dtype: DType = DType.FLOAT32, **options: bool | float | str) -> Case:
    return Case(axes={"B": 2, "H": 4, "K": 2, "T": 5, "N": 10}, dtype=dtype, options=options)


def inputs_of(target: Target, case: Case) -> Inputs:
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    case = Case(axes={"B": 2, "H": 3, "K": 1, "T": 5, "N": 8}, dtype=DType.BFLOAT16)
    # 40 heads of 8 values of 2 bytes, read and written; cos and sin: 20 values of 2 bytes each. 160 pairs.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=640 + 640 + 40 + 40, flops=960)
    assert target.cost(case, Mode.BACKWARD) == target.cost(case, Mode.FORWARD)
    assert target.cost(case, Mode.FULL) == Cost(bytes_moved=2720, flops=1920)


def test_costs_of_other_tables_and_of_a_partial_rotation(target: Target) -> None:
    def costs(**options: bool | float | str) -> Cost:
        axes = {"B": 2, "H": 3, "K": 1, "T": 5, "N": 8}
        return target.cost(Case(axes=axes, dtype=DType.BFLOAT16, options=options), Mode.FORWARD)

    assert costs(tables="fp32") == Cost(bytes_moved=1280 + 160, flops=960)
    assert costs(tables="batched") == Cost(bytes_moved=1280 + 160, flops=960)
    assert costs(rotated=4) == Cost(bytes_moved=1280 + 40, flops=480)


def test_inputs_follow_the_case(target: Target) -> None:
    inputs = inputs_of(target, small(DType.FLOAT16))
    assert (inputs["query"].shape, inputs["query"].stride()) == ((2, 4, 5, 10), (200, 10, 40, 1))
    assert (inputs["key"].shape, inputs["key"].stride()) == ((2, 2, 5, 10), (100, 10, 20, 1))
    assert (inputs["cos"].shape, inputs["cos"].dtype, inputs["pairing"]) == ((5, 5), torch.float16, "half")
    assert inputs_of(target, small(layout="bhtd"))["query"].is_contiguous()
    assert inputs_of(target, small(layout="fused"))["key"].stride() == (400, 10, 80, 1)
    assert inputs_of(target, small(rotated=4))["sin"].shape == (5, 2)
    assert inputs_of(target, small(DType.BFLOAT16, tables="fp32"))["cos"].dtype == torch.float32
    assert inputs_of(target, small(tables="batched"))["cos"].shape == (2, 5, 5)


def test_tables_are_those_of_angles(target: Target) -> None:
    inputs = inputs_of(target, small())
    torch.testing.assert_close(inputs["cos"].square() + inputs["sin"].square(), torch.ones(5, 5))
