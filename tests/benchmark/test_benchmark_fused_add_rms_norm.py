"""The target of residual addition and RMSNorm, without a GPU."""

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
    return load_target(str(ROOT / "benchmark" / "benchmark_fused_add_rms_norm.py"))


def inputs_of(target: Target, **options: bool | float | str) -> Inputs:
    case = Case(axes={"M": 6, "N": 10}, dtype=DType.FLOAT32, options=options)
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    case = Case(axes={"M": 3, "N": 5}, dtype=DType.BFLOAT16)
    # x, residual, y, s: 30 bytes each; weight: 10; rstd: 12. 15 elements, 5 operations each.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=120 + 10 + 12, flops=75)
    # dy, ds_out, s, ds; weight, dw; rstd. 10 operations an element.
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=120 + 20 + 12, flops=150)
    assert target.cost(case, Mode.FULL) == Cost(bytes_moved=142 + 152, flops=225)


def test_inputs_follow_the_case(target: Target) -> None:
    strided, gemma = inputs_of(target, layout="row_strided"), inputs_of(target, casting="gemma", offset=1.0)
    assert {(strided[name].shape, strided[name].stride()) for name in ("x", "residual")} == {((6, 10), (20, 1))}
    assert (gemma["casting"], gemma["offset"]) == ("gemma", 1.0)
    torch.testing.assert_close(gemma["weight"] + 1.0, torch.ones(10), rtol=0, atol=0.5)
