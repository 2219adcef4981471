"""Kernels in the styles of public libraries, whose arithmetic can be written in fewer instructions, with the lines that
change. Each `run` takes a matrix and gives a tensor."""

from __future__ import annotations

HEAD = """\
import torch
import triton
import triton.language as tl


"""

#: A group norm that keeps the standard deviation by name, and a root without a name beside it.
NORM = (
    HEAD
    + '''\
@triton.jit
def _norm_kernel(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    """Normalises a row."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    # population variance
    var = tl.sum(x * x, axis=0) / n_cols
    std = tl.sqrt(var + eps)
    rms = 1.0 / tl.math.sqrt(
        var + eps
    )  # once more
    y = (x - 1.0) / std + x * rms + (x / std) * (1 / tl.sqrt(var + 1.0))
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


def run(x):
    y = torch.empty_like(x)
    _norm_kernel[(x.shape[0],)](x, y, x.shape[1], 1e-5, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
'''
)
NORM_CHANGED = [
    "-    std = tl.sqrt(var + eps)",
    "-    rms = 1.0 / tl.math.sqrt(",
    "+    inv_std = tl.rsqrt(var + eps)",
    "+    rms = tl.math.rsqrt(",
    "-    y = (x - 1.0) / std + x * rms + (x / std) * (1 / tl.sqrt(var + 1.0))",
    "+    y = (x - 1.0) * inv_std + x * rms + (x * inv_std) * tl.rsqrt(var + 1.0)",
]

#: Softmax of scaled rows in blocks, as attention and the tutorials have it.
SCALED_SOFTMAX = (
    HEAD
    + """\
@triton.jit
def _softmax_kernel(X, Y, stride, N, sm_scale, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK_N)
    total = tl.zeros([BLOCK_N], dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        s = tl.load(X + row * stride + start + offs, mask=start + offs < N, other=-float("inf")).to(tl.float32)
        p = tl.exp(s * sm_scale)  # not shifted
        total = total * tl.exp(tl.zeros([BLOCK_N], dtype=tl.float32) - 0.0) + p
    denominator = tl.sum(total, axis=0)
    for start in range(0, N, BLOCK_N):
        s = tl.load(X + row * stride + start + offs, mask=start + offs < N, other=0.0).to(tl.float32)
        y = tl.exp(-0.5 * (s - s)) * tl.exp(sm_scale * s) / denominator
        tl.store(Y + row * stride + start + offs, y, mask=start + offs < N)


def run(x):
    y = torch.empty_like(x)
    _softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], 0.3, BLOCK_N=16)
    return y
"""
)
SCALED_SOFTMAX_CHANGED = [
    "+    # exp2 of a scaled argument spares what exp does for subnormal results.",
    "+    LOG2_E: tl.constexpr = 1.4426950408889634",
    "-        p = tl.exp(s * sm_scale)  # not shifted",
    "-        total = total * tl.exp(tl.zeros([BLOCK_N], dtype=tl.float32) - 0.0) + p",
    "+        p = tl.exp2(s * (sm_scale * LOG2_E))  # not shifted",
    "+        total = total * tl.exp2((tl.zeros([BLOCK_N], dtype=tl.float32) - 0.0) * LOG2_E) + p",
    "-        y = tl.exp(-0.5 * (s - s)) * tl.exp(sm_scale * s) / denominator",
    "+        y = tl.exp2((-0.5 * LOG2_E) * (s - s)) * tl.exp2((sm_scale * LOG2_E) * s) / denominator",
]
SOFTMAX_DIVISION_CHANGED = [
    "+    inv_denominator = 1.0 / denominator",
    "-        y = tl.exp(-0.5 * (s - s)) * tl.exp(sm_scale * s) / denominator",
    "+        y = tl.exp(-0.5 * (s - s)) * tl.exp(sm_scale * s) * inv_denominator",
]

#: A column mean over blocks of rows, divided as it goes.
MEAN = (
    HEAD
    + """\
@triton.jit
def _mean_kernel(inp, out, M, N, temperature, TILE: tl.constexpr):
    cols = tl.program_id(0) * TILE + tl.arange(0, TILE)
    acc = tl.zeros((TILE,), dtype=tl.float32)
    for m in range(0, M):
        a = tl.load(inp + m * N + cols, mask=cols < N, other=0.0)
        acc += a.to(tl.float32) / M
        acc += tl.where(acc > 0, acc, 0.0) / temperature / M
    tl.store(out + cols, acc, mask=cols < N)


def run(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    _mean_kernel[(triton.cdiv(x.shape[1], 16),)](x, out, x.shape[0], x.shape[1], 3.0, TILE=16)
    return out
"""
)
MEAN_CHANGED = [
    "+    inv_M = 1.0 / M",
    "+    inv_temperature = 1.0 / temperature",
    "-        acc += a.to(tl.float32) / M",
    "-        acc += tl.where(acc > 0, acc, 0.0) / temperature / M",
    "+        acc += a.to(tl.float32) * inv_M",
    "+        acc += tl.where(acc > 0, acc, 0.0) * inv_temperature * inv_M",
]

#: A product whose operands are converted where they are multiplied, in the loop of the tutorials.
DIRECT_DOT = (
    HEAD
    + """\
@triton.jit
def _gram_kernel(x_ptr, y_ptr, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(x_ptr + rows[:, None] * K + k + ks[None, :])
        b = tl.load(x_ptr + rows[None, :] * K + k + ks[:, None])
        acc += tl.dot(a.to(tl.float32), b.to(tl.float32), allow_tf32=False)  # as precise as it gets
    tl.store(y_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


def run(x):
    y = torch.empty((16, 16), dtype=torch.float32)
    _gram_kernel[(1,)](x, y, 64, BLOCK=16, BLOCK_K=16)
    return y
"""
)
DIRECT_DOT_CHANGED = [
    "-        acc += tl.dot(a.to(tl.float32), b.to(tl.float32), allow_tf32=False)  # as precise as it gets",
    "+        acc += tl.dot(a, b, allow_tf32=False)  # as precise as it gets",
]

#: Operands that are converted where they are loaded, by block pointers and transposed, as in linear attention.
NAMED_DOT = (
    HEAD
    + """\
@triton.jit
def chunk_kernel(q, h, K: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr):
    b_h = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(K // BK):
        p_q = tl.make_block_ptr(q, (BT, K), (K, 1), (0, i_k * BK), (BT, BK), (1, 0))
        b_q = tl.load(p_q).to(tl.float32)
        b_k = tl.load(p_q, boundary_check=(0, 1))
        # in fp32
        b_k = b_k.to(tl.float32)
        b_h = tl.dot(b_q, tl.trans(b_k), acc=b_h)
    o = tl.arange(0, BT)
    tl.store(h + o[:, None] * BT + o[None, :], b_h)


def run(x):
    h = torch.empty((16, 16), dtype=torch.float32)
    chunk_kernel[(1,)](x, h, K=64, BT=16, BK=32)
    return h
"""
)
NAMED_DOT_CHANGED = [
    "-        b_q = tl.load(p_q).to(tl.float32)",
    "+        b_q = tl.load(p_q)",
    "-        # in fp32",
    "-        b_k = b_k.to(tl.float32)",
]
