"""The linear layer with cross-entropy as a target: how warpsmith.kernels.fused_linear_cross_entropy is called, checked,
costed and compared.

What is compared is the mode full, the loss and its gradients: the kernel, as Liger's, has the gradients from its
forward pass, and a backward pass that is repeated computes everything anew.

Owns the cases and the baselines. Must not know how anything is measured. Loaded in workers only.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target
from warpsmith.kernels.fused_linear_cross_entropy import fused_linear_cross_entropy_reference

IGNORE_INDEX = -100


def _axes(rows: int, hidden: int, classes: int) -> dict[str, int]:
    return {"M": rows, "H": hidden, "N": classes}


def _tuning(rows: int, hidden: int, classes: int) -> Case:
    return Case(axes=_axes(rows, hidden, classes), dtype=DType.BFLOAT16)


def _held_out(
    rows: int, hidden: int, classes: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str
) -> Case:
    return Case(axes=_axes(rows, hidden, classes), dtype=dtype, role=Role.HELD_OUT, options=options)


#: Of Llama 3 8B, Llama 2 7B, Llama 3.2 1B, Qwen2.5 7B, GPT-2. Options: label_smoothing and z_loss; reduction;
#: ignored=True ignores every third row; gradient="random" multiplies by the gradient that comes in, which is 1
#: otherwise, as in loss.backward(); logits="exact" has logits that 16 bits hold. Others are rounded, by which the loss,
#: of fp32, is too far off to be a measure, and at the smallest case of a dtype the gate makes most of its checks.
CASES = (
    _tuning(4096, 4096, 128256),
    _tuning(8192, 4096, 32000),
    _tuning(8192, 2048, 128256),
    _tuning(4096, 3584, 152064),
    _tuning(8192, 768, 50257),
    # other dtypes
    _held_out(1024, 2048, 32000, DType.FLOAT16),
    _held_out(512, 1024, 32000, DType.FLOAT32),
    # so few rows that Triton's interpreter has them done in no time
    _held_out(4, 24, 40, DType.FLOAT32, gradient="random"),
    # prime sizes, few rows, several chunks of fp32
    _held_out(1021, 257, 4099),
    _held_out(127, 61, 1021, DType.FLOAT16, gradient="random", logits="exact"),
    _held_out(127, 61, 1021, logits="exact"),
    _held_out(1, 4096, 32000),
    _held_out(2311, 64, 50261, DType.FLOAT32),
    # other settings
    _held_out(1024, 1024, 32000, gradient="random", reduction="sum"),
    _held_out(1024, 1024, 32000, label_smoothing=0.1, z_loss=1e-4),
    _held_out(1024, 1024, 32000, ignored=True),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """hidden, (M, H), weight, (N, H), so that logits have a deviation of about 2; target, (M,), at last the last class.

    Both are normal, or, for exact logits, integers from -2 to 2, weight times a power of 2: then logits are such a
    power times an integer, which bf16 holds up to 256, six deviations at H of 450.
    """
    rows, hidden, classes = (case.axes[axis] for axis in ("M", "H", "N"))
    dtype = getattr(torch, case.dtype.value)

    exact = case.options.get("logits") == "exact"

    def drawn(*shape: int) -> Tensor:
        if exact:
            return torch.randint(-2, 3, shape, device=device, generator=generator).to(dtype)
        return torch.randn(shape, device=device, dtype=dtype, generator=generator)

    factor = max(hidden, 1) ** -0.5
    factor = 2.0 ** round(math.log2(factor)) if exact else 2.0 * factor
    target = torch.randint(max(classes, 1), (rows,), device=device, generator=generator)
    # The edge that a kernel gets wrong.
    target[-1:] = max(classes, 1) - 1
    if case.options.get("ignored"):
        target[::3] = IGNORE_INDEX
    return {
        "hidden": drawn(rows, hidden),
        "weight": drawn(classes, hidden) * factor,
        "target": target,
        "label_smoothing": case.options.get("label_smoothing", 0.0),
        "z_loss": case.options.get("z_loss", 0.0),
        "reduction": case.options.get("reduction", "mean"),
        "gradient": case.options.get("gradient", "one"),
    }


class _GradientOfOne(torch.autograd.Function):
    """Hands 1 back whatever comes in: what loss.backward() starts from."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor) -> Tensor:
        return loss.view_as(loss)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.ones_like(gradient)


def _with_gradient(inputs: Inputs, loss: Tensor) -> Tensor:
    if inputs["gradient"] == "random" or not loss.requires_grad:
        return loss
    of_one: Tensor = _GradientOfOne.apply(loss)
    return of_one


def _tensors(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    return inputs["hidden"], inputs["weight"], inputs["target"]


def _settings(inputs: Inputs) -> dict[str, Any]:
    return {name: inputs[name] for name in ("label_smoothing", "z_loss", "reduction")}


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """fused_linear_cross_entropy of the module that is handed in."""
    return _with_gradient(inputs, module.fused_linear_cross_entropy(*_tensors(inputs), **_settings(inputs)))


def reference(inputs: Inputs) -> Tensor:
    """The same by plain torch, in float64 where the inputs are."""
    loss = fused_linear_cross_entropy_reference(*_tensors(inputs), **_settings(inputs))
    return _with_gradient(inputs, loss)


def cost(case: Case, mode: Mode) -> Cost:
    """Inputs and gradients cross device memory once, the logits never; the operations of the products alone.

    Forward: hidden, weight, target; the loss. One product.
    Backward: both gradients. Two products.
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    rows, hidden, classes = (case.axes[axis] for axis in ("M", "H", "N"))
    matrix_bytes = (rows + classes) * hidden * case.dtype.itemsize_bytes
    product_flops = 2 * rows * hidden * classes
    if mode is Mode.FORWARD:
        return Cost(bytes_moved=matrix_bytes + 8 * rows + 4, flops=product_flops)
    return Cost(bytes_moved=matrix_bytes, flops=2 * product_flops)


def _plain(
    hidden: Tensor, weight: Tensor, target: Tensor, label_smoothing: float, z_loss: float, reduction: str
) -> Tensor:
    """What a torch user has, in the dtype of the logits, and the loss in fp32."""
    logits = functional.linear(hidden, weight)
    loss = functional.cross_entropy(logits, target, reduction=reduction, label_smoothing=label_smoothing).float()
    if z_loss == 0.0:
        return loss
    counts = target != IGNORE_INDEX
    squares = torch.where(counts, torch.logsumexp(logits.float(), dim=-1).square(), 0.0).sum() * z_loss
    return loss + squares / (counts.sum() if reduction == "mean" else 1)


def _torch() -> Callable[[Inputs], Tensor]:
    """What a torch user has."""
    return lambda inputs: _with_gradient(inputs, _plain(*_tensors(inputs), **_settings(inputs)))


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """The same, compiled anew for every shape, as the kernel is.

    Every case is a recompilation. Past the limit torch would run the formula uncompiled, so the limit is raised,
    and fullgraph makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(_plain, dynamic=False, fullgraph=True)
    return lambda inputs: _with_gradient(inputs, compiled(*_tensors(inputs), **_settings(inputs)))


def _liger() -> Callable[[Inputs], Tensor]:
    """Liger-Kernel's op, as it is used: the gradient of weight is added up in the dtype of weight."""
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    def run(inputs: Inputs) -> Tensor:
        settings = (inputs["z_loss"], inputs["label_smoothing"], inputs["reduction"])
        loss, *_ = LigerFusedLinearCrossEntropyFunction.apply(*_tensors(inputs), None, None, IGNORE_INDEX, *settings)
        return _with_gradient(inputs, loss.float())

    return run


target = Target(
    name="fused_linear_cross_entropy",
    source="src/warpsmith/kernels/fused_linear_cross_entropy.py",
    module="warpsmith.kernels.fused_linear_cross_entropy",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("hidden", "weight"),
    providers={"torch": _torch, "torch_compile": _torch_compile, "liger": _liger},
    tests=("tests/kernels/test_fused_linear_cross_entropy.py",),
    plot_axis="N",
)
