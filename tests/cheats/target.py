"""The target that every kernel of the catalogue stands in for, small enough for Triton's interpreter."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target

EPS = 1e-6


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """Rows with a mean of several standard deviations, where a variance in one pass loses its digits."""
    dtype = getattr(torch, case.dtype.value)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=torch.float32, generator=generator)

    x = normal(case.axes["M"], case.axes["N"]) + float(case.options.get("mean", 0.0))
    return {"x": x.to(dtype), "w": (1 + 0.1 * normal(case.axes["N"])).to(dtype)}


def call(module: ModuleType, inputs: Inputs) -> Any:
    return module.layer_norm(inputs["x"], inputs["w"], EPS)


def reference(inputs: Inputs) -> tuple[Tensor, Tensor]:
    x, w = inputs["x"], inputs["w"]
    centred = x - x.mean(dim=-1, keepdim=True)
    rstd = (centred.square().mean(dim=-1, keepdim=True) + EPS).rsqrt()
    return centred * rstd * w, rstd.squeeze(-1).detach()


def cost(case: Case, mode: Mode) -> Cost:
    elements = case.axes["M"] * case.axes["N"]
    return Cost(bytes_moved=2 * elements * case.dtype.itemsize_bytes, flops=8 * elements)


def case(rows: int, columns: int, dtype: DType = DType.FLOAT32, role: Role = Role.TUNING, **options: float) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=dtype, role=role, options=options)


target = Target(
    name="layer_norm",
    source="original.py",
    module="layer_norm",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    # As small as shows anything, and the first one such that it shows all that the interpreter can.
    cases=(case(2, 17, mean=30.0), case(1, 9, DType.FLOAT16, Role.HELD_OUT)),
    differentiable=("x", "w"),
)
