"""Matrix product with an epilogue: the Triton kernels that compute it, and the autograd function over them.

For a (M, K), b (K, N) and a bias of N values, without which it is 0,

    z = a · b + bias
    c = act(z)            act: none, SiLU, or GELU in either form

A program sums a tile of c over K, in blocks, on tensor cores. Tiles are taken in groups of a few rows of tiles, down
each column of a group, so that programs at work together share blocks of a and b in L2, as in Triton's tutorial 03.

Products of fp16 and bf16 are exact. Those of fp32 depend on precision: "ieee" takes fp32 multiply-adds, without tensor
cores; "tf32" rounds a and b to 10 bits of mantissa first. Sums and the epilogue are always fp32; c is rounded once.

Backward, from dc. Where there is an activation, the forward pass stores z beside c: in the dtype of a, rounded once,
from the same fp32 value as c. In fp16, a finite z beyond the range is stored as ±65504. With dz = dc · act'(z),
elementwise, rounded to the dtype of a,

    da    = dz · bᵀ
    db    = aᵀ · dz
    dbias = Σ over rows of dz

the first two by the same kernels.

There are two kernels. One reads through TMA (from compute capability 9.0 on) 16-bit values, in rows that are aligned
to 16 bytes. The other reads any strides through pointers; torch.compile, which cannot ask how a tensor is aligned,
always takes it.

Owns the kernels, how they are launched and the plain torch reference. Must not know the rest of warpsmith.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional
from triton.tools.tensor_descriptor import TensorDescriptor

from warpsmith.kernels.arguments import (
    as_autocast_has_them,
    block_holding,
    cdiv,
    distinct,
    expect_choice,
    expect_floating,
    expect_floating_or_none,
    expect_one_device,
    expect_shape,
    runs_triton,
    sm_count,
    without_autocast,
)
from warpsmith.kernels.first_order import first_order
from warpsmith.kernels.gelu import gelu
from warpsmith.kernels.tiles import place_of_tile
from warpsmith.kernels.tma import rows_are_aligned, tma_reads

#: gelu is exact, gelu_tanh its approximation.
ACTIVATIONS = ("none", "silu", "gelu", "gelu_tanh")
PRECISIONS = ("ieee", "tf32")

#: Rows of tiles in a group. Chosen, as in Triton's tutorial 03.
_GROUP_ROWS = 8
#: With fewer tiles, smaller ones, for more SMs at work. Chosen: three in four of an H200's 132.
_ENOUGH_TILES = 100
#: What tiles of 128 x 256 take of shared memory: four stages of blocks of 64 of a and b, half a tile of c, all of 16
#: bits, and barriers. As Triton compiles them.
LARGEST_TILES_BYTES = 4 * (128 + 256) * 64 * 2 + 128 * 256 + 64
#: Where each value is multiplied at least this often, unaligned rows are copied to aligned ones, as they would be
#: loaded value by value. Chosen: a copy takes about as long as unaligned rows cost in 120 multiplications.
_USES_WORTH_A_COPY = 512


@triton.jit
def _matmul_kernel(
    a_ptr,  # (m, k)
    a_row_stride,
    a_col_stride,
    b_ptr,  # (k, n), the dtype of a
    b_row_stride,
    b_col_stride,
    bias_ptr,  # (n,), contiguous, or None
    c_ptr,  # (m, n), contiguous, the dtype of a
    z_ptr,  # (m, n), contiguous, the dtype of a, or None
    m,
    n,
    k,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    K_IS_EVEN: tl.constexpr,  # whether BLOCK_K divides k
    GROUP_ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One program computes one tile."""
    tile_m, tile_n = place_of_tile(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_ROWS)
    # Rows and columns beyond the end are some others again, which are not stored: masks would cost in every block.
    # By %, after which Triton still knows which are neighbours: either stride may be the one that is 1.
    rows = ((tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % m).to(tl.int64)
    cols = ((tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % n).to(tl.int64)
    inner = tl.arange(0, BLOCK_K).to(tl.int64)
    a_ptrs = a_ptr + rows[:, None] * a_row_stride + inner[None, :] * a_col_stride
    b_ptrs = b_ptr + inner[:, None] * b_row_stride + cols[None, :] * b_col_stride
    a_step = tl.cast(a_col_stride, tl.int64) * BLOCK_K
    b_step = tl.cast(b_row_stride, tl.int64) * BLOCK_K

    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(0, k, BLOCK_K):
        if K_IS_EVEN:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=inner[None, :] < k - start, other=0.0)
            b = tl.load(b_ptrs, mask=inner[:, None] < k - start, other=0.0)
        sums = tl.dot(a, b, sums, input_precision=PRECISION)
        a_ptrs += a_step
        b_ptrs += b_step
    _store_tile(sums, tile_m * BLOCK_M, tile_n * BLOCK_N, bias_ptr, c_ptr, z_ptr, m, n, ACTIVATION)


@triton.jit
def _matmul_tma_kernel(
    a_rows,  # descriptor of a, (m, k), or of aᵀ, whichever has inner stride 1
    b_rows,  # descriptor of b, (k, n), or of bᵀ, likewise
    bias_ptr,  # (n,), contiguous, or None
    c_ptr,  # (m, n), contiguous, the dtype of a
    z_ptr,  # (m, n), contiguous, the dtype of a, or None
    m,
    n,
    k,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
    ACTIVATION: tl.constexpr,
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

        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in tl.range(0, k, BLOCK_K):
            a = a_rows.load([start, row]).T if A_TRANSPOSED else a_rows.load([row, start])
            b = b_rows.load([col, start]).T if B_TRANSPOSED else b_rows.load([start, col])
            sums = tl.dot(a, b, sums)
        _store_tile(sums, row, col, bias_ptr, c_ptr, z_ptr, m, n, ACTIVATION)


@triton.jit
def _store_tile(sums, first_row, first_col, bias_ptr, c_ptr, z_ptr, m, n, ACTIVATION: tl.constexpr):
    """The epilogue. sums is fp32."""
    # In 64 bits from the start: neighbours' addresses differ by a constant then, which takes no register.
    rows = first_row.to(tl.int64) + tl.arange(0, sums.shape[0])[:, None]
    cols = first_col.to(tl.int64) + tl.arange(0, sums.shape[1])[None, :]
    mask = (rows < m) & (cols < n)
    at = rows * n + cols

    z = sums
    if bias_ptr is not None:
        z += tl.load(bias_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    if z_ptr is not None:
        kept = z
        if z_ptr.dtype.element_ty == tl.float16:
            # Beyond fp16 act has a derivative yet, which that of infinity, NaN, is not.
            kept = tl.where(tl.abs(z) < float("inf"), tl.minimum(tl.maximum(z, -65504.0), 65504.0), z)
        tl.store(z_ptr + at, kept.to(z_ptr.dtype.element_ty), mask=mask)
    c = z
    if ACTIVATION == "silu":
        c = z / (1.0 + tl.exp(-z))
    elif ACTIVATION == "gelu":
        c = gelu(z, False)
    elif ACTIVATION == "gelu_tanh":
        c = gelu(z, True)
    tl.store(c_ptr + at, c.to(c_ptr.dtype.element_ty), mask=mask)


def matmul_forward(
    a: Tensor, b: Tensor, bias: Tensor | None, activation: str, precision: str, *, keeps_z: bool = False
) -> tuple[Tensor, Tensor | None]:
    """c, (M, N), contiguous, of the dtype of a, and z, the same before the activation, or None where it is not kept.

    a is (M, K), b (K, N) of the same dtype, bias (N,) and contiguous or None.
    """
    a, b = _readable(a, b.shape[1]), _readable(b, a.shape[0])
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    z = torch.empty_like(c) if keeps_z else None
    if c.numel() > 0:
        if _is_for_tma(a) and _is_for_tma(b):
            _launch_tma(a, b, bias, c, z, activation)
        else:
            _launch(a, b, bias, c, z, activation, precision)
    return c, z


def _launch(
    a: Tensor, b: Tensor, bias: Tensor | None, c: Tensor, z: Tensor | None, activation: str, precision: str
) -> None:
    (m, n), k = c.shape, a.shape[1]
    block_m, block_n, block_k, num_stages, num_warps = _tile_settings(a, n, precision)
    _matmul_kernel[(cdiv(m, block_m) * cdiv(n, block_n),)](
        a,
        a.stride(0),
        a.stride(1),
        b,
        b.stride(0),
        b.stride(1),
        bias,
        c,
        z,
        m,
        n,
        k,
        ACTIVATION=activation,
        PRECISION=precision,
        K_IS_EVEN=not k % block_k,
        GROUP_ROWS=_GROUP_ROWS,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        num_stages=num_stages,
        num_warps=num_warps,
    )


def _launch_tma(a: Tensor, b: Tensor, bias: Tensor | None, c: Tensor, z: Tensor | None, activation: str) -> None:
    (m, n), k = c.shape, a.shape[1]
    block_m, block_n, block_k, num_stages, num_warps = _tile_settings(a, n, "ieee")
    a_transposed, b_transposed = a.stride(1) != 1, b.stride(1) != 1
    a_block, b_block = [block_m, block_k], [block_k, block_n]
    programs = min(_programs_per_sm(block_m) * sm_count(a), cdiv(m, block_m) * cdiv(n, block_n))
    _matmul_tma_kernel[(programs,)](
        TensorDescriptor.from_tensor(a.T, a_block[::-1]) if a_transposed else TensorDescriptor.from_tensor(a, a_block),
        TensorDescriptor.from_tensor(b.T, b_block[::-1]) if b_transposed else TensorDescriptor.from_tensor(b, b_block),
        bias,
        c,
        z,
        m,
        n,
        k,
        A_TRANSPOSED=a_transposed,
        B_TRANSPOSED=b_transposed,
        ACTIVATION=activation,
        GROUP_ROWS=_GROUP_ROWS,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        num_stages=num_stages,
        num_warps=num_warps,
    )


def _tile_settings(a: Tensor, n: int, precision: str) -> tuple[int, int, int, int, int]:
    """(BLOCK_M, BLOCK_N, BLOCK_K, num_stages, num_warps)."""
    m, is_fp32, roomy = a.shape[0], a.dtype == torch.float32, _has_much_shared_memory(a)
    if m <= 64:
        # Few rows: reading b takes the time, so tiles are narrow, to have some on every SM, and long.
        block_k = 64 if is_fp32 or not roomy else 256 if m <= 32 else 128
        return max(block_holding(m), 16), 32, block_k, 4, 4
    if n <= 64:
        return 64, max(block_holding(n), 16), 32 if is_fp32 or not roomy else 128, 4, 4
    fills_the_gpu = cdiv(m, 128) * cdiv(n, 128) >= _ENOUGH_TILES
    if is_fp32 and precision == "ieee":
        return (128, 128, 16, 3, 8) if fills_the_gpu else (64, 64, 16, 3, 4)
    if is_fp32 or not roomy:
        return (128, 128, 32, 3, 8) if fills_the_gpu else (64, 64, 32, 4, 4)
    if cdiv(m, 128) * cdiv(n, 256) >= _ENOUGH_TILES:
        return 128, 256, 64, 4, 8
    return (128, 128, 64, 4, 8) if fills_the_gpu else (64, 64, 64, 4, 4)


def _has_much_shared_memory(a: Tensor) -> bool:
    """Whether a program can have what the largest tiles take, as from compute capability 9.0 on."""
    if not a.is_cuda:
        return True
    properties: Any = torch.cuda.get_device_properties(a.device)
    return bool(properties.shared_memory_per_block_optin >= LARGEST_TILES_BYTES)


def _programs_per_sm(block_m: int) -> int:
    """How many programs that read through TMA are at work on an SM at once."""
    return 2 if block_m <= 64 else 1


def _is_for_tma(matrix: Tensor) -> bool:
    """Whether the kernel that reads through TMA takes it: of 16-bit values, for precision is of fp32 alone."""
    return matrix.element_size() == 2 and tma_reads(_as_rows_of_stride_1(matrix))


def _readable(matrix: Tensor, uses: int) -> Tensor:
    """The matrix, if one stride is 1 and rows of 16-bit values are aligned; else a copy for which both hold.

    uses is how often each value is multiplied. Where that is seldom, unaligned rows are not copied.
    """
    if matrix.stride(0) != 1 and matrix.stride(1) != 1:
        matrix = matrix.contiguous()
    rows = _as_rows_of_stride_1(matrix)
    if matrix.element_size() != 2 or uses < _USES_WORTH_A_COPY or rows_are_aligned(rows):
        return matrix
    n_cols = rows.shape[1]
    copy = torch.empty((rows.shape[0], 8 * cdiv(n_cols, 8)), dtype=rows.dtype, device=rows.device)[:, :n_cols]
    copy.copy_(rows)
    return copy if matrix.stride(1) == 1 else copy.T


def _as_rows_of_stride_1(matrix: Tensor) -> Tensor:
    return matrix if matrix.stride(1) == 1 else matrix.T


class MatmulFunction(torch.autograd.Function):
    """Matrix product on a GPU. Gradients of a, b and bias; of the first order only."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, bias: Tensor | None, activation: str, precision: str, needs_gradient: bool
    ) -> Tensor:
        keeps_z = needs_gradient and activation != "none"
        c, z = matmul_forward(a, b, bias, activation, precision, keeps_z=keeps_z)
        # The bias for its dtype: it is a parameter and takes no memory of its own.
        ctx.save_for_backward(a, b, bias, z)
        ctx.activation, ctx.precision = activation, precision
        return c

    @staticmethod
    @first_order
    def backward(ctx: Any, dc: Tensor) -> tuple[Tensor | None, ...]:
        a, b, bias, z = ctx.saved_tensors
        needs_da, needs_db, needs_dbias = ctx.needs_input_grad[:3]
        dz = dc if z is None else _activation_backward(dc, z, ctx.activation)
        da = matmul_forward(dz, b.T, None, "none", ctx.precision)[0] if needs_da else None
        db = matmul_forward(a.T, dz, None, "none", ctx.precision)[0] if needs_db else None
        dbias = dz.sum(0, dtype=torch.float32).to(bias.dtype) if needs_dbias else None
        return da, db, dbias, None, None, None


def _activation_backward(dc: Tensor, z: Tensor, activation: str) -> Tensor:
    """dz, of the dtype of both, by torch, whose kernels compute in fp32 and round once."""
    if activation == "silu":
        dz: Tensor = torch.ops.aten.silu_backward(dc, z)
    else:
        dz = torch.ops.aten.gelu_backward(dc, z, approximate="tanh" if activation == "gelu_tanh" else "none")
    return dz


def matmul(
    a: Tensor, b: Tensor, bias: Tensor | None = None, *, activation: str = "none", precision: str = "ieee"
) -> Tensor:
    """act(a · b + bias), summed and activated in fp32 and rounded once.

    The output, (..., N), contiguous, has the dtype of a. torch.autocast casts a and b to its own, as it does for
    torch.matmul, but not the bias. b may be a transposed weight, such as linear.weight.T; it is read where it is. Where
    there is an activation and a gradient is needed, its argument is kept in the dtype of a. Tensors on which Triton
    cannot run are computed by matmul_reference.
    Large fp16 and bf16 matrices whose rows are not aligned to 16 bytes, as of an odd length, are copied first.

    Args:
        a: (..., K), fp32, fp16 or bf16; read where it is if one of its last two strides is 1. On a GPU, the current
            one, as with any Triton launch.
        b: (K, N), of the dtype of a.
        bias: (N,), fp32, fp16 or bf16, or None for none.
        activation: "none", "silu", "gelu" (exact) or "gelu_tanh".
        precision: of products of fp32, forward and backward: "ieee" for fp32's own, without tensor cores, or "tf32"
            for tensor cores, which round a and b to 10 bits of mantissa. Products of fp16 and bf16 are exact in both.
            torch's own setting, torch.backends.cuda.matmul, is not asked.

    Raises:
        TypeError: for another dtype, or two of a and b.
        ValueError: for another shape, activation or precision, or tensors on several devices.
    """
    expect_floating("matmul", a=a, b=b)
    a, b = as_autocast_has_them(a, b)
    _check_arguments(a, b, bias, activation, precision)
    if not runs_triton("matmul", a):
        return matmul_reference(a, b, bias, activation)
    rows = a.flatten(0, -2) if a.ndim > 1 else a[None]
    bias = None if bias is None else bias.contiguous()
    needs_gradient = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (a, b, bias))
    c: Tensor = MatmulFunction.apply(rows, distinct(b, rows), bias, activation, precision, needs_gradient)
    return c.view(*a.shape[:-1], b.shape[1])


def matmul_reference(a: Tensor, b: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """The same by plain, differentiable torch, in fp32, but in float64 where a is float64."""
    compute_dtype = torch.float64 if a.dtype == torch.float64 else torch.float32
    with without_autocast(a):
        z = a.to(compute_dtype) @ b.to(compute_dtype)
    if bias is not None:
        z = z + bias.to(compute_dtype)
    return activate(z, activation).to(a.dtype)


def activate(z: Tensor, activation: str) -> Tensor:
    """act(z), (...), by torch. Raises KeyError for another activation."""
    if activation == "none":
        return z
    if activation == "silu":
        return functional.silu(z)
    return functional.gelu(z, approximate={"gelu": "none", "gelu_tanh": "tanh"}[activation])


def _check_arguments(a: Tensor, b: Tensor, bias: Tensor | None, activation: str, precision: str) -> None:
    expect_choice("matmul", "activation", activation, ACTIVATIONS)
    expect_choice("matmul", "precision", precision, PRECISIONS)
    expect_floating_or_none("matmul", bias=bias)
    if b.dtype != a.dtype:
        raise TypeError(f"matmul: b must have the dtype of a, {a.dtype}, found {b.dtype}")
    if a.ndim == 0 or b.ndim != 2 or a.shape[-1] != b.shape[0]:
        raise ValueError(f"matmul: a must be (..., K) and b (K, N), found {tuple(a.shape)} and {tuple(b.shape)}")
    expect_shape("matmul", "bias", bias, (b.shape[1],))
    expect_one_device("matmul", a=a, b=b, bias=bias)
