"""Matrix product of int8 or float8_e4m3fn matrices with scales by row and by column: the Triton kernels.

For a of M rows and b of N rows, as nn.Linear stores its weight, with scales s and t, and without a bias c = 0:

    y_mn = (Σ_k a_mk · b_nk) · s_m · t_n + c_n

int8: the sum is exact, in int32. A product is at most 128², so that 131071 of them cannot overflow.
float8: the tensor cores of Hopper keep about 14 bits of a sum (DeepSeek-V3, https://arxiv.org/abs/2412.19437, section
3.3.2), so after every BLOCK_K products their sum is added to one in fp32, unless use_fast_accum leaves that out.
The rest is computed in fp32 and rounded once at the end.

A program sums a tile of y over K, in blocks. Tiles are taken in groups, as matmul takes them.

There are two kernels, as there are for matmul. One reads through TMA (from compute capability 9.0 on) rows that are
aligned to 16 bytes, in large tiles. The other reads any rows through pointers; torch.compile, which cannot ask how a
tensor is aligned, always takes it.

Owns the kernels, how they are launched and the plain torch reference. Must not know the rest of warpsmith.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.kernels.arguments import (
    FLOATING,
    cdiv,
    expect_dense,
    expect_float8_hardware,
    expect_floating_or_none,
    expect_no_gradient,
    expect_number,
    expect_one_device,
    expect_quantized,
    expect_shape,
    loop_stages,
    row_stride,
    runs_triton,
    sm_count,
    without_autocast,
)
from warpsmith.kernels.tiles import place_of_tile
from warpsmith.kernels.tma import rows_are_aligned, tma_reads

#: The largest K of int8 whose sums fit into int32 for certain: 2³¹ / 128², less one.
MAX_INT8_K = 131071
#: Where each value is multiplied at least this often, rows that do not begin and end at multiples of 16 bytes are
#: copied, as they would be loaded value by value. Chosen, as for matmul.
_USES_WORTH_A_COPY = 512
#: Rows of tiles in a group. Chosen, as in Triton's tutorial 03; 4 and 16 are no faster on an H200, November 2026.
_GROUP_ROWS = 8


@triton.jit
def _quantized_matmul_kernel(
    a_ptr,  # (m, k), inner stride 1
    a_row_stride,
    b_ptr,  # (n, k), inner stride 1
    b_row_stride,
    a_scale_ptr,  # (m,), contiguous, fp32, or one value
    b_scale_ptr,  # (n,), contiguous, fp32, or one value
    bias_ptr,  # (n,), contiguous, or None
    y_ptr,  # (m, n), contiguous
    m,
    n,
    k,
    SCALE_A_ROW: tl.constexpr,
    SCALE_B_ROW: tl.constexpr,
    INT8: tl.constexpr,
    FAST_ACCUM: tl.constexpr,
    K_IS_EVEN: tl.constexpr,  # whether BLOCK_K divides k
    GROUP_ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One program computes one tile."""
    tile_m, tile_n = place_of_tile(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_ROWS)
    row, col = tile_m * BLOCK_M, tile_n * BLOCK_N
    # Rows and columns beyond the end are the last again, which are not stored: masks would cost in every block.
    rows = tl.minimum(row + tl.arange(0, BLOCK_M), m - 1).to(tl.int64)
    cols = tl.minimum(col + tl.arange(0, BLOCK_N), n - 1).to(tl.int64)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * a_row_stride + inner[None, :]
    b_ptrs = b_ptr + cols[None, :] * b_row_stride + inner[:, None]

    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32 if INT8 else tl.float32)
    for start in tl.range(0, k, BLOCK_K):
        if K_IS_EVEN:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=inner[None, :] < k - start, other=0.0)
            b = tl.load(b_ptrs, mask=inner[:, None] < k - start, other=0.0)
        sums = _plus_products(sums, a, b, FAST_ACCUM)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    _store_tile(sums, row, col, a_scale_ptr, b_scale_ptr, bias_ptr, y_ptr, m, n, SCALE_A_ROW, SCALE_B_ROW)


@triton.jit
def _quantized_matmul_tma_kernel(
    a_rows,  # descriptor of a, (m, k)
    b_rows,  # descriptor of b, (n, k)
    a_scale_ptr,  # (m,), contiguous, fp32, or one value
    b_scale_ptr,  # (n,), contiguous, fp32, or one value
    bias_ptr,  # (n,), contiguous, or None
    y_ptr,  # (m, n), contiguous
    m,
    n,
    k,
    SCALE_A_ROW: tl.constexpr,
    SCALE_B_ROW: tl.constexpr,
    INT8: tl.constexpr,
    FAST_ACCUM: tl.constexpr,
    GROUP_ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A program computes every num_programs-th tile, and loads the blocks of the next while it stores one.

    What lies beyond the end is read as 0.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        tile_m, tile_n = place_of_tile(tile, tiles_m, tiles_n, GROUP_ROWS)
        row, col = tile_m * BLOCK_M, tile_n * BLOCK_N

        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32 if INT8 else tl.float32)
        for start in tl.range(0, k, BLOCK_K):
            sums = _plus_products(sums, a_rows.load([row, start]), b_rows.load([col, start]).T, FAST_ACCUM)
        _store_tile(sums, row, col, a_scale_ptr, b_scale_ptr, bias_ptr, y_ptr, m, n, SCALE_A_ROW, SCALE_B_ROW)


@triton.jit
def _plus_products(sums, a, b, FAST_ACCUM: tl.constexpr):
    """sums + a · b. sums is int32 or fp32."""
    if sums.dtype == tl.int32:
        sums = tl.dot(a, b, sums, out_dtype=tl.int32)
    elif FAST_ACCUM:
        sums = tl.dot(a, b, sums)
    else:
        sums = tl.dot(a, b, sums, max_num_imprecise_acc=a.shape[1])
    return sums


@triton.jit
def _store_tile(
    sums,
    first_row,
    first_col,
    a_scale_ptr,
    b_scale_ptr,
    bias_ptr,
    y_ptr,
    m,
    n,
    SCALE_A_ROW: tl.constexpr,
    SCALE_B_ROW: tl.constexpr,
):
    """The epilogue."""
    # In 64 bits from the start: neighbours' addresses differ by a constant then, which takes no register.
    rows = first_row.to(tl.int64) + tl.arange(0, sums.shape[0])[:, None]
    cols = first_col.to(tl.int64) + tl.arange(0, sums.shape[1])[None, :]

    y = sums.to(tl.float32)
    y *= tl.load(a_scale_ptr + rows, mask=rows < m, other=0.0) if SCALE_A_ROW else tl.load(a_scale_ptr)
    y *= tl.load(b_scale_ptr + cols, mask=cols < n, other=0.0) if SCALE_B_ROW else tl.load(b_scale_ptr)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    at = rows * n + cols
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=(rows < m) & (cols < n))


def quantized_matmul_forward(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    bias: Tensor | None,
    out_dtype: torch.dtype,
    use_fast_accum: bool = False,
) -> Tensor:
    """y, (M, N), contiguous. a is (M, K), b (N, K), the scales fp32, (M,) and (N,), or () for one value."""
    y = torch.empty((a.shape[0], b.shape[0]), dtype=out_dtype, device=a.device)
    if y.numel() > 0:
        a, b = _readable(a, b)
        launch = _launch_tma if _has_large_tiles(a, b) and tma_reads(a) and tma_reads(b) else _launch
        bias = None if bias is None else bias.contiguous()
        launch(a, b, a_scale.contiguous(), b_scale.contiguous(), bias, y, use_fast_accum)
    return y


def _launch(
    a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, bias: Tensor | None, y: Tensor, use_fast_accum: bool
) -> None:
    (m, n), k = y.shape, a.shape[1]
    block_m, block_n, block_k, num_stages, num_warps = _tile_settings(a, b)
    _quantized_matmul_kernel[(cdiv(m, block_m) * cdiv(n, block_n),)](
        a,
        row_stride(a),
        b,
        row_stride(b),
        a_scale,
        b_scale,
        bias,
        y,
        m,
        n,
        k,
        SCALE_A_ROW=a_scale.ndim == 1,
        SCALE_B_ROW=b_scale.ndim == 1,
        INT8=a.dtype == torch.int8,
        FAST_ACCUM=use_fast_accum,
        K_IS_EVEN=not k % block_k,
        GROUP_ROWS=_GROUP_ROWS,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        num_stages=num_stages,
        num_warps=num_warps,
    )


def _launch_tma(
    a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, bias: Tensor | None, y: Tensor, use_fast_accum: bool
) -> None:
    m, n = y.shape
    settings, programs_per_sm = _tma_tile_settings(a, b, y.dtype, use_fast_accum)
    block_m, block_n, block_k, num_stages, num_warps = settings
    programs = min(programs_per_sm * sm_count(a), cdiv(m, block_m) * cdiv(n, block_n))
    _quantized_matmul_tma_kernel[(programs,)](
        TensorDescriptor.from_tensor(a, [block_m, block_k]),
        TensorDescriptor.from_tensor(b, [block_n, block_k]),
        a_scale,
        b_scale,
        bias,
        y,
        m,
        n,
        a.shape[1],
        SCALE_A_ROW=a_scale.ndim == 1,
        SCALE_B_ROW=b_scale.ndim == 1,
        INT8=a.dtype == torch.int8,
        FAST_ACCUM=use_fast_accum,
        GROUP_ROWS=_GROUP_ROWS,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        num_stages=num_stages,
        num_warps=num_warps,
    )


def _tile_settings(a: Tensor, b: Tensor) -> tuple[int, int, int, int, int]:
    """(BLOCK_M, BLOCK_N, BLOCK_K, num_stages, num_warps) where a and b are read through pointers.

    Few rows and large tiles measured on an H200, November 2026; the others chosen.
    """
    m, k = a.shape
    if m <= 16:  # b is read once, at the speed of memory: many programs, with many bytes in flight
        block_m, block_n, block_k, blocks_ahead = 16, 32, 512 if a.dtype == torch.int8 else 256, 3
    elif not (rows_are_aligned(a) and rows_are_aligned(b) and k % 16 == 0):  # each byte is loaded alone
        block_m, block_n, block_k, blocks_ahead = 64, 64, 64, 3
    elif _has_large_tiles(a, b):
        block_m, block_n, block_k, blocks_ahead = 128, 128, 128, 2
    else:
        block_m, block_n, block_k, blocks_ahead = 64, 64, 256, 3
    num_stages = loop_stages(a, (block_m + block_n) * block_k, programs_per_sm=1, most_ahead=blocks_ahead)
    return block_m, block_n, block_k, num_stages, 4


def _tma_tile_settings(
    a: Tensor, b: Tensor, out_dtype: torch.dtype, use_fast_accum: bool
) -> tuple[tuple[int, int, int, int, int], int]:
    """The same through TMA, and how many programs run on an SM at once: of two, one stores while the other multiplies.

    Measured on an H200, November 2026. Only float8 with use_fast_accum is faster in wider tiles; of fp32, one is more
    than shared memory has room for on its way out.
    """
    may_be_wide = a.dtype != torch.int8 and use_fast_accum and out_dtype.itemsize == 2
    is_wide = may_be_wide and cdiv(a.shape[0], 128) * cdiv(b.shape[0], 256) >= sm_count(a)
    block_n, blocks_ahead, num_warps, programs_per_sm = (256, 3, 8, 1) if is_wide else (128, 2, 4, 2)
    stage_bytes = (128 + block_n) * 128
    num_stages = loop_stages(a, stage_bytes, programs_per_sm=programs_per_sm, most_ahead=blocks_ahead)
    return (128, block_n, 128, num_stages, num_warps), programs_per_sm


def _has_large_tiles(a: Tensor, b: Tensor) -> bool:
    """Whether there are tiles of 128 x 128 for every SM, and more than a few rows."""
    return a.shape[0] > 16 and cdiv(a.shape[0], 128) * cdiv(b.shape[0], 128) >= sm_count(a)


def _readable(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both, or copies, with inner stride 1. Where each value is used often, rows are aligned too, and 16 divides K."""
    is_aligned = a.shape[1] % 16 == 0 and rows_are_aligned(a) and rows_are_aligned(b)
    if not is_aligned and min(a.shape[0], b.shape[0]) >= _USES_WORTH_A_COPY:
        return _padded(a), _padded(b)
    return _with_inner_stride_1(a), _with_inner_stride_1(b)


def _padded(matrix: Tensor) -> Tensor:
    """A copy with zeros at the end of each row, which add nothing, until 16 divides its length."""
    n_rows, k = matrix.shape
    copy = torch.zeros((n_rows, 16 * cdiv(k, 16)), dtype=matrix.dtype, device=matrix.device)
    copy[:, :k].copy_(matrix)
    return copy


def _with_inner_stride_1(matrix: Tensor) -> Tensor:
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def quantized_matmul(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor | float,
    b_scale: Tensor | float,
    bias: Tensor | None = None,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
    use_fast_accum: bool = False,
) -> Tensor:
    """(a @ b.T) * a_scale[:, None] * b_scale[None, :] + bias, rounded once to out_dtype. For inference: no gradient.

    b is (N, K), as nn.Linear stores its weight, where matmul takes (K, N). So for an nn.Linear, under torch.no_grad():

        a, a_scale = quantize_rows(x.flatten(0, -2))  # x is (..., K)
        b, b_scale = quantize_rows(linear.weight)
        y = quantized_matmul(a, b, a_scale, b_scale, linear.bias).unflatten(0, x.shape[:-1])

    int8 products are summed exactly. Those of float8 are summed in fp32, on a GPU of compute capability 9.0 as the
    module says; use_fast_accum leaves all of the sum to its tensor cores, as in torch._scaled_mm.
    Where Triton cannot run, quantized_matmul_reference computes.

    Args:
        a: (M, K), int8 or float8_e4m3fn. On a GPU, the current one, as with any Triton launch.
        b: (N, K), of the dtype of a. Rows of a and b that begin and end at multiples of 16 bytes are read where they
            are. Others are copied first, if there are many, and so is a matrix whose inner stride is not 1.
        a_scale: fp32, (M,) or (M, 1), or one value for all rows: a tensor, or a float, for which one more kernel is
            launched.
        b_scale: fp32, (N,) or (1, N), or one value, as a_scale.
        bias: (N,), fp32, fp16 or bf16, or None for none.
        out_dtype: fp32, fp16 or bf16.
        use_fast_accum: for float8 alone: faster, with less exact sums.

    Raises:
        TypeError: for another dtype, or two, or what is no tensor or number.
        ValueError: for another shape, for tensors on several devices, for a scale beyond fp32, for int8 with K above
            131071, or where a gradient is required.
        RuntimeError: for float8 on a GPU without it, of a compute capability below 8.9.
    """
    _check_arguments(a, b, bias, out_dtype)
    a_scale = _checked_scale("a_scale", a_scale, a, (a.shape[0], 1))
    b_scale = _checked_scale("b_scale", b_scale, b, (1, b.shape[0]))
    expect_one_device("quantized_matmul", a=a, b=b, a_scale=a_scale, b_scale=b_scale, bias=bias)
    expect_no_gradient("quantized_matmul", a=a, b=b, a_scale=a_scale, b_scale=b_scale, bias=bias)
    if not runs_triton("quantized_matmul", a):
        return quantized_matmul_reference(a, b, a_scale, b_scale, bias, out_dtype=out_dtype)
    expect_float8_hardware("quantized_matmul", a.dtype, a)
    return quantized_matmul_forward(a, b, a_scale, b_scale, bias, out_dtype, use_fast_accum)


def quantized_matmul_reference(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor | float,
    b_scale: Tensor | float,
    bias: Tensor | None = None,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """The same by plain torch, in fp32, but in float64 where out_dtype is. Sums of integers are exact, in float64."""
    compute_dtype = torch.float64 if out_dtype == torch.float64 else torch.float32
    product_dtype = compute_dtype if a.dtype == torch.float8_e4m3fn else torch.float64
    with without_autocast(a):
        y = (a.to(product_dtype) @ b.to(product_dtype).T).to(compute_dtype)
    y = y * (a_scale.to(compute_dtype).reshape(-1, 1) if isinstance(a_scale, Tensor) else a_scale)
    y = y * (b_scale.to(compute_dtype).reshape(1, -1) if isinstance(b_scale, Tensor) else b_scale)
    return (y if bias is None else y + bias.to(compute_dtype)).to(out_dtype)


def _check_arguments(a: Tensor, b: Tensor, bias: Tensor | None, out_dtype: torch.dtype) -> None:
    expect_dense("quantized_matmul", a=a, b=b)
    expect_quantized("quantized_matmul", "a", a.dtype)
    if b.dtype != a.dtype:
        raise TypeError(f"quantized_matmul: b must have the dtype of a, {a.dtype}, found {b.dtype}")
    expect_floating_or_none("quantized_matmul", bias=bias)
    if out_dtype not in FLOATING:
        raise TypeError(f"quantized_matmul: out_dtype must be float32, float16 or bfloat16, found {out_dtype}")
    if a.ndim != 2:
        raise ValueError(f"quantized_matmul: a must have shape (M, K), found {tuple(a.shape)}")
    if b.ndim != 2 or b.shape[1] != a.shape[1]:
        raise ValueError(f"quantized_matmul: b must have shape (N, {a.shape[1]}), found {tuple(b.shape)}")
    if a.dtype == torch.int8 and a.shape[1] > MAX_INT8_K:
        raise ValueError(
            f"quantized_matmul: K is {a.shape[1]}; int8 sums of at most {MAX_INT8_K} products fit into int32"
        )
    expect_shape("quantized_matmul", "bias", bias, (b.shape[0],))


def _checked_scale(name: str, scale: Tensor | float, of: Tensor, broadcast: tuple[int, int]) -> Tensor:
    """The scale as a tensor, of one dimension, or of none where it is one value.

    A float becomes one by a fill, which waits for nothing. broadcast is the shape of two dimensions that it may have,
    as in torch._scaled_mm.
    """
    if not isinstance(scale, Tensor):
        value = expect_number("quantized_matmul", name, scale)
        if torch.finfo(torch.float32).max < abs(value) < math.inf:
            raise ValueError(f"quantized_matmul: {name} must be a number that float32 has, found {value}")
        return torch.full((), value, dtype=torch.float32, device=of.device)
    expect_dense("quantized_matmul", **{name: scale})
    if scale.dtype != torch.float32:
        raise TypeError(f"quantized_matmul: {name} must be float32, found {scale.dtype}")
    if tuple(scale.shape) in ((), (1,), (1, 1)):
        return scale.reshape(())
    if tuple(scale.shape) != broadcast:
        expect_shape("quantized_matmul", name, scale, (of.shape[0],))
    return scale.reshape(-1)
