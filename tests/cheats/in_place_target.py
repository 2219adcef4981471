"""A target that declares what it overwrites, with no pass backward."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    rows, columns = case.axes["M"], case.axes["N"]
    x, w = (torch.randn(shape, device=device, generator=generator) for shape in ((rows, columns), (columns,)))
    return {"x": x, "w": w}


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    result: Tensor = module.scale_(inputs["x"], inputs["w"])
    return result


target = Target(
    name="scale",
    source="in_place_original.py",
    module="scale",
    make_inputs=make_inputs,
    call=call,
    reference=lambda inputs: inputs["x"] * inputs["w"],
    cost=lambda case, mode: Cost(
        bytes_moved=8 * case.axes["M"] * case.axes["N"], flops=case.axes["M"] * case.axes["N"]
    ),
    cases=(
        Case(axes={"M": 3, "N": 16}, dtype=DType.FLOAT32),
        Case(axes={"M": 1, "N": 9}, dtype=DType.FLOAT32, role=Role.HELD_OUT),
    ),
    modes=(Mode.FORWARD,),
    overwrites=("x",),
)
