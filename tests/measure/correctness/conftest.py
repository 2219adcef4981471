"""A target of plain torch that runs anywhere, y = x · w · scale and its row sums, and the gate over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import CaseCheck
from warpsmith.contracts.target import ALL_MODES, Inputs, Target
from warpsmith.measure.correctness.gate import check
from warpsmith.measure.correctness.trial import Trial
from warpsmith.measure.worker.implementation import Implementation

Call = Callable[[Inputs], Any]


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    dtype = getattr(torch, case.dtype.value)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=dtype, generator=generator)

    rows, columns = case.axes["M"], case.axes["N"]
    strided = case.options.get("layout") == "row_strided"
    x = normal(rows, 2 * columns)[:, :columns] if strided else normal(rows, columns)
    return {"x": x, "w": normal(columns) if case.options.get("weight", True) else None, "scale": 3.0}


def formula(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """(M, N) and (M,) of the inputs' dtype, computed in fp32 where that is narrower."""
    x, w = inputs["x"], inputs["w"]
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    y = wide * inputs["scale"] if w is None else wide * w.to(wide.dtype) * inputs["scale"]
    return y.to(x.dtype), y.sum(dim=-1).to(x.dtype)


class Gate:
    """The gate over this target on the CPU, at one case."""

    formula = staticmethod(formula)

    @staticmethod
    def case(dtype: DType = DType.FLOAT32, rows: int = 24, columns: int = 40, **options: Any) -> Case:
        return Case(axes={"M": rows, "N": columns}, dtype=dtype, options=options)

    @staticmethod
    def target(*, forward_only: bool = False, **changes: Any) -> Target:
        given: dict[str, Any] = {
            "name": "scaled",
            "source": "scaled.py",
            "module": "scaled",
            "make_inputs": make_inputs,
            "call": lambda module, inputs: module(inputs),
            "reference": formula,
            "cost": lambda case, mode: Cost(bytes_moved=1, flops=1),
            "cases": (),
            "modes": (Mode.FORWARD,) if forward_only else ALL_MODES,
            "differentiable": () if forward_only else ("x", "w"),
        }
        return Target(**{**given, **changes})

    def check(self, candidate: Call, case: Case | None = None, *, original: Call = formula, **target: Any) -> CaseCheck:
        sides = [
            Implementation(name, call, lambda: None, None)
            for name, call in (("candidate", candidate), ("original", original))
        ]
        (found,) = check(*sides, self.target(**target), [case or self.case()], device=torch.device("cpu"), seed=1)
        return found

    def failures(self, candidate: Call, case: Case | None = None, **changes: Any) -> tuple[str, ...]:
        return tuple(map(str, self.check(candidate, case, **changes).failures))

    def trial(self, case: Case | None = None, **target: Any) -> Trial:
        return Trial.of(self.target(**target), case or self.case(), device=torch.device("cpu"), seed=1)


@pytest.fixture(scope="session")
def gate() -> Gate:
    return Gate()
