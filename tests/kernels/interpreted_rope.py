"""Runs the rope kernel on CPU tensors under TRITON_INTERPRET=1 and prints its largest errors as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from typing import NamedTuple

import torch
from torch import Tensor

#: The module: of the package, `rope` is the function.
ropes = importlib.import_module("warpsmith.kernels.rope")


class Shape(NamedTuple):
    batch: int
    query_heads: int
    key_heads: int
    tokens: int
    head: int
    rotated: int


SHAPES = (
    Shape(2, 3, 1, 5, 8, 8),
    Shape(1, 1, 2, 1, 2, 2),
    Shape(2, 5, 3, 7, 11, 6),
    Shape(1, 2, 2, 3, 40, 24),
    Shape(2, 4, 2, 0, 8, 8),
    Shape(2, 0, 2, 3, 8, 4),
    Shape(1, 37, 3, 2, 64, 62),  # heads that several programs share, of the few pairs a program holds here
)
LAYOUTS = ("bthd", "bhtd", "fused", "inner_strided")


def draw(shape: Shape, heads: int, layout: str, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    batch, tokens, head = shape.batch, shape.tokens, shape.head

    def normal(*sizes: int) -> Tensor:
        return torch.randn(sizes, generator=generator).to(dtype)

    if layout == "bthd":
        return normal(batch, tokens, heads, head).transpose(1, 2)
    if layout == "fused":
        return normal(batch, tokens, heads + 3, head + 5)[:, :, 2 : heads + 2, 1 : head + 1].transpose(1, 2)
    if layout == "inner_strided":
        return normal(batch, heads, head, tokens).transpose(2, 3)
    return normal(batch, heads, tokens, head)


def largest_errors(shape: Shape, layout: str, dtype: torch.dtype, pairing: str, batched: bool) -> dict[str, float]:
    """Largest absolute difference to float64 of both outputs and both gradients, all and one at a time."""
    generator = torch.Generator().manual_seed(0)
    query, key = (draw(shape, h, layout, dtype, generator) for h in (shape.query_heads, shape.key_heads))
    gradients = [draw(shape, x.shape[1], other, dtype, generator) for x, other in ((query, "bhtd"), (key, layout))]
    rows = (shape.batch, shape.tokens) if batched else (shape.tokens,)
    tables = [torch.randn((*rows, shape.rotated), generator=generator)[..., : shape.rotated // 2] for _ in range(2)]
    query, key = query.requires_grad_(), key.requires_grad_()
    outputs = ropes.rope(query, key, *tables, pairing=pairing)
    found = torch.autograd.grad(outputs, (query, key), gradients, retain_graph=True)
    alone = [torch.autograd.grad(outputs[i], (query, key)[i], gradients[i], retain_graph=True)[0] for i in range(2)]

    exact_query, exact_key = query.detach().double().requires_grad_(), key.detach().double().requires_grad_()
    exact_outputs = ropes.rope_reference(exact_query, exact_key, *(t.double() for t in tables), pairing)
    exact = torch.autograd.grad(exact_outputs, (exact_query, exact_key), [g.double() for g in gradients])
    pairs = zip((*outputs, *found, *alone), (*exact_outputs, *exact, *exact), strict=True)
    names = ("query_out", "key_out", "dquery", "dkey", "dquery alone", "dkey alone")
    return {name: _largest(ours, theirs) for name, (ours, theirs) in zip(names, pairs, strict=True)}


def _largest(found: Tensor, exact: Tensor) -> float:
    assert found.shape == exact.shape, (found.shape, exact.shape)
    difference = (found.detach().double() - exact.detach()).abs()
    return float(difference.max()) if difference.numel() else 0.0


def main() -> None:
    vars(ropes).update(runs_triton=lambda op, tensor: True, _PAIRS_PER_PROGRAM=512)
    errors = {}
    for shape, dtype, pairing, layout in itertools.product(
        SHAPES, (torch.float32, torch.float16), ropes.PAIRINGS, LAYOUTS
    ):
        name = f"{'x'.join(map(str, shape))}-{str(dtype).removeprefix('torch.')}-{pairing}-{layout}"
        errors[name] = largest_errors(shape, layout, dtype, pairing, batched=layout == "fused")
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
