"""Kernels with one program a row, in the styles of public libraries; each with a host function `run(x, w)`."""

from __future__ import annotations

_IMPORTS = """\
import torch
import triton
import triton.language as tl


"""

#: Pointers that move to the row, a row stride for each tensor, casts chosen by a constexpr of the module.
MOVED_POINTERS = (
    _IMPORTS
    + '''\
_LLAMA: tl.constexpr = tl.constexpr(0)


@triton.jit
def _norm_kernel(
    Y_ptr,
    Y_row_stride,
    X_ptr,
    X_row_stride,
    W_ptr,
    RSTD_ptr,
    RSTD_row_stride,
    n_cols,
    eps,
    offset,
    casting_mode: tl.constexpr,
    elementwise_affine: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """y_i = x_i / rms * (offset + w_i)"""
    row_idx = tl.program_id(0).to(tl.int64)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols

    Y_ptr += row_idx * Y_row_stride
    X_ptr += row_idx * X_row_stride
    RSTD_ptr += row_idx * RSTD_row_stride

    X_row = tl.load(X_ptr + col_offsets, mask=mask, other=0)
    X_row_dtype = X_row.dtype
    if elementwise_affine:
        W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0)

    # On Llama, only rstd is computed on fp32
    if casting_mode == _LLAMA:
        X_row = X_row.to(tl.float32)

    mean_square = tl.sum(X_row * X_row, axis=0) / n_cols
    rstd = tl.rsqrt(mean_square + eps)
    tl.store(RSTD_ptr, rstd)

    X_row = X_row * rstd
    if casting_mode == _LLAMA:
        X_row = X_row.to(X_row_dtype)
    if elementwise_affine:
        Y_row = X_row * (offset + W_row.to(tl.float32))
    else:
        Y_row = X_row
    tl.store(Y_ptr + col_offsets, Y_row, mask=mask)


def run(x, w):
    n_rows, n_cols = x.shape
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    num_warps = 4 if BLOCK_SIZE < 2048 else 8
    Y = torch.empty_like(x)
    RSTD = torch.empty(n_rows, dtype=torch.float32, device=x.device)

    # one program a row
    _norm_kernel[(n_rows,)](
        Y,
        Y.stride(0),
        x,
        x.stride(0),
        w,
        RSTD,
        RSTD.stride(0),
        n_cols,
        1e-6,
        1.0,
        casting_mode=0,
        elementwise_affine=True,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return Y, RSTD
'''
)

#: Pointers with names of their own, a row that counts itself, a grid with a name.
NAMED_POINTERS = (
    _IMPORTS
    + """\
@triton.jit
def softmax_kernel(output_ptr, input_ptr, M, N, BLOCK: tl.constexpr):
    row_idx = tl.program_id(axis=0)
    row_start = input_ptr + row_idx * N
    col_offsets = tl.arange(0, BLOCK)
    mask = col_offsets < N
    row = tl.load(row_start + col_offsets, mask=mask, other=-float("inf")).to(tl.float32)
    row_minus_max = row - tl.max(row, axis=0)
    numerator = tl.exp(row_minus_max)
    denominator = tl.sum(numerator, 0)
    tl.store(output_ptr + row_idx * N + col_offsets, numerator / denominator, mask)


def run(x, w):
    M, N = x.shape
    out = torch.empty_like(x)
    BLOCK = triton.next_power_of_2(N)
    grid = (M, )
    softmax_kernel[grid](out, x, M, N, BLOCK=BLOCK)
    return (out,)
"""
)

#: In place, with the sum of squares over everything and no axis named, rows counted by an expression.
IN_PLACE = (
    _IMPORTS
    + """\
@triton.jit
def _add_norm_kernel(x_ptr, residual_ptr, w_ptr, stride, N, eps: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    offsets = tl.arange(0, BLOCK_N)
    at = pid * stride + offsets
    x = tl.load(x_ptr + at, mask=offsets < N, other=0.0).to(tl.float32)
    x += tl.load(residual_ptr + at, mask=offsets < N, other=0.0).to(tl.float32)
    tl.store(residual_ptr + at, x, mask=offsets < N)
    variance = tl.sum(x * x) / N
    w = tl.load(w_ptr + offsets, mask=offsets < N, other=0.0)
    tl.store(x_ptr + at, x * (1 / tl.sqrt(variance + eps)) * w, mask=offsets < N)


def run(x, w):
    y, residual = x.clone(), (x * 2 + 1).contiguous()
    _add_norm_kernel[(y.numel() // y.shape[-1],)](
        y, residual, w, y.stride(0), y.shape[1], 1e-5, BLOCK_N=triton.next_power_of_2(y.shape[1]), num_warps=2
    )
    return y, residual
"""
)

#: Centred only where there are columns, scalars of a row in tensors of their own, the next power of two in a helper.
CENTRED = (
    _IMPORTS
    + """\
def calculate_settings(n):
    BLOCK_SIZE = triton.next_power_of_2(n)
    return BLOCK_SIZE, 8 if BLOCK_SIZE >= 2048 else 4


@triton.jit
def layernorm_forward(Y, X, W, r, mu, stride, n_cols: tl.constexpr, eps: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols

    Y += row_idx * stride
    X += row_idx * stride
    r += row_idx
    mu += row_idx

    X_row = tl.load(X + col_offsets, mask=mask, other=0).to(tl.float32)
    W_row = tl.load(W + col_offsets, mask=mask, other=0).to(tl.float32)
    mean_X = tl.sum(X_row, axis=0) / n_cols
    XX = tl.where(mask, X_row - mean_X, 0)
    row_var = tl.sum(XX * XX, axis=0) / n_cols
    inv_var = tl.math.rsqrt(row_var + eps)
    tl.store(r, inv_var)
    tl.store(mu, mean_X)
    tl.store(Y + col_offsets, (XX * inv_var) * W_row, mask=mask)


def run(x, w):
    n_rows, n_cols = x.shape
    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    Y = torch.empty_like(x)
    r, mu = (torch.empty(n_rows, dtype=torch.float32, device=x.device) for _ in range(2))
    layernorm_forward[(n_rows,)](Y, x, w, r, mu, x.stride(0), n_cols, 1e-5, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
    return Y, r, mu
"""
)

#: A name that the rewrite would give its mask, a flag, an integer result, a scale for each row.
QUANTIZED = (
    _IMPORTS
    + """\
@triton.jit
def _quantize_rowwise(x_ptr, out_ptr, scale_ptr, sum_ptr, n_elements, CAL_SUM: tl.constexpr, P2: tl.constexpr):
    pid = tl.program_id(axis=0)
    arange = tl.arange(0, P2)
    row_mask = arange < n_elements
    offsets = pid * n_elements + arange
    x = tl.load(x_ptr + offsets, mask=row_mask).to(tl.float32)
    abs_x = tl.abs(x)
    largest = tl.maximum(tl.max(tl.where(row_mask, abs_x, 0), axis=0), 1e-10)
    quantized = tl.floor(127.0 * (x / largest) + 0.5)
    tl.store(out_ptr + offsets, quantized.to(tl.int8), mask=row_mask)
    if CAL_SUM:
        tl.store(sum_ptr + pid, tl.sum(tl.where(row_mask, x, 0.0), axis=0))
    tl.store(scale_ptr + pid, largest / 127.0)


def run(x, w):
    out = torch.empty(x.shape, device=x.device, dtype=torch.int8)
    scale, total = (torch.empty(x.shape[0], device=x.device, dtype=torch.float32) for _ in range(2))
    P2 = triton.next_power_of_2(x.shape[1])
    grid = lambda meta: (x.shape[0],)
    _quantize_rowwise[grid](x, out, scale, total, x.shape[1], True, P2=P2)
    return out, scale, total
"""
)

#: Element by element through a function of the file, rows counted by a parameter, a gathered row.
GATED = (
    _IMPORTS
    + """\
@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def _swiglu_kernel(a_ptr, index_ptr, c_ptr, stride, n_cols, n_rows, BLOCK_SIZE: tl.constexpr):
    program_id = tl.program_id(0).to(tl.int64)
    source = tl.load(index_ptr + program_id)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    a = tl.load(a_ptr + source * stride + cols, mask=mask, other=0).to(tl.float32)
    c_ptr += program_id * stride
    tl.store(c_ptr + cols, silu(a), mask=mask)


def run(x, w):
    index = torch.arange(x.shape[0], device=x.device).flip(0)
    c = torch.empty_like(x)
    n_rows, n_cols = x.shape
    _swiglu_kernel[(n_rows,)](x, index, c, x.stride(0), n_cols, n_rows, BLOCK_SIZE=triton.next_power_of_2(n_cols))
    return (c,)
"""
)

STYLES = {
    "moved_pointers": MOVED_POINTERS,
    "named_pointers": NAMED_POINTERS,
    "in_place": IN_PLACE,
    "centred": CENTRED,
    "quantized": QUANTIZED,
    "gated": GATED,
}
