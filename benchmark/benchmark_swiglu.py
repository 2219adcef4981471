"""SwiGLU as a target: how warpsmith.kernels.swiglu is called, checked, costed and what it is compared with.

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
from warpsmith.kernels.swiglu import swiglu_reference


def _tuning(rows: int, columns: int) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)


def _held_out(rows: int, columns: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=dtype, role=Role.HELD_OUT, options=options)


#: Options: layout="halves" takes gate and up from the halves of one tensor, as one matmul for both gives them.
CASES = (
    _tuning(2048, 2048),
    _tuning(8192, 4096),
    _tuning(8192, 8192),
    _tuning(4096, 16384),
    _tuning(32768, 2048),
    # between the tuned sizes; the widths of Llama 3 8B, of Llama 2 7B and of Qwen2.5 7B
    _held_out(16384, 4096),
    _held_out(4096, 14336),
    _held_out(8192, 11008),
    _held_out(2048, 18944),
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
    # another layout
    _held_out(4096, 8192, layout="halves"),
    _held_out(4093, 1021, layout="halves"),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """gate and up, (M, N), normal with deviation 1."""
    rows, columns = case.axes["M"], case.axes["N"]
    dtype = getattr(torch, case.dtype.value)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=dtype, generator=generator)

    if case.options.get("layout") == "halves":
        both = normal(rows, 2 * columns)
        return {"gate": both[:, :columns], "up": both[:, columns:]}
    return {"gate": normal(rows, columns), "up": normal(rows, columns)}


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """swiglu of the module that is handed in."""
    y: Tensor = module.swiglu(inputs["gate"], inputs["up"])
    return y


def reference(inputs: Inputs) -> Tensor:
    """SwiGLU by plain torch, in float64 where the inputs are."""
    return swiglu_reference(inputs["gate"], inputs["up"])


def cost(case: Case, mode: Mode) -> Cost:
    """Each matrix crosses device memory once; operations an element.

    Forward: gate, up; y. σ by exp, a sum and a quotient (3), g·σ (1), times up (1).
    Backward: dy, gate, up; dgate, dup. σ (3), 1 - σ, g·(1 - σ), 1 + it, times σ (4), dy·up, times it (2); g·σ, dy times
    it (2).
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    elements = case.axes["M"] * case.axes["N"]
    matrices, operations = (3, 5) if mode is Mode.FORWARD else (5, 11)
    return Cost(bytes_moved=matrices * elements * case.dtype.itemsize_bytes, flops=operations * elements)


def _torch() -> Callable[[Inputs], Tensor]:
    """What a torch user has: two kernels forward, which round silu(gate) in between."""

    def run(inputs: Inputs) -> Tensor:
        return functional.silu(inputs["gate"]) * inputs["up"]

    return run


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """The reference's plain formula, compiled anew for every shape, as the kernel is.

    Every case is a recompilation. Past the limit torch would run the formula uncompiled, so the limit is raised,
    and fullgraph makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(swiglu_reference, dynamic=False, fullgraph=True)

    def run(inputs: Inputs) -> Tensor:
        return compiled(inputs["gate"], inputs["up"])

    return run


def _liger() -> Callable[[Inputs], Tensor]:
    """Liger-Kernel's op. Its backward pass writes over gate and up, and so would be wrong when it is repeated.

    Where there are gradients it is therefore the op for both in one tensor, which leaves them, and moves as many bytes.
    The forward pass then begins with a copy into that tensor, which is no part of the time of a backward pass, but of
    that of both.
    """
    from liger_kernel.ops.swiglu import LigerFusedGateUpSiLUMulFunction, LigerSiLUMulFunction

    def run(inputs: Inputs) -> Tensor:
        gate, up = inputs["gate"], inputs["up"]
        if gate.requires_grad or up.requires_grad:
            in_one: Tensor = LigerFusedGateUpSiLUMulFunction.apply(torch.cat((gate, up), dim=-1))
            return in_one
        y: Tensor = LigerSiLUMulFunction.apply(gate, up)
        return y

    return run


target = Target(
    name="swiglu",
    source="src/warpsmith/kernels/swiglu.py",
    module="warpsmith.kernels.swiglu",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("gate", "up"),
    providers={"torch": _torch, "torch_compile": _torch_compile, "liger": _liger},
    tests=("tests/kernels/test_swiglu.py",),
    plot_axis="N",
)
