"""Null mutants of a target's results must fail its own tolerance."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import DType
from warpsmith.contracts.mutants import MutantCheck
from warpsmith.contracts.target import Inputs
from warpsmith.measure.correctness.mutants import mutants
from warpsmith.measure.correctness.trial import Trial
from warpsmith.measure.worker.implementation import Implementation

NAMES = {
    "zeros",
    "its mean",
    "the mean of each row",
    "transposed",
    "the last row left out",
    "the last block left out",
    "rounded to a lower precision",
    "off by 1%",
}


def of(gate: Any, original: Any, *cases: Any, **changes: Any) -> tuple[MutantCheck, ...]:
    target = gate.target(**changes)
    side = Implementation("original", original, lambda: None, None)
    return mutants(target, cases or (gate.case(),), side, device=torch.device("cpu"), seed=1)


def doubled(inputs: Inputs) -> Tensor:
    return inputs["x"] * 2


def same(inputs: Inputs) -> Tensor:
    return inputs["x"] * 1


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize(("rows", "columns"), [(24, 40), (32, 32), (1, 48)])
def test_every_mutant_of_every_result_is_refused_or_says_why_not(
    gate: Any, dtype: DType, rows: int, columns: int
) -> None:
    found = of(gate, gate.formula, gate.case(dtype, rows, columns))

    assert [each for each in found if each.passed] == []
    assert {each.part for each in found} == {"output[0]", "output[1]", "gradient of x", "gradient of w"}
    refused = {each.mutant for each in found if each.part == "output[0]" and each.refused}
    alone = {"the last row left out", "transposed"} if rows == 1 else set()
    assert refused | alone >= NAMES | {"a copy of x"}
    assert "a copy of the gradient of output 0" in {e.mutant for e in found if e.part == "gradient of x" and e.refused}


def test_a_copy_is_skipped_where_the_result_is_the_input(gate: Any) -> None:
    found = of(gate, same, reference=same, forward_only=True)

    assert [(each.mutant, each.skipped) for each in found if not each.refused] == [
        ("a copy of x", "it is the right result at this case, to within a rounding")
    ]


def test_zeros_pass_where_the_reference_is_far_from_the_original(gate: Any) -> None:
    found = of(gate, doubled, reference=lambda inputs: inputs["x"] * -2, forward_only=True)

    assert [each.mutant for each in found if each.passed][:1] == ["zeros"]


def test_constants_are_told_from_nothing(gate: Any) -> None:
    def ones(case: Any, device: Any, generator: Any) -> Inputs:
        return {"x": torch.ones(24, 40)}

    found = of(gate, doubled, make_inputs=ones, reference=doubled, forward_only=True)

    assert {"its mean", "transposed"} <= {each.mutant for each in found if each.skipped}


def test_an_original_as_coarse_as_the_mutant_is_no_fault_of_the_target(gate: Any) -> None:
    def coarse(inputs: Inputs) -> Tensor:
        x = inputs["x"]
        return x * torch.where(x > 0, 2.03, 1.97)

    found = of(gate, coarse, gate.case(DType.BFLOAT16), reference=doubled, forward_only=True)

    skipped = {each.mutant: each.skipped for each in found if not each.refused}
    assert [each for each in found if each.passed] == []
    assert str(skipped["off by 1%"]).startswith("the original's own error is nearly as large")


def test_cases_that_are_neither_small_nor_the_smallest_of_a_dtype_are_left_out(
    gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.measure.correctness.mutants.MOST_ELEMENTS", 500)
    cases = [gate.case(rows=rows) for rows in (1, 8, 24)] + [gate.case(DType.FLOAT16)]

    found = of(gate, doubled, *cases, reference=doubled, forward_only=True)

    assert list(dict.fromkeys(each.case for each in found)) == ["1x40-fp32", "8x40-fp32", "24x40-fp16"]


def test_an_output_in_an_inputs_memory_is_compared_as_it_was_returned(gate: Any) -> None:
    def in_place(inputs: Inputs) -> Tensor:
        return inputs["x"].mul_(2.0)

    found = of(gate, in_place, reference=doubled, forward_only=True, overwrites=("x",))

    assert {each.mutant for each in found if not each.refused} == set()


class DoubledInPlace(torch.autograd.Function):
    """Its gradient lies in the memory of the incoming one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return dy.mul_(2.0)


def test_a_gradient_in_the_memory_of_an_output_gradient_is_compared_as_it_was_returned(gate: Any) -> None:
    found = of(
        gate,
        lambda inputs: DoubledInPlace.apply(inputs["x"]),
        reference=doubled,
        differentiable=("x",),
        overwrites=("the gradient of output 0",),
    )

    assert {each.part for each in found} == {"output", "gradient of x"}
    assert {(each.part, each.mutant) for each in found if each.passed} == set()


class WrittenOverTheInput(torch.autograd.Function):
    """Its gradient is a view of the input, made by the pass forward, over which the pass backward has written."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.view(-1, x.shape[-1]))
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (rows,) = ctx.saved_tensors
        rows.data.copy_(dy.view(rows.shape) * 2.0)
        return rows.view(dy.shape)


def test_a_gradient_that_was_written_over_its_input_can_be_read_and_poisoned_after_the_input_has_changed(
    gate: Any,
) -> None:
    target = gate.target(reference=doubled, differentiable=("x",), overwrites=("x",))
    side = Implementation("original", lambda inputs: WrittenOverTheInput.apply(inputs["x"]), lambda: None, None)
    trial = Trial.of(target, gate.case(), device=torch.device("cpu"), seed=1)

    gradient = trial.backward(side, trial.forward(side))["gradient of x"]
    trial.refill(2)

    assert gradient is not None
    assert torch.equal(gradient, trial.inputs["x"])
    assert gradient.fill_(0.0).double().sum() == 0


def test_a_mutant_that_is_the_result_to_the_bit_is_no_hole_however_long_the_tail_of_its_errors(gate: Any) -> None:
    def with_a_tail(inputs: Inputs) -> Tensor:
        scale = torch.full_like(inputs["x"], 2.0)
        scale[..., 0] = 2.05
        return inputs["x"] * scale

    found = of(gate, with_a_tail, gate.case(DType.BFLOAT16, 1, 48), reference=doubled, forward_only=True)

    (transposed,) = (each for each in found if each.mutant == "transposed")
    assert (transposed.passed, transposed.skipped) == (
        False,
        "it is the right result at this case, to within a rounding",
    )
