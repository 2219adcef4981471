"""The calibration kernel as a target, at sizes that take from 5 µs to 1 ms on an H200."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.target import Inputs, Target

COLUMNS = 2048
#: Forward passes of about 5, 10, 20, 50, 100, 200, 400 and 1000 µs on an H200; backward ones take half as long again.
ROWS = (1536, 4096, 9216, 24576, 49152, 98304, 196608, 491520)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """x, (M, N), normal; w, (N,), around 1."""
    rows, columns = case.axes["M"], case.axes["N"]

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=torch.bfloat16, generator=generator)

    return {"x": normal(rows, columns), "w": 1 + 0.1 * normal(columns)}


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    y: Tensor = module.scale(inputs["x"], inputs["w"])
    return y


def reference(inputs: Inputs) -> Tensor:
    y: Tensor = inputs["x"] * inputs["w"]
    return y


def cost(case: Case, mode: Mode) -> Cost:
    """Forward reads x and writes y; backward reads dy and x and writes dx."""
    tensors = {Mode.FORWARD: 2, Mode.BACKWARD: 3, Mode.FULL: 5}[mode]
    elements = case.axes["M"] * case.axes["N"]
    return Cost(bytes_moved=tensors * elements * 2, flops=elements * {Mode.FORWARD: 1, Mode.BACKWARD: 3}.get(mode, 4))


target = Target(
    name="calibration",
    source="benchmark/calibrating/kernel.py",
    module="calibration_kernel",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=tuple(Case(axes={"M": rows, "N": COLUMNS}, dtype=DType.BFLOAT16) for rows in ROWS),
    differentiable=("x", "w"),
)
