"""LayerNorm as a target: how warpsmith.kernels.layer_norm is called, checked, costed and what it is compared with.

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
from warpsmith.kernels.layer_norm import layer_norm_reference

EPS = 1e-5


def _tuning(rows: int, columns: int) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)


def _held_out(rows: int, columns: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=dtype, role=Role.HELD_OUT, options=options)


#: Options: layout="row_strided" takes x from rows twice as wide; weight=False and bias=False leave them out.
CASES = (
    _tuning(2048, 2048),
    _tuning(8192, 4096),
    _tuning(8192, 8192),
    _tuning(4096, 16384),
    _tuning(32768, 2048),
    # between the tuned sizes
    _held_out(4096, 8192),
    _held_out(6144, 5120),
    _held_out(12288, 3072),
    _held_out(16384, 1024),
    # other dtypes
    _held_out(8192, 4096, DType.FLOAT16),
    _held_out(1000, 768, DType.FLOAT32),
    # so few rows that Triton's interpreter has them done in no time
    _held_out(4, 40, DType.FLOAT32),
    # prime sizes, few rows
    _held_out(4093, 4099),
    _held_out(127, 1021, DType.FLOAT16),
    _held_out(1, 4096),
    _held_out(64, 8192),
    # other layouts and conventions
    _held_out(4096, 4096, layout="row_strided"),
    _held_out(4096, 4096, bias=False),
    _held_out(4096, 4096, weight=False, bias=False),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """x, (M, N), normal around 1; weight, (N,), around 1, and bias, (N,), around 0, or None."""
    rows, columns = case.axes["M"], case.axes["N"]
    dtype = getattr(torch, case.dtype.value)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=dtype, generator=generator)

    row_strided = case.options.get("layout") == "row_strided"
    x = 1.0 + normal(rows, 2 * columns if row_strided else columns)
    return {
        "x": x[:, :columns],
        "weight": 1.0 + 0.1 * normal(columns) if case.options.get("weight", True) else None,
        "bias": normal(columns) if case.options.get("bias", True) else None,
        "eps": EPS,
    }


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """layer_norm of the module that is handed in."""
    y: Tensor = module.layer_norm(inputs["x"], inputs["weight"], inputs["bias"], inputs["eps"])
    return y


def reference(inputs: Inputs) -> Tensor:
    """LayerNorm by plain torch, in float64 where the inputs are."""
    return layer_norm_reference(inputs["x"], inputs["weight"], inputs["bias"], inputs["eps"])


def cost(case: Case, mode: Mode) -> Cost:
    """Each tensor crosses device memory once, mean and rstd (fp32) between the passes; operations an element.

    Forward: sum (1), x - mean (1), square and its sum (2), times rstd (1); times weight (1), plus bias (1).
    Backward: x̂ (2), sum of m (1), m·x̂ and its sum (2), m less both means, one times x̂, times rstd (4);
    dy·weight (1), dw (2), db (1). The bias is not read.
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    rows, columns = case.axes["M"], case.axes["N"]
    weights, biases = (int(bool(case.options.get(name, True))) for name in ("weight", "bias"))
    matrix_bytes = rows * columns * case.dtype.itemsize_bytes
    vector_bytes = columns * case.dtype.itemsize_bytes
    statistics_bytes = 2 * rows * 4
    if mode is Mode.FORWARD:
        return Cost(
            bytes_moved=2 * matrix_bytes + (weights + biases) * vector_bytes + statistics_bytes,
            flops=rows * columns * (5 + weights + biases),
        )
    return Cost(
        bytes_moved=3 * matrix_bytes + (2 * weights + biases) * vector_bytes + statistics_bytes,
        flops=rows * columns * (9 + 3 * weights + biases),
    )


def _torch() -> Callable[[Inputs], Tensor]:
    """What a torch user has: one fused kernel forward, two or three backward."""

    def run(inputs: Inputs) -> Tensor:
        x = inputs["x"]
        return torch.nn.functional.layer_norm(x, x.shape[-1:], inputs["weight"], inputs["bias"], inputs["eps"])

    return run


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """The reference, compiled anew for every shape, as the kernel is.

    Every case is a recompilation. Past the limit torch would run it uncompiled, so the limit is raised, and fullgraph
    makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(layer_norm_reference, dynamic=False, fullgraph=True)

    def run(inputs: Inputs) -> Tensor:
        return compiled(inputs["x"], inputs["weight"], inputs["bias"], inputs["eps"])

    return run


def _liger() -> Callable[[Inputs], Tensor]:
    """Liger-Kernel's op, which needs a weight and a bias: one of ones, one of zeros where the case has none."""
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    def run(inputs: Inputs) -> Tensor:
        x, weight, bias = inputs["x"], inputs["weight"], inputs["bias"]
        weight = x.new_ones(x.shape[-1]) if weight is None else weight
        bias = x.new_zeros(x.shape[-1]) if bias is None else bias
        y: Tensor = LigerLayerNormFunction.apply(x, weight, bias, inputs["eps"])
        return y

    return run


def _quack() -> Callable[[Inputs], Tensor]:
    """Quack's op, forward only: it has no gradient. It needs a weight, and both in fp32."""
    from quack.rmsnorm import layernorm_fwd

    def run(inputs: Inputs) -> Tensor:
        x, weight, bias = inputs["x"], inputs["weight"], inputs["bias"]
        weight = x.new_ones(x.shape[-1]) if weight is None else weight
        y: Tensor = layernorm_fwd(x, weight.float(), None if bias is None else bias.float(), inputs["eps"])
        return y

    return run


target = Target(
    name="layer_norm",
    source="src/warpsmith/kernels/layer_norm.py",
    module="warpsmith.kernels.layer_norm",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("x", "weight", "bias"),
    providers={"torch": _torch, "torch_compile": _torch_compile, "liger": _liger, "quack": _quack},
    tests=("tests/kernels/test_layer_norm.py",),
    plot_axis="N",
)
