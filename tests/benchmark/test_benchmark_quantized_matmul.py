"""The quantized matmul target, without a GPU."""

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
    return load_target(str(ROOT / "benchmark" / "benchmark_quantized_matmul.py"))


def inputs_of(target: Target, y_dtype: DType = DType.FLOAT32, **options: bool | float | str) -> Inputs:
    case = Case(axes={"M": 6, "N": 16, "K": 32}, dtype=y_dtype, options=options)
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_costs_of_one_case_by_hand(target: Target) -> None:
    axes = {"M": 3, "N": 5, "K": 7}
    plain = Case(axes=axes, dtype=DType.BFLOAT16)
    # a 21, b 35, scales 12 and 20, y 30 bytes; 15 values, of 7 products and sums and of 2 scales each.
    assert target.cost(plain, Mode.FORWARD) == Cost(bytes_moved=118, flops=240, operands="int8")
    # Two scales; a bias of 10 bytes.
    other = Case(axes=axes, dtype=DType.BFLOAT16, options={"scales": "one", "bias": True})
    assert target.cost(other, Mode.FORWARD) == Cost(bytes_moved=104, flops=255, operands="int8")
    # The units of the operands, not of y.
    float8 = Case(axes=axes, dtype=DType.BFLOAT16, options={"dtype": "float8_e4m3fn"})
    assert target.cost(float8, Mode.FORWARD).operands == "float8_e4m3fn"


def test_inputs_follow_the_case(target: Target) -> None:
    plain, strided = inputs_of(target), inputs_of(target, DType.FLOAT16, layout="row_strided", bias=True)
    assert plain["a"].shape == (6, 32) and plain["b"].shape == (16, 32)
    assert plain["a"].abs().amax(dim=1).tolist() == [127] * 6
    assert plain["a_scale"].shape == (6,) and plain["b_scale"].shape == (16,) and plain["bias"] is None
    assert strided["a"].stride() == strided["b"].stride() == (64, 1)
    assert strided["bias"].dtype == strided["out_dtype"] == torch.float16
    assert inputs_of(target, scales="one")["a_scale"].shape == ()


def test_float8_is_handed_over_in_bytes(target: Target) -> None:
    inputs = inputs_of(target, dtype="float8_e4m3fn")
    values, others = (inputs[name].view(torch.float8_e4m3fn).double() for name in ("a", "b"))
    assert inputs["a"].dtype == torch.int8 and (values.abs().amax(dim=1) == 448).all()
    y = target.reference({**inputs, "a_scale": inputs["a_scale"].double()})
    expected = (values @ others.T) * inputs["a_scale"].double()[:, None] * inputs["b_scale"].double()
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("provider", ["torch", "torch_int_mm"])
def test_int8_baselines_match_the_reference(target: Target, provider: str) -> None:
    inputs = inputs_of(target, bias=True)
    torch.testing.assert_close(target.providers[provider]()(inputs), target.reference(inputs))


def test_bf16_multiplies_the_same_values(target: Target) -> None:
    inputs = inputs_of(target)
    found = target.providers["cublas_bf16"]()(inputs)
    expected = inputs["a"].float() @ inputs["b"].float().T
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=2**-8, atol=1.0)


def test_a_baseline_says_which_dtype_it_takes(target: Target) -> None:
    with pytest.raises(ValueError, match="takes float8"):
        target.providers["torch_scaled_mm"]()(inputs_of(target))
    with pytest.raises(ValueError, match="takes int8"):
        target.providers["torch_int_mm"]()(inputs_of(target, dtype="float8_e4m3fn"))
