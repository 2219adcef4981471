"""Runs the kernel of vector_add on CPU tensors under TRITON_INTERPRET=1 and prints its largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import itertools
import json
import sys

import torch

from warpsmith.kernels.vector_add import VectorAddFunction

SHAPES = ((1,), (37,), (2048,), (3, 1721), (0,), ())


def largest_error(shape: tuple[int, ...], dtype: torch.dtype) -> float:
    """Largest difference to float64 of z. The gradients are exact."""
    generator = torch.Generator().manual_seed(0)
    x, y, dz = (torch.randn(shape, generator=generator).to(dtype) for _ in range(3))
    x, y = x.mT.contiguous().mT.requires_grad_() if x.ndim > 1 else x.requires_grad_(), y.requires_grad_()
    z = VectorAddFunction.apply(x, y)
    z.backward(dz)
    assert x.grad is not None and y.grad is not None and torch.equal(x.grad, dz) and torch.equal(y.grad, dz)
    assert z.is_contiguous() and z.shape == shape and z.dtype == dtype
    return float((z.double() - (x.double() + y.double())).abs().amax().detach()) if z.numel() else 0.0


def main() -> None:
    errors = {}
    for shape, dtype in itertools.product(SHAPES, (torch.float32, torch.float16, torch.bfloat16)):
        errors[f"{'x'.join(map(str, shape))}-{str(dtype).removeprefix('torch.')}"] = largest_error(shape, dtype)
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
