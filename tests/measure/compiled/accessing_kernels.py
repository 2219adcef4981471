"""Kernels whose accesses are known, each line of interest with a name of its own in a comment."""

from __future__ import annotations

import triton
import triton.language as tl
from accessing_elsewhere import load_elsewhere


@triton.jit
def rows_kernel(x_ptr, y_ptr, n, row_stride, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + at, mask=at < n, other=0.0)  # rows: load
    tl.store(y_ptr + row * row_stride + at, x * 2, mask=at < n)  # rows: store


@triton.jit
def transposed_kernel(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at * stride))  # transposed


@triton.jit
def hinted_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, eviction_policy="evict_last")  # hinted: kept
    y = tl.load(y_ptr + at, cache_modifier=".cg")  # hinted: past L1
    tl.store(y_ptr + at, x + y, cache_modifier=".cs")  # hinted: streamed


@triton.jit
def _load(pointer, at):
    return tl.load(pointer + at)  # helper: load


@triton.jit(noinline=True)
def _store_apart(pointer, at, value):
    tl.store(pointer + at, value)  # helper: apart


@triton.jit
def helped_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = _load(x_ptr, at)
    x += _load(y_ptr, at)
    total = tl.sum(x)
    x += load_elsewhere(x_ptr + BLOCK, at)  # helped: elsewhere
    tl.store(y_ptr + at, x)  # helped: store
    _store_apart(y_ptr, n, total)


@triton.jit
def atomic_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)  # atomic: load
    tl.atomic_add(y_ptr + at, x, sem="relaxed")  # atomic: add
    tl.atomic_xchg(y_ptr, 1.0)  # atomic: exchange


@triton.jit
def printing_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.device_print("x", tl.load(x_ptr + tl.arange(0, BLOCK)))  # printing: load


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, SIZE: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    columns = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    inner = tl.arange(0, DEPTH)
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for start in range(0, K, DEPTH):
        a = tl.load(a_ptr + rows[:, None] * K + start + inner[None, :])  # matmul: a
        b = tl.load(b_ptr + (start + inner)[:, None] * N + columns[None, :])  # matmul: b
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16))  # matmul: c


@triton.jit
def descriptor_kernel(x_ptr, y_ptr, M, N, SIZE: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [SIZE, SIZE])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [SIZE, SIZE])
    at = [tl.program_id(0) * SIZE, tl.program_id(1) * SIZE]
    y.store(at, x.load(at))  # descriptor
