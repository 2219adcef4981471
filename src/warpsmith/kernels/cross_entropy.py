"""Cross-entropy with its gradient: the Triton kernels, and the autograd function over them.

For a row x of V logits, target t and label smoothing ε, with the maximum taken out so that no exponential overflows:

    m    = max(x)
    d    = Σ exp(x - m)
    lse  = m + log(d)
    loss = (1 - ε) · (lse - x_t) + ε · Σ (lse - x) / V + z · lse²

Label smoothing: Szegedy et al. 2015, https://arxiv.org/abs/1512.00567, section 7; z-loss: Chowdhery et al. 2022,
https://arxiv.org/abs/2204.02311, section 5. The row is read in chunks; m and d are those of what has been read so far,
by the recurrence of Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867, algorithm 3:

    m' = max(m, x)
    d' = d · exp(m - m') + exp(x - m')

The gradient needs only the logits, up to the factor that comes in from outside, so the forward pass can compute it:

    dx_j = exp(x_j - m) / d · (1 + 2 · z · lse) - (1 - ε) · [j = t] - ε / V

It is written while the row is still in a cache, and the backward pass multiplies it by the factor, unless that is 1, as
it mostly is: together they read the logits once and write once. All is computed in fp32 and rounded where it is stored.
CrossEntropyFunction names the exceptions, in which the backward pass computes the gradient.

Owns the kernels, how they are launched and the plain torch reference. Must not know the rest of warpsmith.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from warpsmith.kernels.arguments import (
    as_rows,
    block_holding,
    cdiv,
    expect_choice,
    expect_floating,
    expect_last_dimension,
    expect_one_device,
    runs_triton,
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

REDUCTIONS = ("mean", "sum", "none")


@triton.jit
def _cross_entropy_kernel(
    logits_ptr,  # (n_rows, n_cols), inner stride 1
    logits_row_stride,
    target_ptr,  # (n_rows,), int64, contiguous
    scale_ptr,  # (1,), fp32: a factor of losses and gradients, or None
    dloss_ptr,  # (1,) or (n_rows,), fp32: another factor of gradients, or None
    loss_ptr,  # (n_rows,), fp32, or None
    dlogits_ptr,  # (n_rows, n_cols), contiguous, the dtype of the logits, or None; may be the logits
    n_cols,
    ignore_index,
    LABEL_SMOOTHING: tl.constexpr,  # torch.compile would hand a float over in fp64
    Z_LOSS: tl.constexpr,
    DLOSS_OF_ROWS: tl.constexpr,
    CONTIGUOUS: tl.constexpr,  # whether the logits are
    ALIGNED: tl.constexpr,  # whether all rows begin and end at a multiple of VALUES
    VALUES: tl.constexpr,  # how many 16 bytes hold
    LANES: tl.constexpr,
):
    """One program reads one row in chunks of LANES · VALUES: for its maximum and sum, and again for the gradient.

    A lane is VALUES that lie at a multiple of 16 bytes and are accessed at once. What is left at the edges of a row is
    read first, and kept.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, LANES)[:, None]
    values = tl.arange(0, VALUES)[None, :]
    # From here on columns are counted from the multiple of 16 bytes at or before the row.
    begin = (row * logits_row_stride % VALUES).to(tl.int32)
    end = begin + n_cols
    first_lane = (begin + VALUES - 1) // VALUES
    end_lane = end // VALUES
    chunks = tl.cdiv(end_lane, LANES)
    aligned = row * logits_row_stride // VALUES * VALUES
    logits_ptr += aligned
    if dlogits_ptr is not None:
        dlogits_ptr += aligned if CONTIGUOUS else row * n_cols - begin
    edges, is_edge = None, None
    if not ALIGNED:
        edges, is_edge = _edges(begin, end, first_lane, end_lane, VALUES)
    target = tl.load(target_ptr + row)
    scale = _scale_of_row(scale_ptr)

    if target == ignore_index:
        if loss_ptr is not None:
            # NaN where no row counts, for then the scale is infinite.
            tl.store(loss_ptr + row, scale * 0.0)
        if dlogits_ptr is not None:
            _store_zeros(dlogits_ptr, chunks, lanes, values, first_lane, end_lane, edges, is_edge)
    else:
        target_place, right_scale = _checked(target, scale, begin, n_cols)
        target_logit = tl.load(logits_ptr + target_place).to(tl.float32)
        centre = None
        if LABEL_SMOOTHING != 0.0 and loss_ptr is not None:
            centre = _finite(target_logit)
        edge_x = None if ALIGNED else tl.load(logits_ptr + edges, mask=is_edge, other=-float("inf")).to(tl.float32)
        shift, total, distance = _sums(logits_ptr, chunks, lanes, values, first_lane, end_lane, edge_x, is_edge, centre)

        if loss_ptr is not None:
            loss = _loss(shift, total, target_logit, distance / n_cols, LABEL_SMOOTHING, Z_LOSS)
            tl.store(loss_ptr + row, loss * right_scale)

        if dlogits_ptr is not None:
            gradient_scale = _with_dloss(right_scale, dloss_ptr, row, DLOSS_OF_ROWS)
            factor = _factor(gradient_scale, shift, total, Z_LOSS)
            # Backwards, for what was read last is still in the nearest cache.
            for chunk in tl.range(0, chunks):
                lane, mask = _lanes_of_chunk(chunks - 1 - chunk, lanes, first_lane, end_lane)
                places = lane * VALUES + values
                x = tl.load(logits_ptr + places, mask=mask, other=-float("inf")).to(tl.float32)
                is_target = places == target_place
                dx = _gradient(tl.exp(x - shift), factor, gradient_scale, is_target, n_cols, LABEL_SMOOTHING)
                tl.store(dlogits_ptr + places, dx.to(dlogits_ptr.dtype.element_ty), mask=mask)
            if not ALIGNED:
                is_target = edges == target_place
                dx = _gradient(tl.exp(edge_x - shift), factor, gradient_scale, is_target, n_cols, LABEL_SMOOTHING)
                tl.store(dlogits_ptr + edges, dx.to(dlogits_ptr.dtype.element_ty), mask=is_edge)


@triton.jit
def _lanes_of_chunk(chunk, lanes, first_lane, end_lane):
    """Which lanes a chunk has, (LANES, 1), and which of them lie in the row."""
    lane = chunk * lanes.shape[0] + lanes
    return lane, (lane >= first_lane) & (lane < end_lane)


@triton.jit
def _store_zeros(dlogits_ptr, chunks, lanes, values, first_lane, end_lane, edges, is_edge):
    """The gradient of a row that is ignored."""
    zeros = tl.zeros((lanes.shape[0], values.shape[1]), dtype=dlogits_ptr.dtype.element_ty)
    for chunk in tl.range(0, chunks):
        lane, mask = _lanes_of_chunk(chunk, lanes, first_lane, end_lane)
        tl.store(dlogits_ptr + lane * values.shape[1] + values, zeros, mask=mask)
    if edges is not None:
        tl.store(dlogits_ptr + edges, tl.zeros(edges.shape, dlogits_ptr.dtype.element_ty), mask=is_edge)


@triton.jit
def _sums(logits_ptr, chunks, lanes, values, first_lane, end_lane, edge_x, is_edge, centre):
    """(m, d, Σ (x - centre)) of a row; m is 0 where all is -inf, and the last 0 where the centre is None.

    Each lane has a maximum and sums of its own, so that no thread waits for another within the loop.
    """
    lane_largest = tl.full((lanes.shape[0],), -float("inf"), dtype=tl.float32)
    lane_totals = tl.zeros((lanes.shape[0],), dtype=tl.float32)
    lane_distances = tl.zeros((lanes.shape[0],), dtype=tl.float32)
    for chunk in tl.range(0, chunks):
        lane, mask = _lanes_of_chunk(chunk, lanes, first_lane, end_lane)
        x = tl.load(logits_ptr + lane * values.shape[1] + values, mask=mask, other=-float("inf")).to(tl.float32)
        before = lane_largest
        lane_largest = tl.maximum(lane_largest, tl.max(x, axis=1))
        # While there is nothing but -inf, 0 is taken out: exp(-inf - 0) is 0 where exp(-inf + inf) is NaN.
        lane_shift = tl.where(lane_largest == -float("inf"), 0.0, lane_largest)
        exponentials = tl.sum(tl.exp(x - lane_shift[:, None]), axis=1)
        lane_totals = lane_totals * tl.exp(before - lane_shift) + exponentials
        if centre is not None:
            lane_distances += tl.sum(tl.where(mask, x - centre, 0.0), axis=1)

    largest = tl.max(lane_largest, axis=0)
    if edge_x is not None:
        largest = tl.maximum(largest, tl.max(edge_x, axis=0))
    # A row of -inf alone has the sum 0, and 0 · (1 / 0) is NaN, as torch has it.
    shift = tl.where(largest == -float("inf"), 0.0, largest)
    total = tl.sum(lane_totals * tl.exp(lane_largest - shift), axis=0)
    if edge_x is not None:
        total += tl.sum(tl.exp(edge_x - shift), axis=0)
    distance = tl.sum(lane_distances, axis=0)
    if edge_x is not None and centre is not None:
        distance += tl.sum(tl.where(is_edge, edge_x - centre, 0.0), axis=0)
    return shift, total, distance


@triton.jit
def _edges(begin, end, first_lane, end_lane, VALUES: tl.constexpr):
    """Places of the lanes before the first and after the last whole one, and which of them are in the row."""
    place = tl.arange(0, 2 * VALUES)
    is_tail = place >= VALUES
    places = tl.where(is_tail, end_lane * VALUES + place - VALUES, place)
    # A row within one lane is all head, if it does not begin it.
    is_edge = tl.where(is_tail, end_lane >= first_lane, first_lane > 0)
    return places, is_edge & (places >= begin) & (places < end)


@triton.jit
def _scale_of_row(scale_ptr):
    scale = 1.0
    if scale_ptr is not None:
        scale = tl.load(scale_ptr)
    return scale


@triton.jit
def _checked(target, scale, begin, n_cols):
    """The place of a target that there is, and the scale, NaN where it is another."""
    is_one = (target >= 0) & (target < n_cols)
    return begin + tl.where(is_one, target, 0).to(tl.int32), tl.where(is_one, scale, float("nan"))


@triton.jit
def _finite(logit):
    """What may be taken from others: -inf would make an infinite distance of every one, of the wrong sign."""
    return tl.where(logit == -float("inf"), 0.0, logit)


@triton.jit
def _loss(shift, total, target_logit, distance, LABEL_SMOOTHING: tl.constexpr, Z_LOSS: tl.constexpr):
    """By differences of logits, so that nothing cancels where they are large. distance: mean of x - x_t."""
    log_total = tl.log(total)
    loss = log_total + (shift - target_logit)
    if LABEL_SMOOTHING != 0.0:
        loss = loss - distance * LABEL_SMOOTHING
    if Z_LOSS != 0.0:
        lse = shift + log_total
        loss = loss + lse * lse * Z_LOSS
    return loss


@triton.jit
def _with_dloss(scale, dloss_ptr, row, DLOSS_OF_ROWS: tl.constexpr):
    if dloss_ptr is not None:
        scale = scale * tl.load(dloss_ptr + (row if DLOSS_OF_ROWS else 0))
    return scale


@triton.jit
def _factor(scale, shift, total, Z_LOSS: tl.constexpr):
    """What makes of exp(x - m) its part of the gradient."""
    factor = scale / total
    if Z_LOSS != 0.0:
        factor = factor * ((shift + tl.log(total)) * (2.0 * Z_LOSS) + 1.0)
    return factor


@triton.jit
def _gradient(exponential, factor, scale, is_target, n_cols, LABEL_SMOOTHING: tl.constexpr):
    gradient = exponential * factor
    if LABEL_SMOOTHING != 0.0:
        gradient = gradient - scale * LABEL_SMOOTHING / n_cols
    return gradient - tl.where(is_target, scale * (1.0 - LABEL_SMOOTHING), 0.0)


def cross_entropy_rows(
    rows: Tensor,
    target: Tensor,
    losses: Tensor | None,
    dlogits: Tensor | None,
    settings: LossSettings,
    *,
    scale: Tensor | None,
    dloss: Tensor | None = None,
) -> None:
    """Writes the loss of each row, times scale, and its gradient, times scale and dloss; each where there is memory.

    rows is (rows, V), inner stride 1, target (rows,) of int64, contiguous, losses (rows,) of fp32, dlogits contiguous,
    of the shape and dtype of rows, and may be rows. scale is (1,), dloss (1,) or (rows,), both fp32; None is 1.
    """
    n_rows, n_cols = rows.shape
    if n_rows == 0:
        return
    values = 16 // rows.element_size()
    num_warps = _num_warps(n_cols * rows.element_size())
    _cross_entropy_kernel[(n_rows,)](
        rows,
        rows.stride(0),
        target,
        scale,
        dloss,
        losses,
        dlogits,
        n_cols,
        settings.ignore_index,
        LABEL_SMOOTHING=settings.label_smoothing,
        Z_LOSS=settings.z_loss,
        DLOSS_OF_ROWS=dloss is not None and dloss.shape[0] > 1,
        CONTIGUOUS=rows.is_contiguous(),
        ALIGNED=n_cols % values == 0 and rows.stride(0) % values == 0,
        VALUES=values,
        LANES=32 * num_warps,  # one access a thread and chunk: measured to be faster than two or four
        num_warps=num_warps,
    )


def cross_entropy_forward(
    logits: Tensor, target: Tensor, dlogits: Tensor | None, settings: LossSettings, reduction: str
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The loss, the target as rows, and what they and gradients were multiplied by, which the backward pass needs.

    logits is (..., V), target (...,), and dlogits is written where there is one: as logits, contiguous.
    """
    rows, target = as_rows(logits), target.reshape(-1).contiguous()
    losses = torch.empty(rows.shape[0], dtype=torch.float32, device=rows.device)
    scale = inverse_count(target, settings.ignore_index) if reduction == "mean" else None
    dlogits_rows = None if dlogits is None else dlogits.view(rows.shape)
    cross_entropy_rows(rows, target, losses, dlogits_rows, settings, scale=scale)
    return reduced(losses, logits.shape[:-1], reduction), target, scale


def reduced(losses: Tensor, shape: torch.Size, reduction: str) -> Tensor:
    """Losses that have their scale already, of that shape or summed. The mean of no rows is NaN."""
    if reduction == "none":
        return losses.view(shape)
    return losses.sum() if losses.shape[0] > 0 or reduction == "sum" else losses.new_full((), torch.nan)


def _num_warps(row_bytes: int) -> int:
    """One for 2 KiB of a row, up to 16; from 128 KiB on 32, so that fewer rows share the L2. Measured on an H200."""
    if row_bytes >= 131072:
        return 32
    return min(block_holding(cdiv(row_bytes, 2048)), 16)


class CrossEntropyFunction(torch.autograd.Function):
    """Cross-entropy on a GPU. The gradient, of the first order only, is computed where it is needed.

    The forward pass writes the gradient, and the first backward pass hands it out, multiplied in place, and forgets
    it, so that nobody is handed the same memory twice. The backward pass computes it from the logits instead

    - where it was handed out already;
    - of fp16, in which small gradients would be 0 before a factor such as that of a loss scaler reaches them;
    - under torch.compile, which cannot trace what a context forgets.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        target: Tensor,
        settings: LossSettings,
        reduction: str,
        in_place: bool,
        needs_gradient: bool,
    ) -> Tensor:
        ctx.settings = settings
        dlogits = None
        if not torch.compiler.is_compiling():
            if needs_gradient and logits.dtype != torch.float16:
                dlogits = _memory_for_gradient(logits, in_place)
            ctx.dlogits, ctx.in_place, ctx.is_spent = dlogits, in_place, False
        loss, target, scale = cross_entropy_forward(logits, target, dlogits, settings, reduction)
        ctx.save_for_backward(logits, target, scale)
        return loss

    @staticmethod
    @first_order
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor | None, ...]:
        dloss = dloss.reshape(-1).contiguous()
        in_place = False
        if not torch.compiler.is_compiling():
            if ctx.is_spent:
                raise RuntimeError(
                    "cross_entropy: in_place=True wrote the gradient over the logits, so it cannot be computed again; "
                    "expected one backward pass, or in_place=False"
                )
            ctx.is_spent = in_place = ctx.in_place
            dlogits, ctx.dlogits = ctx.dlogits, None
            if dlogits is not None:
                if in_place:
                    # The same memory, but torch raises where it was written since.
                    dlogits = ctx.saved_tensors[0].detach()
                scale_gradient(dlogits, dloss)
                return dlogits, None, None, None, None, None
        logits, target, scale = ctx.saved_tensors
        dlogits = _memory_for_gradient(logits, in_place)
        rows, dlogits_rows = as_rows(logits), dlogits.view(-1, logits.shape[-1])
        cross_entropy_rows(rows, target, None, dlogits_rows, ctx.settings, scale=scale, dloss=dloss)
        return dlogits, None, None, None, None, None


def _memory_for_gradient(logits: Tensor, in_place: bool) -> Tensor:
    """Of the shape of the logits, contiguous. Whoever saved logits that are overwritten is told by torch."""
    if in_place:
        torch.autograd.graph.increment_version(logits)
        return logits.detach()
    return torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
    in_place: bool = False,
) -> Tensor:
    """torch.nn.functional.cross_entropy of class indices, classes last, without class weights, and with z-loss.

    Logits of torch's layout, (N, C, ...), are given as logits.movedim(1, -1).

    The loss is fp32, whatever the logits are, and under torch.autocast too. A target that is no class, and is not
    ignore_index, makes the loss and the gradient of its row NaN, and nothing is read there. Rows that are ignored are
    not read: their loss and gradient are 0, whatever is in them. Where Triton cannot run, cross_entropy_reference
    computes. The gradient waits for the backward pass on the GPU: activation checkpointing and hooks of saved tensors
    do not move it.

    Args:
        logits: (..., V), fp32, fp16 or bf16. On a GPU, the current one, as with any Triton launch.
        target: (...,), int64.
        ignore_index: a target whose row counts for nothing, an integer of 64 bits.
        label_smoothing: the share of the target that is spread over all classes, 0 to 1. Each new value of it or of
            z_loss compiles the kernel anew.
        z_loss: the factor of the squared log-sum-exp that is added to the loss of each row.
        reduction: "mean" over the rows that are not ignored, NaN where all are, "sum", or "none": (...,) losses.
        in_place: writes the gradient over the logits, so that it takes no memory of its own. The values of the logits
            are lost, and there can be one backward pass at most. It does nothing under torch.compile, which plans
            memory itself, nor where torch computes.

    Raises:
        TypeError: for another dtype.
        ValueError: for another shape, reduction or label_smoothing, for tensors on several devices, where V is 0 or,
            on a GPU, above 2^30, or for logits that in_place cannot overwrite: a leaf that requires a gradient, a view
            of one, or not contiguous.
        RuntimeError: for a second backward pass of in_place, or where the logits were written before the first.
    """
    settings = expect_loss_settings("cross_entropy", ignore_index, label_smoothing, z_loss)
    _check_arguments(logits, target, reduction, in_place)
    if not runs_triton("cross_entropy", logits):
        return cross_entropy_reference(logits, target, **settings._asdict(), reduction=reduction)
    expect_countable_columns("cross_entropy", logits.shape[-1])
    needs_gradient = torch.is_grad_enabled() and logits.requires_grad
    loss: Tensor = CrossEntropyFunction.apply(logits, target, settings, reduction, in_place, needs_gradient)
    return loss


def cross_entropy_reference(
    logits: Tensor,
    target: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """Cross-entropy by plain, differentiable torch, in fp32, but in float64 where the logits are float64."""
    compute_dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    counts = target != ignore_index
    # Not read: NaN times the gradient 0 would be NaN.
    logits = logits.to(compute_dtype).masked_fill(~counts[..., None], 0.0)
    is_class = (target >= 0) & (target < logits.shape[-1])
    logarithms = torch.log_softmax(logits, dim=-1)
    at_target = logarithms.gather(-1, torch.where(is_class, target, 0)[..., None])[..., 0]
    losses = -(1.0 - label_smoothing) * at_target
    if label_smoothing != 0.0:
        losses = losses - label_smoothing * logarithms.mean(dim=-1)
    if z_loss != 0.0:
        losses = losses + z_loss * torch.logsumexp(logits, dim=-1).square()
    losses = (losses * torch.where(is_class, 1.0, torch.nan)).masked_fill(~counts, 0.0)
    if reduction == "none":
        return losses
    return losses.sum() / counts.sum() if reduction == "mean" else losses.sum()


def _check_arguments(logits: Tensor, target: Tensor, reduction: str, in_place: bool) -> None:
    expect_choice("cross_entropy", "reduction", reduction, REDUCTIONS)
    expect_floating("cross_entropy", logits=logits)
    expect_last_dimension("cross_entropy", "logits", logits)
    expect_target("cross_entropy", target, tuple(logits.shape[:-1]))
    expect_one_device("cross_entropy", logits=logits, target=target)
    if in_place and not torch.compiler.is_compiling():
        _expect_overwritable(logits)


def _expect_overwritable(logits: Tensor) -> None:
    if not logits.is_contiguous():
        raise ValueError(
            f"cross_entropy: in_place=True expects contiguous logits, found strides {tuple(logits.stride())}"
        )
    whole = logits if logits._base is None else logits._base
    if whole.is_leaf and whole.requires_grad:
        raise ValueError(
            "cross_entropy: in_place=True would overwrite logits that are a leaf and require a gradient, "
            "or a view of such a leaf"
        )
