"""A target that does not do what a target does is told so by what it returned, and ends in the code for pre-flight."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.target import Target
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import as_outputs, make_one
from warpsmith.measure.worker.protocol import WorkerError

CASE = Case(axes={"N": 4}, dtype=DType.FLOAT32)
CPU = torch.device("cpu")


def target(**changed: Any) -> Target:
    working: dict[str, Any] = {
        "name": "double",
        "source": "double.py",
        "module": "double",
        "make_inputs": lambda case, device, generator: {"x": torch.randn(4, generator=generator, device=device)},
        "call": lambda module, inputs: inputs["x"] * 2,
        "reference": lambda inputs: inputs["x"] * 2,
        "cost": lambda case, mode: Cost(bytes_moved=1, flops=1),
        "cases": (CASE,),
        "differentiable": ("x",),
    }
    return Target(**{**working, **changed})


def run(made: Target, mode: Mode) -> tuple[torch.Tensor, ...]:
    """One call as every measurement makes it."""
    one = make_one(made, CASE, mode, seed=0, device=CPU)
    implementation = Implementation("original", lambda inputs: made.call(None, inputs), lambda: None, None)  # type: ignore[arg-type]
    return prepared(implementation, mode, [one])(0)


def refused(made: Target, mode: Mode) -> str:
    with pytest.raises(WorkerError) as caught:
        run(made, mode)
    assert caught.value.failure.status == "bad_target"
    return caught.value.failure.message


@pytest.mark.parametrize("mode", Mode)
def test_a_target_that_does_what_it_should_is_called(mode: Mode) -> None:
    made = 2 if mode is Mode.FULL else 1
    assert [each.shape for each in run(target(), mode)] == [(4,)] * made


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("result", "told"),
    [
        (None, "NoneType"),
        (3.5, "float"),
        ("output", "str"),
        ({"out": torch.ones(2)}, "dict"),
        ((), "tuple of 0 items, no tensor among them"),
        ([None, 1], "list of 2 items, no tensor among them"),
    ],
)
def test_what_is_no_tensor_is_told_by_its_type(mode: Mode, result: Any, told: str) -> None:
    message = refused(target(call=lambda module, inputs: result), mode)
    assert message == f"call returned {told}; expected a tensor or a tuple of tensors"


def test_values_beside_tensors_are_left_out() -> None:
    one, other = torch.ones(1), torch.ones(2)
    assert as_outputs((one, None, 3, other)) == (one, other)


def test_a_reference_that_returns_nothing_is_told() -> None:
    message = refused(target(reference=lambda inputs: None), Mode.BACKWARD)
    assert message == "reference returned NoneType; expected a tensor or a tuple of tensors"


@pytest.mark.parametrize("mode", [Mode.BACKWARD, Mode.FULL])
def test_a_reference_with_another_number_of_outputs_is_told(mode: Mode) -> None:
    made = target(reference=lambda inputs: (inputs["x"], inputs["x"]))
    assert refused(made, mode) == "call returned 1 floating-point tensors and reference 2; expected as many"


def test_a_call_that_carries_no_gradient_has_no_backward_pass() -> None:
    message = refused(target(call=lambda module, inputs: inputs["x"].detach()), Mode.BACKWARD)
    assert message.startswith("no output of call carries a gradient")


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (None, "make_inputs returned NoneType; expected a dict of tensors and values by name"),
        ((torch.ones(1),), "make_inputs returned tuple; expected a dict of tensors and values by name"),
        ({}, "make_inputs was asked for tensors on cpu and returned no tensor"),
        (
            {"x": torch.ones(1, device="meta"), "eps": 1e-6},
            "make_inputs was asked for tensors on cpu and returned x on meta",
        ),
    ],
)
def test_inputs_that_are_not_on_the_device_are_told(inputs: Any, told: str) -> None:
    assert refused(target(make_inputs=lambda case, device, generator: inputs), Mode.FORWARD) == told
