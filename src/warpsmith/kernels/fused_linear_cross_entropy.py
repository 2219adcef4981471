"""The last linear layer of a language model and its cross-entropy, in chunks of rows: the logits are never whole.

For hidden states h of R rows, weight W of V rows and targets t, with the loss of warpsmith.kernels.cross_entropy,

    x    = h · Wᵀ
    loss = cross_entropy(x, t)
    dh   = dx · W
    dW   = dxᵀ · h

No row of x needs another, and dx needs only x and t, up to the factor that comes in from outside. So the forward pass
takes one chunk of rows at a time all the way to dh and its part of dW: its logits are computed, overwritten by their
gradient, and freed, as in Liger-Kernel, Hsu et al. 2024, https://arxiv.org/abs/2410.10989, section 3.2. The backward
pass multiplies these gradients by the factor, unless it is 1, as it mostly is. The products are torch's.

Rounded to the dtype of hidden and weight, besides the results: the logits, their gradient, and dW after each chunk but
the last, on which the next is added as torch.addmm adds. Chunks are large, so there are few.

Owns the chunks and the autograd function; the kernels are those of cross_entropy. Must not know the rest of warpsmith.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from warpsmith.kernels.arguments import (
    as_autocast_has_them,
    as_rows,
    cdiv,
    distinct,
    expect_choice,
    expect_floating,
    expect_last_dimension,
    expect_one_device,
    expect_shape,
    runs_triton,
    without_autocast,
)
from warpsmith.kernels.cross_entropy import (
    cross_entropy_reference,
    cross_entropy_rows,
    reduced,
)
from warpsmith.kernels.first_order import first_order
from warpsmith.kernels.gradient_scaling import scale_gradient
from warpsmith.kernels.inverse_count import inverse_count
from warpsmith.kernels.loss_settings import (
    LossSettings,
    expect_countable_columns,
    expect_loss_settings,
    expect_target,
)

_OP = "fused_linear_cross_entropy"

#: Of a loss per row, the gradient of weight would need the factors of all rows before it is summed.
REDUCTIONS = ("mean", "sum")

#: What the logits of a chunk take at most, unless 128 rows take more. Chosen: a quarter of the logits at 4096 rows of
#: 128256 in bf16, and products that still fill an H200.
LOGITS_BYTES = 2**28
#: Chosen: a multiple of it is a multiple of the tile of a matrix product.
_ROWS = 128


class LinearCrossEntropy(NamedTuple):
    """Rows whose losses or gradients are wanted."""

    #: (rows, H).
    rows: Tensor
    #: (V, H).
    weight: Tensor
    #: The others are as in cross_entropy_rows.
    target: Tensor
    settings: LossSettings
    scale: Tensor | None
    dloss: Tensor | None = None


class Results(NamedTuple):
    """Each None where it is not needed."""

    #: (rows,), fp32.
    losses: Tensor | None
    #: The gradients, of the shapes and dtypes of rows and weight.
    rows: Tensor | None
    weight: Tensor | None


def linear_cross_entropy_rows(given: LinearCrossEntropy, *, needs_losses: bool, needs: tuple[bool, bool]) -> Results:
    """Computes the losses, and the gradients of rows and weight, each where it is needed."""
    rows, weight = given.rows, given.weight
    n_rows = rows.shape[0]
    needs_drows, needs_dweight = needs
    drows = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device) if needs_drows else None
    dweight = torch.empty(weight.shape, dtype=weight.dtype, device=weight.device) if needs_dweight else None
    if n_rows == 0 and dweight is not None:
        dweight.zero_()
    # Each chunk has its own: torch.compile copies a part of a tensor that a kernel writes, and torch 2.11 fails at that
    # where the part has a symbolic size. The first is that of no rows, for torch.cat takes one at least.
    losses = [rows.new_empty(0, dtype=torch.float32)]
    chunk_rows = rows_per_chunk(n_rows, weight.shape[0], weight.element_size())
    for start in range(0, n_rows, chunk_rows):
        part = slice(start, start + chunk_rows)
        if needs_losses:
            losses.append(torch.empty(given.target[part].shape, dtype=torch.float32, device=rows.device))
        results = Results(losses[-1] if needs_losses else None, None if drows is None else drows[part], dweight)
        _compute_chunk(given, part, results)
    return Results(torch.cat(losses) if needs_losses else None, drows, dweight)


def _compute_chunk(given: LinearCrossEntropy, part: slice, results: Results) -> None:
    """Writes the results of some rows, those of weight, but of the first chunk, on top of what is there.

    A function of its own, so that the logits are gone before those of the next chunk are there.
    """
    rows = given.rows[part]
    logits = torch.mm(rows, given.weight.T)
    needs_gradient = results.rows is not None or results.weight is not None
    cross_entropy_rows(
        logits,
        given.target[part],
        results.losses,
        logits if needs_gradient else None,
        given.settings,
        scale=given.scale,
        dloss=given.dloss,
    )
    if results.rows is not None:
        torch.mm(logits, given.weight, out=results.rows)
    if results.weight is not None and part.start == 0:
        torch.mm(logits.T, rows, out=results.weight)
    elif results.weight is not None:
        results.weight.addmm_(logits.T, rows)


def rows_per_chunk(n_rows: int, n_classes: int, element_bytes: int) -> int:
    """As many as LOGITS_BYTES hold, but 128 at least, and all chunks as long as each other, but for the last."""
    most = max(LOGITS_BYTES // (n_classes * element_bytes) // _ROWS, 1) * _ROWS
    chunks = max(cdiv(n_rows, most), 1)
    return max(cdiv(cdiv(n_rows, chunks), _ROWS), 1) * _ROWS


class FusedLinearCrossEntropyFunction(torch.autograd.Function):
    """Gradients of hidden and weight, of the first order only.

    The forward pass computes the gradients, and the first backward pass hands them out, multiplied in place, and
    forgets them, so that nobody is handed the same memory twice. The backward pass computes them anew

    - where they were handed out already;
    - of fp16, in which small gradients would be 0 before a factor such as that of a loss scaler reaches them.

    Under torch.compile, which cannot trace what a context forgets, they are multiplied into new memory.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        needs: tuple[bool, bool],
        settings: LossSettings,
        reduction: str,
    ) -> Tensor:
        ctx.settings, ctx.needs = settings, needs
        rows, target = as_rows(hidden), target.reshape(-1).contiguous()
        scale = inverse_count(target, settings.ignore_index) if reduction == "mean" else None
        is_early = hidden.dtype != torch.float16
        given = LinearCrossEntropy(rows, weight, target, settings, scale)
        losses, drows, dweight = linear_cross_entropy_rows(
            given, needs_losses=True, needs=needs if is_early else (False, False)
        )
        dhidden = None if drows is None else drows.view(hidden.shape)
        ctx.saves_gradients = is_early and torch.compiler.is_compiling()
        if ctx.saves_gradients:
            ctx.save_for_backward(dhidden, dweight)
        else:
            ctx.save_for_backward(hidden, weight, target, scale)
        if not torch.compiler.is_compiling():
            ctx.gradients = (dhidden, dweight) if is_early else None
        assert losses is not None
        return reduced(losses, hidden.shape[:-1], reduction)

    @staticmethod
    @first_order
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.saves_gradients:
            # As scale_gradient has it, 0 stays 0.
            dhidden, dweight = (
                None if each is None else torch.where(each == 0, 0, each * dloss) for each in ctx.saved_tensors
            )
            return dhidden, dweight, None, None, None, None
        dloss = dloss.reshape(1)
        if not torch.compiler.is_compiling() and ctx.gradients is not None:
            gradients, ctx.gradients = ctx.gradients, None
            for each in gradients:
                if each is not None:
                    scale_gradient(each, dloss)
            return (*gradients, None, None, None, None)
        hidden, weight, target, scale = ctx.saved_tensors
        given = LinearCrossEntropy(as_rows(hidden), weight, target, ctx.settings, scale, dloss)
        # What autocast did to the forward pass is in the dtypes.
        with without_autocast(hidden):
            _, drows, dweight = linear_cross_entropy_rows(given, needs_losses=False, needs=ctx.needs)
        return None if drows is None else drows.view(hidden.shape), dweight, None, None, None, None


def fused_linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """cross_entropy(hidden · weightᵀ, target) without the logits, and with its gradients from the forward pass.

    Beside hidden, weight and their gradients, it takes LOGITS_BYTES of memory, for logits. The loss is fp32. Products
    are computed as torch computes them in the dtype of hidden and weight, and rounded as the module says. Where Triton
    cannot run, fused_linear_cross_entropy_reference computes. The gradients wait for the backward pass on the GPU:
    activation checkpointing and hooks of saved tensors do not move them.

    There is no bias, and no reduction "none". In fp16 the backward pass computes the logits once more, for a gradient
    from the forward pass would be rounded before a loss scaler's factor reaches it. torch.autocast casts hidden and
    weight to its own dtype: a weight of fp32 is copied, and its gradient summed over the chunks in that dtype.

    Args:
        hidden: (..., H), fp32, fp16 or bf16. On a GPU, the current one, as with any Triton launch.
        weight: (V, H), of the dtype of hidden.
        target: (...,), int64. One that is no class, and is not ignore_index, makes the loss NaN, and the
            gradients of its row and of weight.
        ignore_index: a target whose row counts for nothing, an integer of 64 bits. But NaN or infinity in its hidden
            states makes the gradient of weight NaN, as in torch, since 0 times it is NaN.
        label_smoothing: the share of the target that is spread over all classes, 0 to 1. Each new value of it or of
            z_loss compiles the kernel anew.
        z_loss: the factor of the squared log-sum-exp that is added to the loss of each row.
        reduction: "mean" over the rows that are not ignored, NaN where all are, or "sum".

    Raises:
        TypeError: for another dtype, or two.
        ValueError: for another shape, reduction or label_smoothing, for tensors on several devices, or where H or V
            is 0 or, on a GPU, V above 2^30.
    """
    expect_floating(_OP, hidden=hidden, weight=weight)
    hidden, weight = as_autocast_has_them(hidden, weight)
    settings = expect_loss_settings(_OP, ignore_index, label_smoothing, z_loss)
    _check_arguments(hidden, weight, target, reduction)
    if not runs_triton(_OP, hidden):
        return fused_linear_cross_entropy_reference(hidden, weight, target, **settings._asdict(), reduction=reduction)
    expect_countable_columns(_OP, weight.shape[0])
    needs = (False, False)
    if torch.is_grad_enabled():
        needs = (hidden.requires_grad, weight.requires_grad)
    loss: Tensor = FusedLinearCrossEntropyFunction.apply(
        hidden, distinct(weight, hidden), target, needs, settings, reduction
    )
    return loss


def fused_linear_cross_entropy_reference(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """The same by plain, differentiable torch, in fp32, but in float64 where hidden is float64."""
    compute_dtype = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    with without_autocast(hidden):
        logits = torch.matmul(hidden.to(compute_dtype), weight.to(compute_dtype).T)
    return cross_entropy_reference(
        logits,
        target,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
        reduction=reduction,
    )


def _check_arguments(hidden: Tensor, weight: Tensor, target: Tensor, reduction: str) -> None:
    expect_choice(_OP, "reduction", reduction, REDUCTIONS)
    expect_last_dimension(_OP, "hidden", hidden)
    if weight.dtype != hidden.dtype:
        raise TypeError(f"{_OP}: weight must have the dtype of hidden, {hidden.dtype}, found {weight.dtype}")
    if weight.ndim != 2 or weight.shape[0] == 0:
        raise ValueError(f"{_OP}: weight must be (classes, hidden size), found shape {tuple(weight.shape)}")
    expect_shape(_OP, "weight", weight, (weight.shape[0], hidden.shape[-1]))
    expect_target(_OP, target, tuple(hidden.shape[:-1]))
    expect_one_device(_OP, hidden=hidden, weight=weight, target=target)
