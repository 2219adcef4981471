"""Runs the LayerNorm kernels on CPU tensors under TRITON_INTERPRET=1 and prints their largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from typing import Any

import torch

#: By its name: the package's attribute of that name is the function.
module = importlib.import_module("warpsmith.kernels.layer_norm")

#: The last is summed apart from dx, as wide rows are.
SHAPES = ((5, 37), (1, 128), (2, 3, 64), (4, 1), (0, 16), (19, 300))
PARAMETERS = ((True, True), (True, False), (False, True), (False, False))
EPS = 1e-5


def largest_errors(shape: tuple[int, ...], dtype: torch.dtype, parameters: tuple[bool, bool]) -> dict[str, float]:
    """Largest absolute difference to float64 of y, dx, dw and db."""
    generator = torch.Generator().manual_seed(0)
    # A mean of 3 and rows that are views of wider ones.
    wide = 3.0 + torch.randn((*shape[:-1], 2 * shape[-1]), generator=generator)
    x, dy = wide.to(dtype)[..., : shape[-1]], torch.randn(shape, generator=generator).to(dtype)
    weight = (1.0 + 0.1 * torch.randn(shape[-1], generator=generator)).to(dtype) if parameters[0] else None
    bias = torch.randn(shape[-1], generator=generator).to(dtype) if parameters[1] else None
    y, mean, rstd = module.layer_norm_forward(x, weight, bias, EPS)
    dw_dtype, db_dtype = (None if parameter is None else torch.float32 for parameter in (weight, bias))
    dx, dw, db = module.layer_norm_backward(dy, x, weight, mean, rstd, dw_dtype=dw_dtype, db_dtype=db_dtype)
    # Without dx, the sums are those of another kernel.
    _, dw_alone, db_alone = module.layer_norm_backward(
        dy, x, weight, mean, rstd, needs_dx=False, dw_dtype=dw_dtype, db_dtype=db_dtype
    )

    exact_x, exact_weight, exact_bias = (
        None if tensor is None else tensor.double().requires_grad_() for tensor in (x, weight, bias)
    )
    exact_y = module.layer_norm_reference(exact_x, exact_weight, exact_bias, EPS)
    exact_y.backward(dy.double())
    pairs = {"y": (y, exact_y), "dx": (dx, exact_x.grad)}
    if exact_weight is not None:
        pairs |= {"dw": (dw, exact_weight.grad), "dw_alone": (dw_alone, exact_weight.grad)}
    if exact_bias is not None:
        pairs |= {"db": (db, exact_bias.grad), "db_alone": (db_alone, exact_bias.grad)}
    return {name: _largest(found, exact) for name, (found, exact) in pairs.items()}


def _largest(found: Any, exact: Any) -> float:
    assert found.shape == exact.shape, (found.shape, exact.shape)
    difference = (found.double() - exact).abs()
    return float(difference.detach().max()) if difference.numel() else 0.0


def main() -> None:
    module.MAX_SUMMED_COLUMNS = 256
    errors = {}
    for shape, dtype, parameters in itertools.product(SHAPES, (torch.float32, torch.float16), PARAMETERS):
        name = f"{'x'.join(map(str, shape))}-{str(dtype).removeprefix('torch.')}-weight,bias={parameters}"
        errors[name] = largest_errors(shape, dtype, parameters)
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
