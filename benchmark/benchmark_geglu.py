"""GeGLU as a target: how warpsmith.kernels.geglu is called, checked, costed and what it is compared with.

Owns the cases and the baselines. Must not know how anything is measured. Loaded in workers only.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target
from warpsmith.kernels.geglu import geglu_reference


def _tuning(rows: int, columns: int) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)


def _held_out(rows: int, columns: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=dtype, role=Role.HELD_OUT, options=options)


#: Options: layout="halves" takes gate and up from the halves of one tensor, as one matmul for both gives them;
#: approximate="none" is the exact GELU.
CASES = (
    _tuning(2048, 2048),
    _tuning(8192, 4096),
    _tuning(8192, 8192),
    _tuning(4096, 16384),
    _tuning(32768, 2048),
    # between the tuned sizes; the widths of Gemma 2 9B, of Gemma 2B and of Gemma 3 12B
    _held_out(16384, 4096),
    _held_out(4096, 14336),
    _held_out(4096, 16384, DType.FLOAT16),
    _held_out(8192, 15360),
    # other dtypes
    _held_out(8192, 4096, DType.FLOAT16),
    _held_out(8192, 4096, DType.FLOAT32),
    _held_out(1000, 768, DType.FLOAT32),
    # so few rows that Triton's interpreter has them done in no time
    _held_out(4, 40, DType.FLOAT32),
    # prime sizes, few rows, narrow rows
    _held_out(4093, 4099),
    _held_out(127, 1021, DType.FLOAT16),
    _held_out(1, 14336),
    _held_out(64, 8192),
    _held_out(16384, 1024),
    # another layout, the exact GELU
    _held_out(4096, 8192, layout="halves"),
    _held_out(8192, 8192, approximate="none"),
    _held_out(4093, 1021, layout="halves", approximate="none"),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """gate and up, (M, N), normal with deviation 1; approximate, as geglu takes it."""
    rows, columns = case.axes["M"], case.axes["N"]
    dtype = getattr(torch, case.dtype.value)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=dtype, generator=generator)

    if case.options.get("layout") == "halves":
        both = normal(rows, 2 * columns)
        gate, up = both[:, :columns], both[:, columns:]
    else:
        gate, up = normal(rows, columns), normal(rows, columns)
    return {"gate": gate, "up": up, "approximate": _approximate(case)}


def _approximate(case: Case) -> str:
    return str(case.options.get("approximate", "tanh"))


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """geglu of the module that is handed in."""
    y: Tensor = module.geglu(inputs["gate"], inputs["up"], approximate=inputs["approximate"])
    return y


def reference(inputs: Inputs) -> Tensor:
    """GeGLU by plain torch, in float64 where the inputs are."""
    return geglu_reference(inputs["gate"], inputs["up"], inputs["approximate"])


def cost(case: Case, mode: Mode) -> Cost:
    """Each matrix crosses device memory once; operations an element. With Φ the gate of GELU, gelu(g) = g·Φ(g),

    Forward: gate, up; y. Φ (9 by tanh, 4 exact), g·Φ (1), times up (1).
    Backward: dy, gate, up; dgate, dup. Φ, Φ' (8, 4), Φ + g·Φ' (2), dy·up, times it (2); g·Φ, dy times it (2).

    By tanh: u = √(2/π)·(g + c·g³) (5), Φ = σ(2u) (4), Φ' = 2·Φ·(1 - Φ)·√(2/π)·(1 + 3c·g²) (8).
    Exact: Φ = (1 + erf(g/√2))/2 (4), Φ' = exp(-g²/2)/√(2π) (4).
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    elements = case.axes["M"] * case.axes["N"]
    gelu, derivative = (9, 8) if _approximate(case) == "tanh" else (4, 4)
    matrices, operations = (3, gelu + 2) if mode is Mode.FORWARD else (5, gelu + derivative + 6)
    return Cost(bytes_moved=matrices * elements * case.dtype.itemsize_bytes, flops=operations * elements)


def _torch() -> Callable[[Inputs], Tensor]:
    """What a torch user has: two kernels forward, which round gelu(gate) in between."""

    def run(inputs: Inputs) -> Tensor:
        return functional.gelu(inputs["gate"], approximate=inputs["approximate"]) * inputs["up"]

    return run


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """The reference's plain formula, compiled anew for every shape, as the kernel is.

    Every case is a recompilation. Past the limit torch would run the formula uncompiled, so the limit is raised,
    and fullgraph makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(geglu_reference, dynamic=False, fullgraph=True)

    def run(inputs: Inputs) -> Tensor:
        return compiled(inputs["gate"], inputs["up"], inputs["approximate"])

    return run


def _liger() -> Callable[[Inputs], Tensor]:
    """Liger-Kernel's op, forward by tanh. Its backward pass writes over gate and up: repeated, it would be wrong."""
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    def run(inputs: Inputs) -> Tensor:
        gate, up = inputs["gate"], inputs["up"]
        if inputs["approximate"] != "tanh":
            raise NotImplementedError("Liger-Kernel has GeGLU by tanh only")
        if gate.requires_grad or up.requires_grad:
            raise NotImplementedError("Liger-Kernel's backward pass of GeGLU writes over its inputs")
        y: Tensor = LigerGELUMulFunction.apply(gate, up)
        return y

    return run


target = Target(
    name="geglu",
    source="src/warpsmith/kernels/geglu.py",
    module="warpsmith.kernels.geglu",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("gate", "up"),
    providers={"torch": _torch, "torch_compile": _torch_compile, "liger": _liger},
    tests=("tests/kernels/test_geglu.py",),
    plot_axis="N",
)
