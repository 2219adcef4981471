"""RMSNorm: the Triton kernels of its forward and backward pass, and the autograd function over them.

Root mean square layer normalization, Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467, equation 4.
For a row x of N values, weight w and offset c; without a weight, w + c is 1:

    rstd = 1 / sqrt(mean(x²) + eps)
    x̂    = x · rstd
    y    = x̂ · (w + c)

Backward, from dy. Write m = dy · (w + c), the gradient with respect to x̂. As ∂rstd/∂x_j = -rstd³ · x_j / N,

    dx_j = rstd · m_j - rstd³ · x_j · mean(m · x)
         = rstd · (m_j - x̂_j · mean(m · x̂))
    dw   = Σ over rows of dy · x̂

Owns the kernels, how they are launched and the plain torch reference. Must not know the rest of warpsmith.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

#: The widest row that is held in the registers of one program.
MAX_COLUMNS = 65536

#: llama: only the normalization is in fp32; x̂ is rounded to the input's dtype before it meets the weight.
#: gemma: everything is in fp32, and rounded once at the end.
CASTINGS = ("llama", "gemma")

SUPPORTED_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def _rms_norm_forward_kernel(
    x_ptr,  # (n_rows, n_cols), inner stride 1
    x_row_stride,
    weight_ptr,  # (n_cols,), contiguous, or None
    y_ptr,  # (n_rows, n_cols), contiguous, the dtype of x
    rstd_ptr,  # (n_rows,), fp32
    n_cols,
    eps,
    OFFSET: tl.constexpr,
    ROUND_BEFORE_WEIGHT: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One program normalizes one row."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)

    y = x * rstd
    if ROUND_BEFORE_WEIGHT:
        y = y.to(y_ptr.dtype.element_ty).to(tl.float32)
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        y = y * (weight + OFFSET)
    tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _rms_norm_backward_kernel(
    dy_ptr,  # (n_rows, n_cols), inner stride 1
    dy_row_stride,
    x_ptr,  # (n_rows, n_cols), inner stride 1
    x_row_stride,
    weight_ptr,  # (n_cols,), contiguous, or None
    rstd_ptr,  # (n_rows,), fp32
    dx_ptr,  # (n_rows, n_cols), contiguous, the dtype of x
    dw_partial_ptr,  # (programs, n_cols), contiguous, fp32, or None
    n_rows,
    n_cols,
    OFFSET: tl.constexpr,
    ROUND_BEFORE_WEIGHT: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One program walks over rows, far enough apart that all programs share them evenly, and sums its own dw."""
    program = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    if weight_ptr is not None:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32) + OFFSET
    if dw_partial_ptr is not None:
        dw = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    for row in range(program, n_rows, tl.num_programs(0)):
        dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = x * rstd

        m = dy
        if weight_ptr is not None:
            m = dy * weight
        dx = rstd * (m - x_hat * (tl.sum(m * x_hat, axis=0) / n_cols))
        tl.store(dx_ptr + row * n_cols + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)

        if dw_partial_ptr is not None:
            if ROUND_BEFORE_WEIGHT:
                x_hat = x_hat.to(dx_ptr.dtype.element_ty).to(tl.float32)
            dw += dy * x_hat

    if dw_partial_ptr is not None:
        tl.store(dw_partial_ptr + program * n_cols + cols, dw, mask=mask)


def rms_norm_forward(
    x: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str
) -> tuple[Tensor, Tensor]:
    """y, (..., N) of the dtype of x, and rstd, (rows,) of fp32, which the backward pass needs.

    x is (..., N), weight (N,) and contiguous or None. Raises ValueError where N is above 65536.
    """
    rows = _as_rows(x)
    n_rows, n_cols = rows.shape
    y = torch.empty_like(rows)
    rstd = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    block_size, num_warps = _launch_settings(n_cols)
    if n_rows == 0:
        return y.view(x.shape), rstd

    _rms_norm_forward_kernel[(n_rows,)](
        rows,
        rows.stride(0),
        weight,
        y,
        rstd,
        n_cols,
        eps,
        OFFSET=offset,
        ROUND_BEFORE_WEIGHT=casting == "llama",
        BLOCK_SIZE=block_size,
        num_warps=num_warps,
    )
    return y.view(x.shape), rstd


# Launch settings that were measured to be faster: GPU (compute capability, number of SMs) -> bytes an element ->
# bands of row widths and row counts, ends included. Outside the bands, and on any other GPU, the code's own
# expressions hold.
_SettingsTable = dict[tuple[int, int, int], dict[int, list[tuple[tuple[int, int], tuple[int, int], dict[str, int]]]]]


@functools.cache
def _gpu_key(device_index: int) -> tuple[int, int, int]:
    """(major, minor, number of SMs), asked once a GPU: the question costs more than the rest of a look-up."""
    properties = torch.cuda.get_device_properties(device_index)
    return properties.major, properties.minor, properties.multi_processor_count


def _tuned_settings(table: _SettingsTable, tensor: torch.Tensor, n_rows: int, n_cols: int) -> dict[str, int]:
    """The settings of the band that this launch falls into; none where nothing was measured."""
    device = tensor.device
    if device.type != "cuda" or torch.version.cuda is None:
        return {}
    bands = table.get(_gpu_key(device.index), {}).get(tensor.element_size(), [])
    for (narrowest, widest), (fewest, most), settings in bands:
        if narrowest <= n_cols <= widest and fewest <= n_rows <= most:
            return settings
    return {}


# Bands of (n_cols, n_rows) for rms_norm_backward.
_RMS_NORM_BACKWARD_SETTINGS: _SettingsTable = {
    (9, 0, 132): {
        2: [
            ((2048, 2048), (16385, 32768), {"num_warps": 8, "programs_per_sm": 4}),
            ((2048, 4096), (2048, 16384), {"num_warps": 16, "programs_per_sm": 2}),
        ],
    },
}


def rms_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, offset: float, casting: str, *, needs_dw: bool = True
) -> tuple[Tensor, Tensor | None]:
    """dx, (..., N) of the dtype of x, and dw, (N,) of the dtype of the weight.

    dy and x are (..., N), weight (N,) and contiguous or None, rstd as rms_norm_forward returned it.
    dw is None where there is no weight or needs_dw is false.
    """
    dy_rows, rows = _as_rows(dy), _as_rows(x)
    n_rows, n_cols = rows.shape
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    tuned = _tuned_settings(_RMS_NORM_BACKWARD_SETTINGS, dy, n_rows, n_cols)
    programs = programs * tuned.get("programs_per_sm", 1)
    dx = torch.empty_like(rows)
    dw_partial = None
    if weight is not None and needs_dw:
        # Not zeroed: every element is stored before it is read.
        dw_partial = torch.empty((programs, n_cols), dtype=torch.float32, device=x.device)
    block_size, num_warps = _launch_settings(n_cols)
    num_warps = tuned.get("num_warps", num_warps)

    _rms_norm_backward_kernel[(programs,)](
        dy_rows,
        dy_rows.stride(0),
        rows,
        rows.stride(0),
        weight,
        rstd,
        dx,
        dw_partial,
        n_rows,
        n_cols,
        OFFSET=offset,
        ROUND_BEFORE_WEIGHT=casting == "llama",
        BLOCK_SIZE=block_size,
        num_warps=num_warps,
    )
    dw = None
    if weight is not None and dw_partial is not None:
        dw = dw_partial.sum(dim=0).to(weight.dtype)
    return dx.view(x.shape), dw


def _as_rows(tensor: Tensor) -> Tensor:
    """(..., N) as (rows, N) with inner stride 1; a view where the strides allow it."""
    rows = tensor.reshape(-1, tensor.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _launch_settings(n_cols: int) -> tuple[int, int]:
    """(BLOCK_SIZE, num_warps) for rows of n_cols values: one block holds the whole row."""
    if n_cols > MAX_COLUMNS:
        raise ValueError(f"rms_norm: a row has {n_cols} columns; at most {MAX_COLUMNS} are supported")
    block_size = triton.next_power_of_2(n_cols)
    num_warps = 4
    if block_size >= 32768:
        num_warps = 32
    elif block_size >= 8192:
        num_warps = 16
    elif block_size >= 2048:
        num_warps = 8
    return block_size, num_warps


class RMSNormFunction(torch.autograd.Function):
    """RMSNorm on a GPU. Gradients of x and weight; of the first order only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str) -> Tensor:
        y, rstd = rms_norm_forward(x, weight, eps, offset, casting)
        ctx.save_for_backward(x, weight, rstd)
        ctx.offset = offset
        ctx.casting = casting
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        x, weight, rstd = ctx.saved_tensors
        needs_dx, needs_dw = ctx.needs_input_grad[:2]
        dx, dw = rms_norm_backward(dy, x, weight, rstd, ctx.offset, ctx.casting, needs_dw=needs_dw)
        return dx if needs_dx else None, dw, None, None, None


def rms_norm(
    x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, *, offset: float = 0.0, casting: str = "llama"
) -> Tensor:
    """Normalize the last dimension of x by its root mean square.

    The output, (..., N), has the dtype of x, whatever the dtype of the weight and under torch.autocast too.
    CPU tensors, on which Triton cannot run, are computed by rms_norm_reference.

    Args:
        x: (..., N), fp32, fp16 or bf16. On a GPU, the current one, as with any Triton launch.
        weight: (N,), fp32, fp16 or bf16, or None for none.
        eps: added to the mean of squares.
        offset: added to the weight, where there is one; Gemma uses 1.0.
        casting: one of CASTINGS.

    Raises:
        TypeError: for another dtype.
        ValueError: for another device, shape or casting, or where N is 0 or, on a GPU, above 65536.
    """
    _check_arguments(x, weight, casting)
    if x.device.type == "cpu":
        _announce_reference()
        return rms_norm_reference(x, weight, eps, offset, casting)
    if weight is not None:
        weight = weight.contiguous()
    y: Tensor = RMSNormFunction.apply(x, weight, eps, offset, casting)
    return y


def rms_norm_reference(x: Tensor, weight: Tensor | None, eps: float, offset: float, casting: str) -> Tensor:
    """RMSNorm by plain, differentiable torch: (..., N) in, (..., N) of the same dtype out.

    Computes in fp32, but in float64 where x is float64: the roundings of the casting conventions then do nothing.
    """
    compute_dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    x_compute = x.to(compute_dtype)
    y = x_compute * torch.rsqrt(x_compute.square().mean(dim=-1, keepdim=True) + eps)
    if casting == "llama":
        y = y.to(x.dtype).to(compute_dtype)
    if weight is not None:
        y = y * (weight.to(compute_dtype) + offset)
    return y.to(x.dtype)


def _check_arguments(x: Tensor, weight: Tensor | None, casting: str) -> None:
    if casting not in CASTINGS:
        raise ValueError(f"rms_norm: casting must be one of {CASTINGS}, found {casting!r}")
    if x.device.type not in ("cuda", "cpu"):
        raise ValueError(f"rms_norm: x must be on a CUDA device or on the CPU, found {x.device}")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"rms_norm: x must have a last dimension of at least 1, found shape {tuple(x.shape)}")
    if weight is not None and weight.shape != x.shape[-1:]:
        raise ValueError(f"rms_norm: weight must have shape ({x.shape[-1]},), found {tuple(weight.shape)}")
    if weight is not None and weight.device != x.device:
        raise ValueError(f"rms_norm: weight is on {weight.device}, x on {x.device}")
    for name, tensor in (("x", x), ("weight", weight)):
        if tensor is not None and tensor.dtype not in SUPPORTED_DTYPES:
            raise TypeError(f"rms_norm: {name} must be float32, float16 or bfloat16, found {tensor.dtype}")


@functools.cache
def _announce_reference() -> None:
    warnings.warn("rms_norm: Triton cannot run on CPU tensors; computing with plain torch instead", stacklevel=3)
