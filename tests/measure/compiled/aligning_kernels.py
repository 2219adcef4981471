"""Copies of rows whose addresses or masks the compiler can or cannot follow to a multiple of 16."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def given(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n)
    tl.store(y_ptr + row * stride + cols, x, mask=cols < n)


@triton.jit
def stepped(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * (stride // 2)
    while at < n * stride:
        x = tl.load(x_ptr + at + cols, mask=cols < n)
        tl.store(y_ptr + at + cols, x, mask=cols < n)
        at += stride


@triton.jit
def row_from_memory(x_ptr, y_ptr, rows_ptr, n, BLOCK: tl.constexpr):
    row, cols = tl.load(rows_ptr + tl.program_id(0)), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n)
    tl.store(y_ptr + row * n + cols, x, mask=cols < n)


@triton.jit
def offset_from_memory(x_ptr, y_ptr, starts_ptr, n, BLOCK: tl.constexpr):
    start, cols = tl.load(starts_ptr + tl.program_id(0)), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + start + cols, mask=cols < n)
    tl.store(y_ptr + start + cols, x, mask=cols < n)


@triton.jit
def offset_from_memory_told(x_ptr, y_ptr, starts_ptr, n, BLOCK: tl.constexpr):
    start, cols = tl.multiple_of(tl.load(starts_ptr + tl.program_id(0)), 16), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + start + cols, mask=cols < n)
    tl.store(y_ptr + start + cols, x, mask=cols < n)


@triton.jit
def width_from_memory(x_ptr, y_ptr, widths_ptr, stride, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    width = tl.load(widths_ptr + row)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < width)
    tl.store(y_ptr + row * stride + cols, x, mask=cols < width)


@triton.jit
def width_from_memory_told(x_ptr, y_ptr, widths_ptr, stride, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    width = tl.multiple_of(tl.load(widths_ptr + row), 16)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < width)
    tl.store(y_ptr + row * stride + cols, x, mask=cols < width)


@triton.jit
def divided(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + n // 3 + cols)
    tl.store(y_ptr + row * stride + n // 3 + cols, x)


@triton.jit
def folded(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    cols = tl.where(cols < n, cols, 0)
    tl.store(y_ptr + row * stride + cols, tl.load(x_ptr + row * stride + cols))


@triton.jit
def wrapped(x_ptr, y_ptr, period, n, BLOCK: tl.constexpr):
    cols = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) % period
    tl.store(y_ptr + cols, tl.load(x_ptr + cols))


@triton.jit
def pointer_from_memory(pointers_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x_ptr = tl.load(pointers_ptr + tl.program_id(0)).to(tl.pointer_type(tl.bfloat16))
    tl.store(y_ptr + tl.program_id(0) * stride + cols, tl.load(x_ptr + cols))


@triton.jit
def interleaved(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.store(y_ptr + cols, tl.load(x_ptr + 2 * cols) + tl.load(x_ptr + 2 * cols + 1))


@triton.jit
def loaded_as_a_run(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    run = tl.reshape(tl.load(x_ptr + tl.arange(0, 2 * BLOCK)), (BLOCK, 2))
    even, odd = tl.split(run)
    tl.store(y_ptr + tl.arange(0, BLOCK), even + odd)
