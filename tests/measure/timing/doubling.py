"""A target that doubles a vector, and contenders that do so in one way or another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing.rotation import RotationMaker
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputMaker

CPU = torch.device("cpu")
#: 64 float32 elements are 256 bytes: eight sets of them are twice the simulated L2 cache.
CASE = Case(axes={"N": 64}, dtype=DType.FLOAT32)


def target_of(elements: int = 64, overwrites: tuple[str, ...] = (), **changed: Any) -> Target:
    working: dict[str, Any] = {
        "name": "k",
        "source": "k.py",
        "module": "k",
        "make_inputs": lambda case, device, generator: {"x": torch.randn(elements, generator=generator)},
        "call": lambda module, inputs: None,
        "reference": lambda inputs: inputs["x"] * 2,
        "cost": lambda case, mode: Cost(bytes_moved=1 << 30, flops=0),  # all of what a call is handed
        "cases": (CASE,),
        "differentiable": ("x",),
        "overwrites": overwrites,
    }
    return Target(**{**working, **changed})


def rotations_of(target: Target, mode: Mode = Mode.FORWARD, l2: L2 = L2.COLD) -> RotationMaker:
    return RotationMaker(InputMaker(target, CASE, mode, CPU), l2)


def side(
    name: str,
    call: Callable[[Inputs], Any],
    activate: Callable[[], None] = lambda: None,
    source_path: str | None = None,
) -> Implementation:
    return Implementation(name, call, activate, source_path)


def double(inputs: Inputs) -> Tensor:
    return inputs["x"] * 2


def double_in(operations: int) -> Callable[[Inputs], Tensor]:
    """Doubles, in so many operations."""

    def call(inputs: Inputs) -> Tensor:
        y = inputs["x"]
        for _ in range(operations - 1):
            y = y + 0
        return y * 2

    return call


def waits_in(cuda: Any) -> Callable[[Inputs], Tensor]:
    """Cannot be captured."""

    def waits(inputs: Inputs) -> Tensor:
        if cuda.capturing is not None:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return double(inputs)

    return waits


def remembers_in(known: dict[float, Tensor]) -> Callable[[Inputs], Tensor]:
    """Works nothing out for a vector that it has seen: a graph of it writes nothing."""

    def remembers(inputs: Inputs) -> Tensor:
        first = float(inputs["x"].detach()[0])
        if first not in known:
            known[first] = double(inputs)
        return known[first]

    return remembers


def fails(inputs: Inputs) -> Tensor:
    raise ValueError("no such shape\nmore")


class Halves(torch.autograd.Function):
    """Doubles, and halves its input in the forward pass, and in the pass backward that and the gradient it is handed.

    `seen` has what each tensor held, and how many times it should have been halved by then.
    """

    seen: list[tuple[int, Tensor]]
    gradients: list[Tensor]

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Halves.seen.append((0, x.data.clone()))
        y = x * 2
        x.data.mul_(0.5)
        ctx.halved = x.data
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        Halves.seen.append((1, ctx.halved.clone()))
        Halves.gradients.append(gradient.clone())
        result = gradient * 2
        ctx.halved.mul_(0.5)
        gradient.data.mul_(0.5)
        return result
