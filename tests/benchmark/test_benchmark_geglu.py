"""The GeGLU target, without a GPU."""

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
    return load_target(str(ROOT / "benchmark" / "benchmark_geglu.py"))


def inputs_of(target: Target, dtype: DType = DType.FLOAT32, **options: bool | float | str) -> Inputs:
    case = Case(axes={"M": 6, "N": 10}, dtype=dtype, options=options)
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    case = Case(axes={"M": 3, "N": 5}, dtype=DType.BFLOAT16)
    # gate, up, y: 30 bytes each; 15 elements, 11 operations each.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=90, flops=165)
    # dy, gate, up, dgate, dup; 23 operations an element.
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=150, flops=345)
    assert target.cost(case, Mode.FULL) == Cost(bytes_moved=240, flops=510)
    exact = case.model_copy(update={"options": {"approximate": "none"}})
    assert target.cost(exact, Mode.FORWARD) == Cost(bytes_moved=90, flops=90)
    assert target.cost(exact, Mode.BACKWARD) == Cost(bytes_moved=150, flops=210)


def test_inputs_follow_the_case(target: Target) -> None:
    plain, halves = inputs_of(target), inputs_of(target, DType.FLOAT16, layout="halves")
    for name in ("gate", "up"):
        assert (halves[name].shape, halves[name].stride(), halves[name].dtype) == ((6, 10), (20, 1), torch.float16)
        assert plain[name].is_contiguous()
    assert (plain["approximate"], inputs_of(target, approximate="none")["approximate"]) == ("tanh", "none")
    assert halves["gate"].untyped_storage().data_ptr() == halves["up"].untyped_storage().data_ptr()
