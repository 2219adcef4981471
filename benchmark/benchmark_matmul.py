"""The matrix product as a target: how warpsmith.kernels.matmul is called, checked, costed and what it is compared with.

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
from warpsmith.kernels.matmul import activate, matmul_reference


def _tuning(m: int, n: int, k: int) -> Case:
    return Case(axes={"M": m, "N": n, "K": k}, dtype=DType.BFLOAT16)


def _held_out(m: int, n: int, k: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str) -> Case:
    return Case(axes={"M": m, "N": n, "K": k}, dtype=dtype, role=Role.HELD_OUT, options=options)


#: Options: layout="linear" takes b from the transpose of a weight, (N, K), as nn.Linear has it, layout="a_transposed" a
#: from that of (K, M); activation and bias=True give the epilogue.
#: In fp32 with fp32's own products: those of TF32 are further off than the gate lets an original be. Its sums are of
#: few terms, for their roundings add up.
CASES = (
    _tuning(8192, 8192, 8192),
    _tuning(4096, 4096, 4096),
    _tuning(4096, 14336, 4096),
    _tuning(2048, 2048, 2048),
    _tuning(16, 4096, 4096),
    # the way down of Llama 3 8B's MLP, and how a weight lies
    _held_out(4096, 4096, 14336, layout="linear"),
    _held_out(8192, 4096, 4096, layout="linear"),
    _held_out(64, 14336, 4096, layout="linear"),
    # other dtypes
    _held_out(4096, 4096, 4096, DType.FLOAT16),
    _held_out(2048, 2048, 1024, DType.FLOAT32),
    _held_out(300, 200, 100, DType.FLOAT32, layout="linear"),
    # so small that Triton's interpreter has it done in no time
    _held_out(4, 40, 40, DType.FLOAT32),
    # prime sizes, one row
    _held_out(4093, 4099, 2053),
    _held_out(509, 1021, 251, DType.FLOAT16),
    _held_out(1, 4096, 4096),
    # epilogues and another layout
    _held_out(4096, 4096, 1024, bias=True),
    _held_out(4096, 4096, 1024, activation="silu"),
    _held_out(1024, 4096, 1024, activation="gelu", bias=True, layout="linear"),
    _held_out(512, 1536, 768, activation="gelu_tanh", bias=True),
    _held_out(1024, 2048, 4096, layout="a_transposed"),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """a, (M, K), normal; b, (K, N), normal with deviation 1 / sqrt(K), so that a product has 1; bias, (N,), or None."""
    m, n, k = (case.axes[name] for name in "MNK")
    dtype, layout = getattr(torch, case.dtype.value), case.options.get("layout")

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=dtype, generator=generator)

    return {
        "a": normal(k, m).T if layout == "a_transposed" else normal(m, k),
        # At K = 0 the gate asks for nothing.
        "b": (normal(n, k).T if layout == "linear" else normal(k, n)).mul_(max(k, 1) ** -0.5),
        "bias": normal(n) if case.options.get("bias") else None,
        "activation": case.options.get("activation", "none"),
    }


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """matmul of the module that is handed in."""
    c: Tensor = module.matmul(inputs["a"], inputs["b"], inputs["bias"], activation=inputs["activation"])
    return c


def reference(inputs: Inputs) -> Tensor:
    """The product and its epilogue by plain torch, in float64 where the inputs are."""
    return matmul_reference(inputs["a"], inputs["b"], inputs["bias"], inputs["activation"])


def cost(case: Case, mode: Mode) -> Cost:
    """Each matrix crosses device memory once; a product and a sum for each term.

    Forward: a, b, bias; c. Backward: dc, a, b; da, db and dbias, two products of the same size; with an activation its
    argument too, which the forward pass keeps. The epilogue's operations, a few for K products, are not counted.
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    m, n, k = (case.axes[name] for name in "MNK")
    bias = n if case.options.get("bias") else 0
    if mode is Mode.FORWARD:
        return Cost(bytes_moved=(m * k + k * n + m * n + bias) * case.dtype.itemsize_bytes, flops=2 * m * n * k)
    kept = m * n if case.options.get("activation", "none") != "none" else 0
    elements = 2 * (m * k + k * n) + m * n + kept + bias
    return Cost(bytes_moved=elements * case.dtype.itemsize_bytes, flops=4 * m * n * k)


def _formula(a: Tensor, b: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """What a torch user writes: cuBLAS, then the epilogue in the dtype of a."""
    z = torch.matmul(a, b)
    return activate(z if bias is None else z + bias, activation)


def _torch() -> Callable[[Inputs], Tensor]:
    """cuBLAS, and a kernel for each step of the epilogue, which rounds."""

    def run(inputs: Inputs) -> Tensor:
        return _formula(inputs["a"], inputs["b"], inputs["bias"], inputs["activation"])

    return run


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """The formula, compiled anew for every shape: cuBLAS, and one kernel for the epilogue.

    Every case is a recompilation. Past the limit torch would run the formula uncompiled, so the limit is raised,
    and fullgraph makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(_formula, dynamic=False, fullgraph=True)

    def run(inputs: Inputs) -> Tensor:
        return compiled(inputs["a"], inputs["b"], inputs["bias"], inputs["activation"])

    return run


target = Target(
    name="matmul",
    source="src/warpsmith/kernels/matmul.py",
    module="warpsmith.kernels.matmul",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("a", "b", "bias"),
    providers={"torch": _torch, "torch_compile": _torch_compile},
    tests=("tests/kernels/test_matmul.py", "tests/kernels/test_matmul_on_gpu.py"),
    plot_axis="N",
)
