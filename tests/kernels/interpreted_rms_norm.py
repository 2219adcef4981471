"""Runs the RMSNorm kernels on CPU tensors under TRITON_INTERPRET=1 and prints their largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import itertools
import json
import sys
from types import SimpleNamespace
from typing import Any

import torch

from warpsmith.kernels.rms_norm import rms_norm_backward, rms_norm_forward, rms_norm_reference

SHAPES = ((5, 37), (1, 128), (2, 3, 64), (4, 1), (0, 16))
CONVENTIONS = (("llama", 0.0), ("gemma", 1.0))
EPS = 1e-6


def largest_errors(
    shape: tuple[int, ...], dtype: torch.dtype, casting: str, offset: float, has_weight: bool
) -> dict[str, float]:
    """Largest absolute difference to float64 of y, dx and dw."""
    generator = torch.Generator().manual_seed(0)
    x, dy = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    weight = (1.0 - offset + 0.1 * torch.randn(shape[-1], generator=generator)).to(dtype) if has_weight else None
    y, rstd = rms_norm_forward(x, weight, EPS, offset, casting)
    dx, dw = rms_norm_backward(dy, x, weight, rstd, offset, casting)

    exact_x = x.double().requires_grad_()
    exact_weight = None if weight is None else weight.double().requires_grad_()
    exact_y = rms_norm_reference(exact_x, exact_weight, EPS, offset, casting)
    exact_y.backward(dy.double())
    pairs = {"y": (y, exact_y), "dx": (dx, exact_x.grad)}
    if exact_weight is not None:
        pairs["dw"] = (dw, exact_weight.grad)
    return {name: _largest(found, exact) for name, (found, exact) in pairs.items()}


def _largest(found: Any, exact: Any) -> float:
    assert found.shape == exact.shape, (found.shape, exact.shape)
    difference = (found.double() - exact).abs()
    return float(difference.max()) if difference.numel() else 0.0


def main() -> None:
    # Three programs for up to six rows: a program with several rows, one with fewer.
    facts = SimpleNamespace(multi_processor_count=3, major=9, minor=0)
    torch.cuda.get_device_properties = lambda device: facts  # type: ignore[assignment]
    torch.cuda.get_device_capability = lambda device=None: (9, 0)  # type: ignore[assignment]
    errors = {}
    for shape, dtype, (casting, offset), has_weight in itertools.product(
        SHAPES, (torch.float32, torch.float16), CONVENTIONS, (True, False)
    ):
        name = f"{'x'.join(map(str, shape))}-{str(dtype).removeprefix('torch.')}-{casting}-weight={has_weight}"
        errors[name] = largest_errors(shape, dtype, casting, offset, has_weight)
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
