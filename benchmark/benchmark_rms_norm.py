"""RMSNorm as a target: how warpsmith.kernels.rms_norm is called, checked, costed and what it is compared with.

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
from warpsmith.kernels.rms_norm import rms_norm_reference

EPS = 1e-6


def _tuning(rows: int, columns: int) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)


def _held_out(rows: int, columns: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=dtype, role=Role.HELD_OUT, options=options)


#: Options: layout="row_strided" takes x from rows twice as wide; weight=False leaves the weight out; casting and
#: offset are rms_norm's own.
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
    _held_out(12288, 3072),
    # other dtypes
    _held_out(8192, 4096, DType.FLOAT16),
    _held_out(8192, 4096, DType.FLOAT32),
    _held_out(1000, 768, DType.FLOAT32),
    # prime sizes, few rows, narrow rows
    _held_out(4093, 4099),
    _held_out(127, 1021, DType.FLOAT16),
    _held_out(1, 4096),
    _held_out(64, 8192),
    _held_out(16384, 1024),
    # other layouts and conventions
    _held_out(4096, 4096, layout="row_strided"),
    _held_out(4096, 4096, casting="gemma", offset=1.0),
    _held_out(4096, 4096, weight=False),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """x, (M, N), normal with deviation 1; weight, (N,), such that weight + offset lies around 1, or None."""
    rows, columns = case.axes["M"], case.axes["N"]
    dtype = getattr(torch, case.dtype.value)
    offset = float(case.options.get("offset", 0.0))

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=dtype, generator=generator)

    row_strided = case.options.get("layout") == "row_strided"
    return {
        "x": normal(rows, 2 * columns)[:, :columns] if row_strided else normal(rows, columns),
        "weight": 1.0 - offset + 0.1 * normal(columns) if case.options.get("weight", True) else None,
        "eps": EPS,
        "offset": offset,
        "casting": str(case.options.get("casting", "llama")),
    }


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """rms_norm of the module that is handed in."""
    y: Tensor = module.rms_norm(
        inputs["x"], inputs["weight"], inputs["eps"], offset=inputs["offset"], casting=inputs["casting"]
    )
    return y


def reference(inputs: Inputs) -> Tensor:
    """RMSNorm by plain torch, in float64 where the inputs are."""
    return rms_norm_reference(inputs["x"], inputs["weight"], inputs["eps"], inputs["offset"], inputs["casting"])


def cost(case: Case, mode: Mode) -> Cost:
    """Each tensor crosses device memory once, rstd (fp32) between the passes; operations an element, none a row.

    Forward: square and its sum (2), x·rstd (1), times weight (1).
    Backward: x·rstd (1), m·x̂ and its sum (2), x̂·mean, the difference, times rstd (3); dy·weight (1), dw (2).
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    rows, columns = case.axes["M"], case.axes["N"]
    has_weight = bool(case.options.get("weight", True))
    matrix_bytes = rows * columns * case.dtype.itemsize_bytes
    weight_bytes = columns * case.dtype.itemsize_bytes if has_weight else 0
    rstd_bytes = rows * 4
    if mode is Mode.FORWARD:
        return Cost(
            bytes_moved=2 * matrix_bytes + weight_bytes + rstd_bytes,
            flops=rows * columns * (4 if has_weight else 3),
        )
    return Cost(
        bytes_moved=3 * matrix_bytes + 2 * weight_bytes + rstd_bytes,
        flops=rows * columns * (9 if has_weight else 6),
    )


def _torch() -> Callable[[Inputs], Tensor]:
    """What a torch user has: one fused kernel a pass. It rounds once, as gemma does, whatever the convention."""

    def run(inputs: Inputs) -> Tensor:
        x, weight = inputs["x"], inputs["weight"]
        if weight is not None and inputs["offset"] != 0.0:
            weight = weight + inputs["offset"]
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, inputs["eps"])

    return run


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """The reference's plain formula, compiled anew for every shape, as the kernel is.

    Every case is a recompilation. Past the limit torch would run the formula uncompiled, so the limit is raised,
    and fullgraph makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(rms_norm_reference, dynamic=False, fullgraph=True)

    def run(inputs: Inputs) -> Tensor:
        return compiled(inputs["x"], inputs["weight"], inputs["eps"], inputs["offset"], inputs["casting"])

    return run


def _liger() -> Callable[[Inputs], Tensor]:
    """Liger-Kernel's op, not in place: in place, a repeated backward pass would overwrite the same gradient."""
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    def run(inputs: Inputs) -> Tensor:
        in_place = False
        y: Tensor = LigerRMSNormFunction.apply(
            inputs["x"], inputs["weight"], inputs["eps"], inputs["offset"], inputs["casting"], in_place
        )
        return y

    return run


target = Target(
    name="rms_norm",
    source="src/warpsmith/kernels/rms_norm.py",
    module="warpsmith.kernels.rms_norm",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("x", "weight"),
    providers={"torch": _torch, "torch_compile": _torch_compile, "liger": _liger},
    tests=("tests/kernels/test_rms_norm.py",),
    plot_axis="N",
)
