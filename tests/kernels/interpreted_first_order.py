"""Asks of each op of the library, interpreted, for a gradient of a gradient, and prints what came of it as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from warpsmith import kernels

Op = Callable[[Tensor], Tensor]


def ops(device: str) -> dict[str, Op]:
    """Of each autograd function of the library, by its name, how it is called with (4, 16) values."""
    generator = torch.Generator(device).manual_seed(0)
    weight, bias = (torch.randn(16, generator=generator, device=device) for _ in range(2))
    matrix = torch.randn(16, 8, generator=generator, device=device)
    table = torch.rand(2, 4, generator=generator, device=device)
    target = torch.arange(4, device=device)
    return {
        "CrossEntropyFunction": lambda x: kernels.cross_entropy(x, target),
        "FusedAddRMSNormFunction": lambda x: kernels.fused_add_rms_norm(x, x.detach(), weight)[0],
        "FusedLinearCrossEntropyFunction": lambda x: kernels.fused_linear_cross_entropy(x, matrix.T, target),
        "GeGLUFunction": lambda x: kernels.geglu(x, x.detach()),
        "LayerNormFunction": lambda x: kernels.layer_norm(x, weight, bias),
        "LayerNormGeluFunction": lambda x: kernels.layer_norm_gelu(x, weight, bias),
        "MatmulFunction": lambda x: kernels.matmul(x, matrix, activation="silu"),
        "RopeFunction": lambda x: kernels.rope(x.view(2, 2, 2, 8), x.view(2, 2, 2, 8).detach(), table, table)[0],
        "SoftmaxFunction": kernels.softmax,
        "SwiGLUFunction": lambda x: kernels.swiglu(x, x.detach()),
    }


def refusal(op: Op, device: str) -> str:
    """What is raised where the gradient of a sum, which requires none, is to be differentiated; nothing if it is not.

    Until then a gradient of which a graph is made is the same as one of which none is.
    """
    x = torch.randn(4, 16, generator=torch.Generator(device).manual_seed(1), device=device).requires_grad_()
    (expected,) = torch.autograd.grad(op(x).sum(), x)
    (gradient,) = torch.autograd.grad(op(x).sum(), x, create_graph=True)
    assert torch.equal(gradient, expected) and not expected.requires_grad
    try:
        (op(x).sum() + gradient.square().sum()).backward()
    except RuntimeError as error:
        return str(error)
    return ""


def main() -> None:
    found = {name: refusal(op, "cpu") for name, op in ops("cpu").items()}
    functions = [each for each in torch.autograd.Function.__subclasses__() if each.__module__.startswith("warpsmith")]
    json.dump({"refusals": found, "functions": sorted(each.__name__ for each in functions)}, sys.stdout)


if __name__ == "__main__":
    main()
