"""Cross-entropy as a target: how warpsmith.kernels.cross_entropy is called, checked, costed and compared.

What is compared is the mode full, the loss and its gradient: kernels differ in which pass computes the gradient. Where
it is the forward pass, that pass alone says little, and a backward pass that is repeated computes it anew here.

Owns the cases and the baselines. Must not know how anything is measured. Loaded in workers only.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target
from warpsmith.kernels.cross_entropy import cross_entropy_reference

IGNORE_INDEX = -100


def _tuning(rows: int, columns: int) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)


def _held_out(rows: int, columns: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str) -> Case:
    return Case(axes={"M": rows, "N": columns}, dtype=dtype, role=Role.HELD_OUT, options=options)


#: The vocabularies of Llama 2, of Llama 3 and of GPT-2, and a narrow one. Options: label_smoothing and z_loss;
#: reduction; ignored=True ignores every third row; layout="row_strided" takes logits from rows twice as wide;
#: gradient="random" multiplies by the gradient that comes in, which is 1 otherwise, as in loss.backward().
CASES = (
    _tuning(4096, 32000),
    _tuning(4096, 128256),
    _tuning(8192, 32000),
    _tuning(2048, 50257),
    _tuning(16384, 8192),
    # other vocabularies: Qwen2.5, BERT
    _held_out(2048, 151936),
    _held_out(8192, 30522),
    # other dtypes
    _held_out(4096, 32000, DType.FLOAT16),
    _held_out(2048, 32000, DType.FLOAT32),
    # so few rows that Triton's interpreter has them done in no time
    _held_out(4, 40, DType.FLOAT32, gradient="random"),
    # prime sizes, few rows
    _held_out(1021, 4099),
    _held_out(127, 1021, DType.FLOAT16, gradient="random"),
    _held_out(1, 128256),
    # other settings
    _held_out(1024, 32000, gradient="random"),
    _held_out(1024, 32000, label_smoothing=0.1, z_loss=1e-4),
    _held_out(1024, 32000, ignored=True),
    _held_out(1024, 8192, layout="row_strided"),
    _held_out(800, 5003, gradient="random", reduction="none"),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """logits, (M, N), normal with deviation 2; target, (M,), of all classes, at last the last; the settings."""
    rows, columns = case.axes["M"], case.axes["N"]
    width = 2 * columns if case.options.get("layout") == "row_strided" else columns
    logits = 2.0 * torch.randn(
        (rows, width), device=device, dtype=getattr(torch, case.dtype.value), generator=generator
    )
    target = torch.randint(max(columns, 1), (rows,), device=device, generator=generator)
    # The edge that a kernel gets wrong. Of a single row nothing else in the gradient is large enough to be missed.
    target[-1:] = max(columns, 1) - 1
    if case.options.get("ignored"):
        target[::3] = IGNORE_INDEX
    return {
        "logits": logits[:, :columns],
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


def _settings(inputs: Inputs) -> dict[str, Any]:
    return {name: inputs[name] for name in ("label_smoothing", "z_loss", "reduction")}


def call(module: ModuleType, inputs: Inputs) -> Tensor:
    """cross_entropy of the module that is handed in."""
    return _with_gradient(inputs, module.cross_entropy(inputs["logits"], inputs["target"], **_settings(inputs)))


def reference(inputs: Inputs) -> Tensor:
    """Cross-entropy by plain torch, in float64 where the logits are."""
    loss = cross_entropy_reference(inputs["logits"], inputs["target"], **_settings(inputs))
    return _with_gradient(inputs, loss)


def cost(case: Case, mode: Mode) -> Cost:
    """Logits, target and gradient cross device memory once, in whichever pass; operations an element.

    Forward: logits, target; a loss a row (fp32), summed where it is no result. Maximum (1), difference, exponential and
    sum (3); with label smoothing the sum of all (1).
    Backward: the gradient. Exponential times a factor (1), less the target's share (1); less the smoothing (1).
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    rows, columns = case.axes["M"], case.axes["N"]
    # Rows that are ignored are not read.
    read_rows = rows - (rows + 2) // 3 if case.options.get("ignored") else rows
    row_bytes = columns * case.dtype.itemsize_bytes
    smoothing = int("label_smoothing" in case.options)
    if mode is Mode.FORWARD:
        return Cost(bytes_moved=read_rows * row_bytes + rows * (8 + 4), flops=read_rows * columns * (4 + smoothing))
    return Cost(bytes_moved=rows * row_bytes, flops=read_rows * columns * (2 + smoothing))


def _plain(logits: Tensor, target: Tensor, label_smoothing: float, z_loss: float, reduction: str) -> Tensor:
    """What a torch user has, in the dtype of the logits, and the loss in fp32."""
    loss = functional.cross_entropy(logits, target, reduction=reduction, label_smoothing=label_smoothing).float()
    if z_loss == 0.0:
        return loss
    counts = target != IGNORE_INDEX
    squares = torch.where(counts, torch.logsumexp(logits.float(), dim=-1).square(), 0.0) * z_loss
    if reduction == "none":
        return loss + squares
    return loss + squares.sum() / (counts.sum() if reduction == "mean" else 1)


def _torch() -> Callable[[Inputs], Tensor]:
    """What a torch user has."""
    return lambda inputs: _with_gradient(inputs, _plain(inputs["logits"], inputs["target"], **_settings(inputs)))


def _torch_compile() -> Callable[[Inputs], Tensor]:
    """The same in fp32, which costs a compiled kernel nothing, compiled anew for every shape, as the kernel is.

    Every case is a recompilation. Past the limit torch would run the formula uncompiled, so the limit is raised,
    and fullgraph makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(_plain, dynamic=False, fullgraph=True)

    def run(inputs: Inputs) -> Tensor:
        return _with_gradient(inputs, compiled(inputs["logits"].float(), inputs["target"], **_settings(inputs)))

    return run


def _liger() -> Callable[[Inputs], Tensor]:
    """Liger-Kernel's op. Where there is a gradient its forward pass writes it over the logits, and is repeated on that.

    It waits for the device to count the rows, and again in the backward pass for whether the gradient is 1.
    """
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    def run(inputs: Inputs) -> Tensor:
        settings = (inputs["z_loss"], inputs["label_smoothing"], inputs["reduction"])
        loss, *_ = LigerCrossEntropyFunction.apply(inputs["logits"], inputs["target"], None, IGNORE_INDEX, *settings)
        return _with_gradient(inputs, loss.float())

    return run


def _quack() -> Callable[[Inputs], Tensor]:
    """Quack's op, of CuTe DSL, which reads the logits once in each pass. It has neither label smoothing nor z-loss."""
    from quack.cross_entropy import cross_entropy

    def run(inputs: Inputs) -> Tensor:
        if inputs["label_smoothing"] or inputs["z_loss"]:
            raise ValueError("quack has neither label smoothing nor z-loss")
        loss: Tensor = cross_entropy(inputs["logits"], inputs["target"], reduction=inputs["reduction"])
        return _with_gradient(inputs, loss)

    return run


target = Target(
    name="cross_entropy",
    source="src/warpsmith/kernels/cross_entropy.py",
    module="warpsmith.kernels.cross_entropy",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("logits",),
    providers={"torch": _torch, "torch_compile": _torch_compile, "liger": _liger, "quack": _quack},
    tests=("tests/kernels/test_cross_entropy.py", "tests/kernels/test_cross_entropy_on_gpu.py"),
    plot_axis="N",
)
