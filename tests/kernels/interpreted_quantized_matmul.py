"""Runs the quantized matmul's kernels on CPU tensors under TRITON_INTERPRET=1 and prints their largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import torch
from torch import Tensor

from warpsmith.kernels.quantize_rows import quantize_rows, quantize_rows_reference
from warpsmith.kernels.quantized_matmul import (
    quantized_matmul,
    quantized_matmul_reference,
)

#: Few rows; tiles of 64; tiles of 128 through TMA, in groups and partly filled; a depth that is no multiple of 16, of
#: many rows and of few; one row, one column, no depth, nothing.
SHAPES = (
    (5, 37, 64),
    (16, 40, 1040),
    (70, 66, 272),
    (140, 301, 144),
    (1100, 130, 32),
    (139, 263, 101),
    (40, 301, 101),
    (1, 1, 1),
    (3, 4, 0),
    (0, 4, 16),
    (4, 0, 16),
)
LAYOUTS = ("contiguous", "strided", "one scale, no bias", "transposed")
QUANTIZED = (torch.int8, torch.float8_e4m3fn)
DTYPES = (torch.float32, torch.float16)


def largest_error(shape: tuple[int, int, int], quantized: torch.dtype, out_dtype: torch.dtype, layout: str) -> float:
    """Largest difference to float64, as a share of 1 + what is expected and of the products that are summed."""
    n_rows, n_cols, depth = shape
    a, a_scale = drawn(n_rows, depth, quantized, layout, 1)
    b, b_scale = drawn(n_cols, depth, quantized, layout, 2)
    bias: Tensor | None = torch.randn(n_cols, generator=torch.Generator().manual_seed(3)).to(out_dtype)
    if layout == "one scale, no bias":
        a_scale, b_scale, bias = a_scale.new_tensor(0.01), b_scale.new_tensor([0.02]), None
    y = quantized_matmul(a, b, a_scale, b_scale, bias, out_dtype=out_dtype)
    exact = quantized_matmul_reference(a, b, a_scale, b_scale, bias, out_dtype=torch.float64)
    assert y.shape == exact.shape == (n_rows, n_cols) and y.dtype == out_dtype
    if not exact.numel():
        return 0.0
    sums = quantized_matmul_reference(a.double().abs(), b.double().abs(), a_scale, b_scale, out_dtype=torch.float64)
    return float(((y.double() - exact).abs() / (1.0 + exact.abs() + sums)).max())


def drawn(n_rows: int, depth: int, quantized: torch.dtype, layout: str, seed: int) -> tuple[Tensor, Tensor]:
    x = torch.randn((n_rows, depth), generator=torch.Generator().manual_seed(seed))
    q, scale = quantize_rows_reference(x, quantized)
    if layout == "strided":
        q = torch.cat((q, q), dim=1)[:, :depth]
    elif layout == "transposed":
        q = q.T.contiguous().T
    return q, scale


def launches_of_both_kernels() -> set[str]:
    """Which of the two are launched from now on, by the names of what launches them."""
    module, launched = vars(sys.modules["warpsmith.kernels.quantized_matmul"]), set()
    for name in ("_launch", "_launch_tma"):

        def launch(*given: Any, name: str = name, own: Any = module[name]) -> None:
            launched.add(name)
            own(*given)

        module[name] = launch
    return launched


def extreme_products_differ() -> float:
    """1.0 where -128 · -128, summed to nearly 2³¹, is not exact."""
    a = torch.full((1, 131071), -128, dtype=torch.int8)
    y = quantized_matmul(a, a, 1.0, 1.0, out_dtype=torch.float32)
    return 0.0 if (y == torch.tensor(131071 * 128**2, dtype=torch.float32)).all() else 1.0


def quantization_differs(shape: torch.Size, dtype: torch.dtype, strided: bool) -> float:
    """1.0 where q or scale is not to the bit what torch makes of the rows, special ones among them."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    if shape[0] == 6:
        x[0] = 0.0
        x[1, 2], x[2, -1], x[3, 0] = torch.nan, torch.inf, -torch.inf
        x[4] *= 1e-44 if dtype == torch.float32 else 1e-6
        # Quotients by a scale of 1 that lie half way between two integers.
        x[5] = torch.arange(shape[-1]).remainder(120) + 0.5
        x[5, 0] = 127.0
    if strided:
        x = torch.cat((x, x), dim=-1)[..., : shape[-1]]
    q, scale = quantize_rows(x)
    expected_q, expected_scale = quantize_rows_reference(x)
    assert q.shape == x.shape and q.is_contiguous() and scale.shape == (shape[:-1].numel(),)
    same = torch.equal(scale.nan_to_num(-1.0), expected_scale.nan_to_num(-1.0)) and torch.equal(q, expected_q)
    return 0.0 if same else 1.0


def main() -> None:
    # So that these are large enough for a copy.
    vars(sys.modules["warpsmith.kernels.quantized_matmul"])["_USES_WORTH_A_COPY"] = 128
    launched = launches_of_both_kernels()
    errors = {"extreme products": extreme_products_differ()}
    for shape, layout in itertools.product(SHAPES, LAYOUTS):
        if layout == "contiguous" or max(shape) < 300:
            for quantized, dtype in itertools.product(QUANTIZED, DTYPES):
                name = f"{'x'.join(map(str, shape))}-{named(quantized)}-{named(dtype)}-{layout}"
                errors[name] = largest_error(shape, quantized, dtype, layout)
    shapes = ((7, 40), (2, 3, 37), (6, 40), (6, 8199), (1, 20011), (1,), (0, 16), (3, 0))
    for columns, dtype, strided in itertools.product(shapes, DTYPES, (False, True)):
        name = f"quantize-{'x'.join(map(str, columns))}-{named(dtype)}-strided={strided}"
        errors[name] = quantization_differs(torch.Size(columns), dtype, strided)
    assert launched == {"_launch", "_launch_tma"}
    json.dump(errors, sys.stdout)


def named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


if __name__ == "__main__":
    main()
