"""The quantized matrix product as a target: how it is called, checked, costed and what it is compared with.

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
from warpsmith.kernels.quantize_rows import quantize_rows_reference
from warpsmith.kernels.quantized_matmul import quantized_matmul_reference

FLOAT8 = "float8_e4m3fn"
#: torch._int_mm takes no fewer rows than 17.
_INT_MM_ROWS = 32


def _tuning(rows: int, columns: int, depth: int, **options: bool | float | str) -> Case:
    return Case(axes={"M": rows, "N": columns, "K": depth}, dtype=DType.BFLOAT16, options=options)


def _held_out(
    rows: int, columns: int, depth: int, y_dtype: DType = DType.BFLOAT16, **options: bool | float | str
) -> Case:
    axes = {"M": rows, "N": columns, "K": depth}
    return Case(axes=axes, dtype=y_dtype, role=Role.HELD_OUT, options=options)


#: The dtype of a case is that of y. Options: dtype="float8_e4m3fn" is that of a and b, which are int8 else; bias=True
#: adds one; scales="one" has one scale for a and one for b; layout="row_strided" takes a and b from rows twice as wide.
#: No float8 with y of fp32: the sums of the tensor cores are not of that precision.
CASES = (
    _tuning(8192, 8192, 8192),
    _tuning(4096, 4096, 4096),
    _tuning(4096, 14336, 4096),
    _tuning(16, 4096, 4096),
    _tuning(8192, 8192, 8192, dtype=FLOAT8),
    _tuning(4096, 4096, 4096, dtype=FLOAT8),
    _tuning(4096, 14336, 4096, dtype=FLOAT8),
    _tuning(16, 4096, 4096, dtype=FLOAT8),
    # between the tuned sizes
    _held_out(2048, 6144, 4096),
    _held_out(2048, 6144, 4096, dtype=FLOAT8),
    _held_out(64, 4096, 14336),
    _held_out(256, 4096, 4096, DType.FLOAT16, dtype=FLOAT8),
    # other dtypes of y; a bias
    _held_out(1024, 1024, 1024, DType.FLOAT16, bias=True),
    _held_out(1024, 1024, 1024, DType.FLOAT32, bias=True),
    # so few that Triton's interpreter has them done in no time; a has the shape of y
    _held_out(4, 40, 40, DType.FLOAT32),
    # prime sizes, one row
    _held_out(1021, 1031, 1009),
    _held_out(1021, 1031, 1009, dtype=FLOAT8),
    _held_out(127, 509, 251, DType.FLOAT16, dtype=FLOAT8),
    _held_out(1, 4096, 4096),
    _held_out(1, 4096, 4096, dtype=FLOAT8, bias=True),
    # other layouts and conventions
    _held_out(512, 1024, 512, layout="row_strided"),
    _held_out(512, 1024, 512, scales="one"),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """a, (M, K), and b, (N, K), quantized from normal values of deviation 1; their scales, fp32, (M,) and (N,).

    float8 is handed over as the int8 of the same bytes: torch has hardly an operator for float8, and what checks a
    kernel takes NaN, roundings and layouts of floating-point inputs by torch. So it takes those of scales and bias.
    """
    rows, columns, depth = case.axes["M"], case.axes["N"], case.axes["K"]
    quantized = getattr(torch, str(case.options.get("dtype", "int8")))
    dtype = getattr(torch, case.dtype.value)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, generator=generator)

    def matrix(n_rows: int) -> tuple[Tensor, Tensor]:
        values, scale = quantize_rows_reference(normal(n_rows, depth), quantized)
        values = values.view(torch.int8)
        if case.options.get("layout") == "row_strided":
            values = torch.cat((values, values), dim=1)[:, :depth]
        return values, scale.mean() if case.options.get("scales") == "one" else scale

    a, a_scale = matrix(rows)
    b, b_scale = matrix(columns)
    inputs = {
        "a": a,
        "b": b,
        "a_scale": a_scale,
        "b_scale": b_scale,
        "bias": normal(columns).to(dtype) if case.options.get("bias") else None,
        "quantized": quantized,
        "out_dtype": dtype,
    }
    # Ahead of the time of cublas_bf16. A case that is small enough to be probed has none: they would be probed too.
    if case.role is Role.TUNING:
        inputs |= {"wide_a": a.view(quantized).bfloat16(), "wide_b": b.view(quantized).bfloat16()}
    return inputs


def _operands(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """a and b in the dtype that they are of. Upcast, their bytes are whole numbers still."""
    a, b = (inputs[name].to(torch.int8).view(inputs["quantized"]) for name in ("a", "b"))
    return a, b


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """quantized_matmul of the module that is handed in."""
    a, b = _operands(inputs)
    y: Tensor = module.quantized_matmul(
        a, b, inputs["a_scale"], inputs["b_scale"], inputs["bias"], out_dtype=inputs["out_dtype"]
    )
    return y


def reference(inputs: Inputs) -> Tensor:
    """The product by plain torch, in float64 where the scales are."""
    a, b = _operands(inputs)
    a_scale, out_dtype = inputs["a_scale"], inputs["out_dtype"]
    wide = torch.float64 if a_scale.dtype == torch.float64 else out_dtype
    return quantized_matmul_reference(a, b, a_scale, inputs["b_scale"], inputs["bias"], out_dtype=wide)


def cost(case: Case, mode: Mode) -> Cost:
    """a and b (1 byte each), the scales (fp32), the bias and y cross device memory once.

    Operations: a product and a sum for each of the M·N·K (2), for each value of y two scales (2), plus bias (1).
    """
    rows, columns, depth = case.axes["M"], case.axes["N"], case.axes["K"]
    bias = int(bool(case.options.get("bias")))
    scales = 2 if case.options.get("scales") == "one" else rows + columns
    itemsize = case.dtype.itemsize_bytes
    return Cost(
        bytes_moved=(rows + columns) * depth + 4 * scales + (rows * columns + bias * columns) * itemsize,
        flops=rows * columns * (2 * depth + 2 + bias),
        operands=str(case.options.get("dtype", "int8")),
    )


def _torch() -> Callable[[Inputs], Tensor]:
    """What a torch user has who knows of no quantized matmul: both dequantized, then multiplied in the dtype of y."""

    def run(inputs: Inputs) -> Tensor:
        dtype = inputs["out_dtype"]
        a, b = (
            (each.to(torch.float32) * inputs[scale].reshape(-1, 1)).to(dtype)
            for each, scale in zip(_operands(inputs), ("a_scale", "b_scale"), strict=True)
        )
        return functional.linear(a, b, inputs["bias"])

    return run


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """torch's quantized matmuls with the scales in a kernel of torch.compile's, compiled anew for every shape.

    Every case is a recompilation. Past the limit torch would run it uncompiled, so the limit is raised, and fullgraph
    makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    return torch.compile(
        lambda inputs: _int_mm(inputs) if inputs["quantized"] == torch.int8 else _scaled_mm(inputs),
        dynamic=False,
        fullgraph=True,
    )


def _torch_int_mm() -> Callable[[Inputs], Tensor]:
    """torch._int_mm, which takes N and K that are multiples of 8, and the scales after it."""
    return _int_mm


def _int_mm(inputs: Inputs) -> Tensor:
    if inputs["quantized"] != torch.int8:
        raise ValueError("torch._int_mm takes int8")
    a, b = _operands(inputs)
    rows = a.shape[0]
    if rows < _INT_MM_ROWS:
        a = functional.pad(a, (0, 0, 0, _INT_MM_ROWS - rows))
    y = torch._int_mm(a, b.T)[:rows] * inputs["a_scale"].reshape(-1, 1) * inputs["b_scale"].reshape(1, -1)
    return (y if inputs["bias"] is None else y + inputs["bias"]).to(inputs["out_dtype"])


def _torch_scaled_mm() -> Callable[[Inputs], Tensor]:
    """torch._scaled_mm with scales by row, its sums promoted to fp32, which takes N and K that are multiples of 16."""
    return _scaled_mm


def _scaled_mm(inputs: Inputs) -> Tensor:
    if inputs["quantized"] == torch.int8:
        raise ValueError("torch._scaled_mm takes float8")
    a, b = _operands(inputs)
    y: Tensor = torch._scaled_mm(
        a,
        b.T,
        scale_a=inputs["a_scale"].reshape(-1, 1),
        scale_b=inputs["b_scale"].reshape(1, -1),
        bias=inputs["bias"],
        out_dtype=inputs["out_dtype"],
        use_fast_accum=False,
    )
    return y


def _cublas_bf16() -> Callable[[Inputs], Tensor]:
    """What quantizing is to beat: the product of the same values in bf16, as they are at hand, without scales."""

    def run(inputs: Inputs) -> Tensor:
        if "wide_a" in inputs:
            a, b = inputs["wide_a"], inputs["wide_b"]
        else:
            a, b = (each.bfloat16() for each in _operands(inputs))
        y: Tensor = a @ b.T
        return y

    return run


target = Target(
    name="quantized_matmul",
    source="src/warpsmith/kernels/quantized_matmul.py",
    module="warpsmith.kernels.quantized_matmul",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    modes=(Mode.FORWARD,),
    providers={
        "torch": _torch,
        "torch_compile": _torch_compile,
        "torch_int_mm": _torch_int_mm,
        "torch_scaled_mm": _torch_scaled_mm,
        "cublas_bf16": _cublas_bf16,
    },
    tests=("tests/kernels/test_quantized_matmul.py", "tests/kernels/test_quantized_matmul_on_gpu.py"),
    plot_axis="N",
)
