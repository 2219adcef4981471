"""Runs the matmul kernels on CPU tensors under TRITON_INTERPRET=1 and prints their largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from warpsmith.kernels.matmul import ACTIVATIONS, _is_for_tma, matmul, matmul_reference

# The shape of a, N: one row, prime sizes, aligned rows, several tiles, more than a group of them, nothing.
SHAPES = (
    ((40,), 24),
    ((7, 19), 13),
    ((2, 3, 64), 48),
    ((135, 72), 136),
    ((521, 19), 67),
    ((70, 48), 5),
    ((0, 16), 8),
    ((4, 0), 8),
)
LAYOUTS = ("contiguous", "linear", "a transposed", "strided", "expanded dc", "shifted")
DTYPES = (torch.float32, torch.float16)


def largest_errors(
    a_shape: tuple[int, ...], n: int, dtype: torch.dtype, layout: str, activation: str
) -> dict[str, float]:
    """Largest difference to float64 of c, da, db and dbias, as a share of the root mean square of what is expected."""
    a, b, bias, dc = arguments(a_shape, n, dtype, layout)
    leaves = [tensor.detach().requires_grad_() for tensor in (a, b, bias)]
    c = matmul(*leaves, activation=activation)
    with torch.no_grad():
        assert torch.equal(matmul(*leaves, activation=activation), c)
    found = (c.detach(), *torch.autograd.grad(c, leaves, dc))

    exact_leaves = [tensor.detach().double().requires_grad_() for tensor in (a, b, bias)]
    exact_c = matmul_reference(exact_leaves[0], exact_leaves[1], exact_leaves[2], activation)
    exact = (exact_c.detach(), *torch.autograd.grad(exact_c, exact_leaves, dc.double()))
    names = ("c", "da", "db", "dbias")
    return {name: _largest(*pair) for name, *pair in zip(names, found, exact, strict=True)}


def arguments(a_shape: tuple[int, ...], n: int, dtype: torch.dtype, layout: str) -> tuple[Tensor, ...]:
    """a, b, bias and dc."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    k = a_shape[-1]
    a, b, bias, dc = normal(*a_shape), normal(k, n) * max(k, 1) ** -0.5, normal(n), normal(*a_shape[:-1], n)
    if layout == "linear":
        b = b.T.contiguous().T
    if layout == "a transposed" and a.ndim > 1:
        a = a.mT.contiguous().mT
    if layout == "strided":
        a, b = normal(*a_shape[:-1], 2 * k)[..., ::2], normal(2 * k, 2 * n)[::2, ::2] * max(k, 1) ** -0.5
    if layout == "expanded dc":
        dc = torch.ones((), dtype=dtype).expand(dc.shape)
    if layout == "shifted":
        a, b = normal(*a_shape[:-1], k + 8)[..., 1 : k + 1], normal(k, n + 8)[:, 3 : n + 3] * max(k, 1) ** -0.5
    return a, b, bias, dc


def _largest(found: Tensor, exact: Tensor) -> float:
    assert found.shape == exact.shape, (found.shape, exact.shape)
    if not exact.numel():
        return 0.0
    scale = exact.square().mean().sqrt().clamp_min(1e-3)
    return float(((found.double() - exact).abs() / (exact.abs() + scale)).max())


def check_arguments_of_an_activation_beyond_fp16() -> None:
    """c is finite, and so is the gradient; where the argument is no number or infinite, neither."""
    for activation in ACTIVATIONS[1:]:
        for k, pointers in ((16, False), (16, True)):
            a = torch.full((4, k), 256.0, dtype=torch.float16)
            a[1] *= -1
            a[2, 0], a[3, 0] = float("nan"), float("-inf")
            # Of a stride that TMA does not take.
            a = (torch.cat([a, a], dim=1)[:, 1 : k + 1] if pointers else a).requires_grad_()
            b = torch.full((k, 8), 256.0, dtype=torch.float16)
            assert _is_for_tma(a) != pointers
            c = matmul(a, b, activation=activation)
            (da,) = torch.autograd.grad(c, a, torch.full_like(c, 2**-8))
            # Eight of 256 · 2⁻⁸ · act'(±2²⁰), which is 1 and 0.
            assert (c[0] == float("inf")).all() and (da[0] == 8.0).all(), (activation, da)
            assert (c[1] == 0.0).all() and (da[1] == 0.0).all(), (activation, da)
            assert da[2:].isnan().all(), (activation, da)


def check_forward_mode_is_refused() -> None:
    """A tangent would be lost. Without a gradient nothing is kept for one."""
    a, b = torch.randn(4, 16), torch.randn(16, 8)
    with forward_ad.dual_level():
        try:
            matmul(forward_ad.make_dual(a, torch.ones_like(a)), b)
        except NotImplementedError:
            pass
        else:
            raise AssertionError("a tangent was lost")
    with torch.no_grad():
        assert not matmul(a.requires_grad_(), b, activation="silu").requires_grad


def main() -> None:
    check_arguments_of_an_activation_beyond_fp16()
    check_forward_mode_is_refused()
    # So that these are large enough for a copy.
    vars(sys.modules["warpsmith.kernels.matmul"])["_USES_WORTH_A_COPY"] = 64
    # Both kernels are reached.
    half = torch.ones(8, 16, dtype=torch.float16)
    assert _is_for_tma(half.T) and not _is_for_tma(half.float())
    # One value, of strides that TMA does not take.
    assert not _is_for_tma(half[::8, ::16]) and matmul(half[::8, ::16], half[::8, ::16]).item() == 1.0
    errors: dict[str, Any] = {}
    for ((a_shape, n), dtype, layout), activation in zip(
        itertools.product(SHAPES, DTYPES, LAYOUTS), itertools.cycle(ACTIVATIONS), strict=False
    ):
        name = f"{'x'.join(map(str, (*a_shape, n)))}-{str(dtype).removeprefix('torch.')}-{layout}-{activation}"
        errors[name] = largest_errors(a_shape, n, dtype, layout, activation)
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
