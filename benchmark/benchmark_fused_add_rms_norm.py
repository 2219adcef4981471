"""Residual addition and RMSNorm as a target: how warpsmith.kernels.fused_add_rms_norm is called, checked, costed.

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
from warpsmith.kernels.fused_add_rms_norm import fused_add_rms_norm_reference

EPS = 1e-6

#: y, and the sum that is the next layer's residual.
Outputs = tuple[Tensor, Tensor]


def _tuning(rows: int, columns: int) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)


def _held_out(rows: int, columns: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=dtype, role=Role.HELD_OUT, options=options)


#: Options: layout="row_strided" takes x and the residual from rows twice as wide; casting and offset are
#: fused_add_rms_norm's own.
CASES = (
    _tuning(2048, 2048),
    _tuning(8192, 4096),
    _tuning(8192, 8192),
    _tuning(4096, 16384),
    _tuning(32768, 2048),
    # between the tuned sizes
    _held_out(8192, 2048),
    _held_out(16384, 4096),
    _held_out(4096, 8192),
    _held_out(6144, 5120),
    # other dtypes
    _held_out(8192, 4096, DType.FLOAT16),
    _held_out(8192, 4096, DType.FLOAT32),
    _held_out(1000, 768, DType.FLOAT32),
    # so few rows that Triton's interpreter has them done in no time
    _held_out(4, 40, DType.FLOAT32),
    # prime sizes, few rows, narrow rows
    _held_out(4093, 4099),
    _held_out(127, 1021, DType.FLOAT16),
    _held_out(1, 4096),
    _held_out(64, 8192),
    _held_out(16384, 1024),
    # another layout and convention
    _held_out(4096, 4096, layout="row_strided"),
    _held_out(4096, 4096, casting="gemma", offset=1.0),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """x and residual, (M, N), normal with deviation 1; weight, (N,), such that weight + offset lies around 1."""
    rows, columns = case.axes["M"], case.axes["N"]
    dtype = getattr(torch, case.dtype.value)
    offset = float(case.options.get("offset", 0.0))
    width = 2 * columns if case.options.get("layout") == "row_strided" else columns

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=dtype, generator=generator)

    return {
        "x": normal(rows, width)[:, :columns],
        "residual": normal(rows, width)[:, :columns],
        "weight": 1.0 - offset + 0.1 * normal(columns),
        "eps": EPS,
        "offset": offset,
        "casting": str(case.options.get("casting", "llama")),
    }


def call(module: ModuleType, inputs: Inputs) -> Outputs:
    """fused_add_rms_norm of the module that is handed in."""
    outputs: Outputs = module.fused_add_rms_norm(
        inputs["x"],
        inputs["residual"],
        inputs["weight"],
        inputs["eps"],
        offset=inputs["offset"],
        casting=inputs["casting"],
    )
    return outputs


def reference(inputs: Inputs) -> Outputs:
    """The same by plain torch, in float64 where the inputs are."""
    return fused_add_rms_norm_reference(
        inputs["x"], inputs["residual"], inputs["weight"], inputs["eps"], inputs["offset"], inputs["casting"]
    )


def cost(case: Case, mode: Mode) -> Cost:
    """Each tensor crosses device memory once, rstd (fp32) between the passes; operations an element, none a row.

    Forward: x, residual in, y, s out; x + residual (1), square and its sum (2), s·rstd (1), times weight (1).
    Backward: dy, ds_out, s in, ds out, which is the gradient of both x and residual; s·rstd (1), dy·weight (1), m·ŝ
    and its sum (2), ŝ·mean, the difference, times rstd (3), plus ds_out (1); dw (2).
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    rows, columns = case.axes["M"], case.axes["N"]
    matrix_bytes = rows * columns * case.dtype.itemsize_bytes
    weight_bytes = columns * case.dtype.itemsize_bytes
    rstd_bytes = rows * 4
    if mode is Mode.FORWARD:
        return Cost(bytes_moved=4 * matrix_bytes + weight_bytes + rstd_bytes, flops=5 * rows * columns)
    return Cost(bytes_moved=4 * matrix_bytes + 2 * weight_bytes + rstd_bytes, flops=10 * rows * columns)


def _torch() -> Callable[[Inputs], Outputs]:
    """What a torch user has: an addition and a fused normalization, which rounds once, as gemma does."""

    def run(inputs: Inputs) -> Outputs:
        s, weight = inputs["x"] + inputs["residual"], inputs["weight"]
        if inputs["offset"] != 0.0:
            weight = weight + inputs["offset"]
        return torch.nn.functional.rms_norm(s, s.shape[-1:], weight, inputs["eps"]), s

    return run


def _torch_compile() -> Callable[[Inputs], Outputs]:
    """The reference's plain formula, compiled anew for every shape, as the kernel is.

    Every case is a recompilation. Past the limit torch would run the formula uncompiled, so the limit is raised,
    and fullgraph makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(fused_add_rms_norm_reference, dynamic=False, fullgraph=True)

    def run(inputs: Inputs) -> Outputs:
        return compiled(
            inputs["x"], inputs["residual"], inputs["weight"], inputs["eps"], inputs["offset"], inputs["casting"]
        )

    return run


def _liger() -> Callable[[Inputs], Outputs]:
    """Liger-Kernel's op, not in place: in place, a repeated backward pass would overwrite the same gradient."""
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

    def run(inputs: Inputs) -> Outputs:
        in_place = False
        outputs: Outputs = LigerFusedAddRMSNormFunction.apply(
            inputs["x"],
            inputs["residual"],
            inputs["weight"],
            inputs["eps"],
            inputs["offset"],
            inputs["casting"],
            in_place,
        )
        return outputs

    return run


def _quack() -> Callable[[Inputs], Outputs]:
    """Quack's RMSNorm with a residual, of CuTe DSL. It adds and normalizes in fp32, and rounds once, as gemma does."""
    from quack.rmsnorm import rmsnorm

    def run(inputs: Inputs) -> Outputs:
        outputs: Outputs = rmsnorm(
            inputs["x"],
            inputs["weight"],
            residual=inputs["residual"],
            eps=inputs["eps"],
            prenorm=True,
            weight_offset=inputs["offset"],
        )
        return outputs

    return run


target = Target(
    name="fused_add_rms_norm",
    source="src/warpsmith/kernels/fused_add_rms_norm.py",
    module="warpsmith.kernels.fused_add_rms_norm",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("x", "residual", "weight"),
    providers={"torch": _torch, "torch_compile": _torch_compile, "liger": _liger, "quack": _quack},
    tests=("tests/kernels/test_fused_add_rms_norm.py",),
    plot_axis="N",
)
