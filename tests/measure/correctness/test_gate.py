from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import DType
from warpsmith.contracts.target import Inputs
from warpsmith.measure.worker.protocol import WorkerError


class HalfGradient(torch.autograd.Function):
    """Right forward, half of the gradient backward."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] / 2


class OverwritesGradient(torch.autograd.Function):
    """Multiplies by one, and zeroes the gradient it was handed once that is used."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        result = gradients[0].clone()
        gradients[0].zero_()
        return result


class Subclass(torch.Tensor):
    """A tensor of another class, as a lazy one would be."""


def rounded(tensor: Tensor, bits: int) -> Tensor:
    """Keeps so many bits of an fp32 mantissa, as TF32 keeps ten."""
    return (tensor.detach().view(torch.int32) & -(1 << (23 - bits))).view(torch.float32) + (tensor - tensor.detach())


def formula_of(inputs: Inputs) -> tuple[Tensor, Tensor]:
    x, w = inputs["x"], inputs["w"]
    y = x.float() * w.float() * inputs["scale"]
    return y.to(x.dtype), y.sum(dim=-1).to(x.dtype)


def zeros(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    return y * 0, sums


def off_by_a_factor(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    return y * 1.001, sums


def tensor_float_32(inputs: Inputs) -> Any:
    return formula_of({**inputs, "x": rounded(inputs["x"], 10), "w": rounded(inputs["w"], 10)})


def half_sums(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    total = torch.zeros_like(sums)
    for column in y.unbind(dim=-1):
        total = total + column
    return y, total


def one_wrong_element(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    mask = torch.zeros_like(y)
    mask[3, 5] = 1.0
    return y + mask, sums


def one_nan(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    mask = torch.zeros_like(y)
    mask[3, 5] = float("nan")
    return y + mask, sums


def one_infinity(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    mask = torch.zeros_like(y)
    mask[2, 1] = float("inf")
    return y + mask, sums


def part_never_written(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    written = torch.empty_like(sums)
    written[:-1] = sums[:-1].detach()
    return y, written + (sums - sums.detach())


def stale_workspace(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    return y, sums + 0 * torch.empty(8, dtype=y.dtype).sum()


def mutates(inputs: Inputs) -> Any:
    results = tuple(part.clone() for part in formula_of(inputs))
    with torch.no_grad():
        inputs["x"].view(-1)[7] = 0.0
    return results


def aliases(inputs: Inputs) -> Any:
    y, _ = formula_of(inputs)
    return y, inputs["w"].as_strided((24,), (1,))


def no_gradient(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    return y.detach(), sums


def gradient_of_x_only(inputs: Inputs) -> Any:
    return formula_of({**inputs, "w": inputs["w"].detach()})


def half_gradient(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    return HalfGradient.apply(y), sums


def overwrites_the_gradient(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    return OverwritesGradient.apply(y), sums


def raises(inputs: Inputs) -> Any:
    raise RuntimeError("only shapes of 4096 columns")


WRONG: list[tuple[Callable[[Inputs], Any], DType, str]] = [
    (zeros, DType.FLOAT32, r"output\[0\]: RMS error .* allowed .*; worst at \[\d+, \d+\]: expected .*, found -?0$"),
    (zeros, DType.BFLOAT16, r"output\[0\]: RMS error"),
    (off_by_a_factor, DType.FLOAT32, r"output\[0\]: RMS error"),
    (tensor_float_32, DType.FLOAT32, r"output\[0\]: RMS error"),
    (half_sums, DType.BFLOAT16, r"output\[1\]: RMS error"),
    (one_wrong_element, DType.FLOAT32, r"output\[0\]: .*largest error .*; worst at \[3, 5\]: "),
    (one_nan, DType.FLOAT32, r"output\[0\]: NaN where it does not belong, 1 times, first at \[3, 5\]: .*found nan"),
    (one_infinity, DType.FLOAT32, r"output\[0\]: infinity where it does not belong, 1 times, first at \[2, 1\]"),
    (part_never_written, DType.FLOAT32, r"output\[1\]: NaN .* first at \[23\]: .*memory that is never written"),
    (stale_workspace, DType.FLOAT32, r"output\[1\]: NaN .* 24 times"),
    (mutates, DType.FLOAT32, r"changes x, which the target does not declare in `overwrites`: element 7 .* is 0$"),
    (aliases, DType.FLOAT32, r"output\[1\]: shares its memory with the input w"),
    (lambda i: formula_of(i)[:1], DType.FLOAT32, r"returns 1 outputs, the original 2"),
    (lambda i: formula_of(i)[0], DType.FLOAT32, r"returns one output, the original several outputs"),
    (lambda i: (formula_of(i)[0].double(), formula_of(i)[1]), DType.FLOAT32, r"output\[0\]: dtype torch\.float64"),
    (lambda i: (formula_of(i)[0], formula_of(i)[1][:, None]), DType.FLOAT32, r"output\[1\]: shape \(24, 1\)"),
    (
        lambda i: (formula_of(i)[0].t().contiguous().t(), formula_of(i)[1]),
        DType.FLOAT32,
        r"output\[0\]: strides \(1, 24\), the original",
    ),
    (lambda i: (formula_of(i)[0].as_subclass(Subclass), formula_of(i)[1]), DType.FLOAT32, r"its type is Subclass"),
    (lambda i: (formula_of(i)[0], None), DType.FLOAT32, r"output\[1\]: is missing"),
    (no_gradient, DType.FLOAT32, r"output\[0\]: carries no gradient"),
    (gradient_of_x_only, DType.FLOAT32, r"gradient of w: is missing"),
    (half_gradient, DType.BFLOAT16, r"gradient of x: RMS error"),
    (overwrites_the_gradient, DType.FLOAT32, r"changes the gradient of output 0: element 0"),
    (raises, DType.FLOAT32, r"runtime_failed: RuntimeError: only shapes of 4096 columns"),
]


@pytest.mark.parametrize(("candidate", "dtype", "reason"), WRONG)
def test_a_wrong_candidate_is_rejected_for_its_own_reason(
    gate: Any, candidate: Callable[[Inputs], Any], dtype: DType, reason: str
) -> None:
    failures = gate.failures(candidate, gate.case(dtype))

    assert re.search(reason, failures[0]), failures


def other_order(inputs: Inputs) -> Any:
    x, w = inputs["x"], inputs["w"]
    y = (w.float() * inputs["scale"]) * x.float()
    return y.to(x.dtype), (y[:, ::2].sum(dim=-1) + y[:, 1::2].sum(dim=-1)).to(x.dtype)


def with_a_workspace(inputs: Inputs) -> Any:
    y, sums = formula_of(inputs)
    workspace = torch.empty(y.shape, dtype=y.dtype)
    workspace.copy_(y.detach())
    return y, sums + 0 * workspace.isinf().sum()


@pytest.mark.parametrize("candidate", [formula_of, other_order, with_a_workspace])
@pytest.mark.parametrize("dtype", list(DType))
def test_a_right_candidate_passes(gate: Any, candidate: Callable[[Inputs], Any], dtype: DType) -> None:
    checked = gate.check(candidate, gate.case(dtype))

    assert checked.failures == ()
    assert [error.output for error in checked.errors] == ["output[0]", "output[1]", "gradient of x", "gradient of w"]
    assert [error.elements for error in checked.errors] == [960, 24, 960, 40]


def test_a_single_row_in_another_order_passes(gate: Any) -> None:
    assert gate.failures(other_order, gate.case(rows=1, columns=4096)) == ()


def test_an_input_that_is_none_has_no_gradient(gate: Any) -> None:
    checked = gate.check(gate.formula, gate.case(weight=False))

    assert checked.failures == ()
    assert [error.output for error in checked.errors] == ["output[0]", "output[1]", "gradient of x"]


def test_a_kernel_without_a_backward_pass_is_judged_by_its_outputs(gate: Any) -> None:
    assert [e.output for e in gate.check(formula_of, forward_only=True).errors] == ["output[0]", "output[1]"]
    assert "output[0]: RMS error" in gate.failures(zeros, forward_only=True)[0]


def test_an_empty_case_has_nothing_to_compare(gate: Any) -> None:
    checked = gate.check(formula_of, gate.case(rows=0))

    assert [error.output for error in checked.errors] == ["gradient of w"]
    assert checked.failures == ()


def test_comparing_nothing_at_a_case_that_is_not_empty_is_no_pass(gate: Any) -> None:
    def nothing(inputs: Inputs) -> Tensor:
        return inputs["x"][:0].clone()

    failures = gate.failures(nothing, original=nothing, reference=nothing, forward_only=True)

    assert failures == ("no element was compared, though the case is not empty",)


def test_a_write_beside_a_strided_input_is_seen(gate: Any) -> None:
    def writes_beside(inputs: Inputs) -> Any:
        results = tuple(part.clone() for part in formula_of(inputs))
        inputs["x"].detach().as_strided((1,), (1,), 40).fill_(5.0)
        return results

    failures = gate.failures(writes_beside, gate.case(layout="row_strided"))

    assert re.match(r"changes x, .* element 40 of its memory was .*, is 5$", failures[0])


def in_place(inputs: Inputs) -> Tensor:
    return inputs["x"].mul_(2.0)


def test_a_declared_overwrite_passes_and_every_run_starts_from_the_same_values(gate: Any) -> None:
    doubles = {"forward_only": True, "reference": lambda inputs: inputs["x"] * 2, "original": in_place}

    assert gate.failures(in_place, overwrites=("x",), **doubles) == ()


def test_an_original_that_overwrites_undeclared_is_a_fault_of_the_target(gate: Any) -> None:
    with pytest.raises(WorkerError, match="the original changes x, which `overwrites` does not name"):
        gate.check(in_place, original=in_place, reference=lambda i: i["x"] * 2, forward_only=True)


def test_an_original_that_fails_is_a_fault_of_the_target(gate: Any) -> None:
    with pytest.raises(WorkerError, match="the original itself fails: RuntimeError: only shapes of 4096 columns"):
        gate.check(formula_of, original=raises)


def test_a_reference_that_leaves_float64_is_a_fault_of_the_target(gate: Any) -> None:
    with pytest.raises(WorkerError, match=r"must stay in float64.*returns torch\.float32"):
        gate.check(formula_of, reference=lambda i: tuple(part.float() for part in gate.formula(i)))


def test_infinity_passes_where_half_precision_overflows_in_the_original_too(gate: Any) -> None:
    def overflows(inputs: Inputs) -> Tensor:
        return inputs["x"] * 1e5

    same = {"original": overflows, "reference": overflows, "forward_only": True}

    assert gate.failures(overflows, gate.case(DType.FLOAT16), **same) == ()


def test_nan_that_the_original_leaves_too_is_no_pass_and_is_told(gate: Any) -> None:
    failures = gate.failures(stale_workspace, original=stale_workspace)

    assert "and the original has it there too" in failures[0]
