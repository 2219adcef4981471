"""Shapes at the edge: none along an axis, and one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, DType
from warpsmith.contracts.target import Inputs
from warpsmith.measure.correctness.bout import Bout, observe
from warpsmith.measure.correctness.shapes import shapes
from warpsmith.measure.worker.implementation import Implementation


def sums(inputs: Inputs) -> Tensor:
    return inputs["x"].sum(dim=-1)


def needs_columns(inputs: Inputs) -> Tensor:
    if inputs["x"].shape[1] == 0:
        raise ValueError("no columns")
    return sums(inputs)


def made(gate: Any, candidate: Any, original: Any = sums, case: Case | None = None, **changes: Any) -> Bout:
    changes = {"reference": sums, "forward_only": True, **changes}
    trial = gate.trial(case or gate.case(weight=False), **changes)
    sides = [Implementation(n, c, lambda: None, None) for n, c in (("candidate", candidate), ("original", original))]
    known = observe(sides[1], trial)
    return Bout(sides[0], sides[1], trial, known, trial.reference(), known)


def told(bout: Bout) -> list[str]:
    return [f"{failure.check}: {failure}" for failure in shapes(bout)]


def test_a_right_candidate_passes_at_every_shape(gate: Any) -> None:
    bout = made(gate, lambda inputs: inputs["x"].flip(-1).sum(dim=-1))

    assert (told(bout), bout.skipped) == ([], {})


def test_a_candidate_that_fails_with_no_rows_is_rejected(gate: Any) -> None:
    def needs_rows(inputs: Inputs) -> Tensor:
        if inputs["x"].shape[0] == 0:
            raise ValueError("an empty grid")
        return sums(inputs)

    assert told(made(gate, needs_rows)) == [
        "shapes: with M=0 it fails, the original does not: runtime_failed: ValueError: an empty grid"
    ]


def test_a_candidate_that_is_wrong_with_one_column_is_rejected(gate: Any) -> None:
    (first,) = told(made(gate, lambda inputs: sums(inputs) * (1 + (inputs["x"].shape[1] == 1))))

    assert first.startswith("shapes: output: with N=1: RMS error")


def test_a_candidate_that_forgets_an_odd_row_is_rejected(gate: Any) -> None:
    def even(inputs: Inputs) -> Tensor:
        found = sums(inputs)
        rows = found.shape[0] if found.shape[0] < 2 else found.shape[0] // 2 * 2
        return torch.cat((found[:rows], torch.zeros_like(found[rows:])))

    (first,) = told(made(gate, even))

    assert first.startswith("shapes: output: with M=25: RMS error")


def test_a_result_of_another_form_is_rejected(gate: Any) -> None:
    def widens(inputs: Inputs) -> Tensor:
        return sums(inputs).double() if inputs["x"].shape[0] == 1 else sums(inputs)

    assert told(made(gate, widens)) == [
        "shapes: output: with M=1: dtype torch.float64, the original's torch.float32",
    ]


def test_the_original_decides_which_shapes_are_supported(gate: Any) -> None:
    bout = made(gate, needs_columns, needs_columns)

    assert told(bout) == []
    assert list(bout.skipped) == ["shapes, N=0"]
    assert "ValueError: no columns" in bout.skipped["shapes, N=0"]


def test_where_the_original_is_wrong_nobody_is_held_to_it(gate: Any) -> None:
    def wrong_at_one(inputs: Inputs) -> Tensor:
        return sums(inputs) + (inputs["x"].shape[1] == 1)

    bout = made(gate, sums, wrong_at_one)

    assert told(bout) == []
    assert bout.skipped["shapes, N=1"].startswith("the original's output is off by 1")


def test_a_shape_that_the_target_names_is_left_out(gate: Any) -> None:
    bout = made(gate, needs_columns, unprobed=("N=0",))

    assert (told(bout), bout.skipped) == ([], {"shapes, N=0": "the target names it in `unprobed`"})


def test_only_the_smallest_case_of_a_dtype_is_tried(gate: Any) -> None:
    cases = tuple(gate.case(dtype, rows=rows, weight=False) for dtype in DType for rows in (24, 8))
    larger, smaller = (made(gate, needs_columns, case=case, cases=cases) for case in cases[:2])

    assert (told(larger), larger.skipped) == (
        [],
        {"shapes": f"made at {cases[1].name}, the smallest case of that dtype"},
    )
    assert len(told(smaller)) == 1


def test_one_row_may_be_summed_in_another_order_though_the_original_is_exact_there_by_luck(gate: Any) -> None:
    def exactly(inputs: Inputs) -> Tensor:
        return inputs["x"].double().sum(dim=-1).float()

    def in_a_row(inputs: Inputs) -> Tensor:
        return inputs["x"].cumsum(dim=-1)[:, -1].clone() if inputs["x"].shape[1] else torch.zeros(len(inputs["x"]))

    case = gate.case(columns=4096, weight=False)

    assert told(made(gate, in_a_row, exactly, case, reference=lambda i: i["x"].sum(dim=-1))) == []


def test_a_gradient_that_vanishes_at_one_column_may_be_a_rounding_there(gate: Any) -> None:
    def exact(inputs: Inputs) -> Tensor:
        return inputs["x"].softmax(dim=-1)

    def rounds(inputs: Inputs) -> Tensor:
        powers = inputs["x"].exp()
        return powers / powers.sum(dim=-1, keepdim=True) * 0.3 + exact(inputs) * 0.7

    gradients = {"reference": exact, "forward_only": False, "differentiable": ("x",)}

    assert told(made(gate, rounds, exact, **gradients)) == []
