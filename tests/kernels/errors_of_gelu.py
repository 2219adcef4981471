"""Runs GELU and its derivative as kernels have them on a dense grid, and prints their largest errors as JSON.

    python errors_of_gelu.py DEVICE      cpu under TRITON_INTERPRET=1, or cuda

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from warpsmith.kernels.gelu import APPROXIMATIONS, gelu, gelu_derivative

#: Where torch's own exact GELU, of fp32, has lost every digit.
FAR = -5.4


@triton.jit
def _gelu_kernel(x_ptr, y_ptr, dy_ptr, TANH: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, gelu(x, TANH))
    tl.store(dy_ptr + at, gelu_derivative(x, TANH))


def run(x: Tensor, approximate: str) -> tuple[Tensor, Tensor]:
    y, derivative = torch.empty_like(x), torch.empty_like(x)
    block = 4096
    assert x.numel() % block == 0
    _gelu_kernel[(x.numel() // block,)](x, y, derivative, TANH=approximate == "tanh", BLOCK=block)
    return y, derivative


def largest_errors(device: str, approximate: str) -> dict[str, Any]:
    """Of the value and the derivative, as shares of 1 + |x|; of the value, from FAR to 0, as a share of it."""
    x = torch.linspace(-14, 14, 4096 * 64, device=device)
    exact_x = x.double().requires_grad_()
    exact_y = functional.gelu(exact_x, approximate=approximate)
    (exact_derivative,) = torch.autograd.grad(exact_y.sum(), exact_x)
    if approximate == "none":  # by erfc: torch's double, too, cancels in the tail
        exact_y = exact_x * torch.special.erfc(-exact_x * 0.5**0.5) / 2
    exact_x, exact_y = exact_x.detach(), exact_y.detach()
    y, derivative = run(x, approximate)
    size, tail = 1 + exact_x.abs(), (x < 0) & (x > FAR)
    return {
        "value": float(((y - exact_y).abs() / size).max()),
        "derivative": float(((derivative - exact_derivative).abs() / size).max()),
        "tail": float(((y - exact_y).abs() / exact_y.abs())[tail].max()),
        "torch's tail": float(((functional.gelu(x) - exact_y).abs() / exact_y.abs())[tail].max()),
    }


def at_extremes(device: str, approximate: str) -> list[list[str]]:
    """Value and derivative at what overflows when it is multiplied by itself, and at what is not finite."""
    x = torch.zeros(4096, device=device)
    x[:7] = torch.tensor([-3e38, -1e20, -60000.0, 60000.0, 1e20, 3e38, float("nan")])
    return [[str(float(each)) for each in found[:7]] for found in run(x, approximate)]


def main() -> None:
    device = sys.argv[1]
    found = {each: {**largest_errors(device, each), "extremes": at_extremes(device, each)} for each in APPROXIMATIONS}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
