"""Softmax as a target: how warpsmith.kernels.softmax is called, checked, costed and what it is compared with.

Owns the cases and the baselines. Must not know how anything is measured. Loaded in workers only.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target
from warpsmith.kernels.softmax import softmax_reference


def _tuning(rows: int, columns: int) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)


def _held_out(rows: int, columns: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=dtype, role=Role.HELD_OUT, options=options)


#: Options: layout="row_strided" takes x from rows twice as wide.
CASES = (
    _tuning(2048, 2048),
    _tuning(8192, 4096),
    _tuning(8192, 8192),
    _tuning(4096, 16384),
    _tuning(32768, 2048),
    # between the tuned sizes
    _held_out(16384, 4096),
    _held_out(4096, 8192),
    _held_out(6144, 5120),
    # narrow rows, which share a program; rows longer than a block
    _held_out(131072, 128),
    _held_out(16384, 1024),
    _held_out(1024, 65536),
    _held_out(512, 128256),
    # other dtypes
    _held_out(8192, 4096, DType.FLOAT16),
    _held_out(8192, 4096, DType.FLOAT32),
    _held_out(1000, 768, DType.FLOAT32),
    # so few rows that Triton's interpreter has them done in no time
    _held_out(4, 40, DType.FLOAT32),
    # prime sizes, few rows
    _held_out(4093, 4099),
    _held_out(127, 1021, DType.FLOAT16),
    _held_out(1, 4096),
    _held_out(64, 8192),
    # another layout
    _held_out(4096, 4096, layout="row_strided"),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """x, (M, N), normal with deviation 1."""
    rows, columns = case.axes["M"], case.axes["N"]
    row_strided = case.options.get("layout") == "row_strided"
    shape = (rows, 2 * columns if row_strided else columns)
    x = torch.randn(shape, device=device, dtype=getattr(torch, case.dtype.value), generator=generator)
    return {"x": x[:, :columns]}


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """softmax of the module that is handed in."""
    y: Tensor = module.softmax(inputs["x"])
    return y


def reference(inputs: Inputs) -> Tensor:
    """Softmax by plain torch, in float64 where the input is."""
    return softmax_reference(inputs["x"])


def cost(case: Case, mode: Mode) -> Cost:
    """Each tensor crosses device memory once; operations an element, none a row.

    Forward: x in, y out; the maximum (1), the difference, its exponential and their sum (3), times 1 / sum (1).
    Backward: dy and y in, dx out; dy·y and its sum (2), the difference, times y (2).
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    elements = case.axes["M"] * case.axes["N"]
    matrix_bytes = elements * case.dtype.itemsize_bytes
    if mode is Mode.FORWARD:
        return Cost(bytes_moved=2 * matrix_bytes, flops=5 * elements)
    return Cost(bytes_moved=3 * matrix_bytes, flops=4 * elements)


def _torch() -> Callable[[Inputs], Tensor]:
    """What a torch user has."""
    return lambda inputs: torch.softmax(inputs["x"], dim=-1)


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """The reference's plain formula, compiled anew for every shape, as the kernel is.

    Every case is a recompilation. Past the limit torch would run the formula uncompiled, so the limit is raised,
    and fullgraph makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(softmax_reference, dynamic=False, fullgraph=True)
    return lambda inputs: compiled(inputs["x"])


def _liger() -> Callable[[Inputs], Tensor]:
    """Liger-Kernel's op."""
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    def run(inputs: Inputs) -> Tensor:
        y: Tensor = LigerSoftmaxFunction.apply(inputs["x"])
        return y

    return run


def _quack() -> Callable[[Inputs], Tensor]:
    """Quack's op, of CuTe DSL."""
    from quack.softmax import softmax

    def run(inputs: Inputs) -> Tensor:
        y: Tensor = softmax(inputs["x"])
        return y

    return run


target = Target(
    name="softmax",
    source="src/warpsmith/kernels/softmax.py",
    module="warpsmith.kernels.softmax",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("x",),
    providers={"torch": _torch, "torch_compile": _torch_compile, "liger": _liger, "quack": _quack},
    tests=("tests/kernels/test_softmax.py",),
    plot_axis="N",
)
