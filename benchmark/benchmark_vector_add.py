"""Vector addition as a target, the smallest one: how warpsmith.kernels.vector_add is called, checked and costed."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target
from warpsmith.kernels.vector_add import vector_add_reference


def _tuning(n: int) -> Case:
    return Case(axes={"N": n}, dtype=DType.BFLOAT16)


def _held_out(n: int, dtype: DType = DType.BFLOAT16) -> Case:
    return Case(axes={"N": n}, dtype=dtype, role=Role.HELD_OUT)


CASES = (
    _tuning(2**22),
    _tuning(2**24),
    _tuning(2**25),
    _tuning(2**26),
    _tuning(2**27),
    # between the tuned sizes
    _held_out(3 * 2**23),
    _held_out(5 * 2**24),
    # other dtypes
    _held_out(2**25, DType.FLOAT16),
    _held_out(2**25, DType.FLOAT32),
    _held_out(768_000, DType.FLOAT32),
    # so short that Triton's interpreter has it done in no time
    _held_out(5003, DType.FLOAT32),
    # prime sizes, short vectors
    _held_out(16_777_259),
    _held_out(1_000_003, DType.FLOAT16),
    _held_out(4096),
    _held_out(1),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """x and y, (N,), normal with deviation 1."""
    dtype = getattr(torch, case.dtype.value)
    return {name: torch.randn(case.axes["N"], device=device, dtype=dtype, generator=generator) for name in ("x", "y")}


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """vector_add of the module that is handed in."""
    z: Tensor = module.vector_add(inputs["x"], inputs["y"])
    return z


def reference(inputs: Inputs) -> Tensor:
    """x + y by plain torch, in float64 where the inputs are."""
    return vector_add_reference(inputs["x"], inputs["y"])


def cost(case: Case, mode: Mode) -> Cost:
    """x, y and z cross device memory once; one operation an element."""
    n = case.axes["N"]
    return Cost(bytes_moved=3 * n * case.dtype.itemsize_bytes, flops=n)


def _torch() -> Callable[[Inputs], Tensor]:
    return reference


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """Compiled anew for every length. Past the limit torch would run it uncompiled; fullgraph makes that an error."""
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(vector_add_reference, dynamic=False, fullgraph=True)

    def run(inputs: Inputs) -> Tensor:
        return compiled(inputs["x"], inputs["y"])

    return run


target = Target(
    name="vector_add",
    source="src/warpsmith/kernels/vector_add.py",
    module="warpsmith.kernels.vector_add",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    # The backward pass hands dz on; there is no kernel in it.
    modes=(Mode.FORWARD,),
    providers={"torch": _torch, "torch_compile": _torch_compile},
    tests=("tests/kernels/test_vector_add.py",),
    plot_axis="N",
)
