"""Patches modules whose kernels run on the CPU under TRITON_INTERPRET=1, and prints what was done as JSON.

A program of its own, because Triton reads TRITON_INTERPRET when it is imported. Without bf16, which the interpreter
does not round to nearest. RMSNorm's kernels are not interpreted.
"""

from __future__ import annotations

import json

import torch
from torch import Tensor, nn
from torch.nn import functional

from warpsmith.kernels import patch
from warpsmith.kernels.patching import matching


class GatedMLP(nn.Module):
    def __init__(self, approximate: str | None) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(8, 12), nn.Linear(8, 12), nn.Linear(12, 8)
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate_proj(x)
        activated = (
            functional.silu(gate) if self.approximate is None else functional.gelu(gate, approximate=self.approximate)
        )
        y: Tensor = self.down_proj(activated * self.up_proj(x))
        return y


def main() -> None:
    for name in ("NORM_CHECKS", "GATED_CHECKS"):
        checks = getattr(matching, name)
        setattr(matching, name, tuple(check for check in checks if check.dtype != torch.bfloat16))
    model = nn.Sequential(
        nn.LayerNorm(37),
        nn.LayerNorm(64, bias=False),
        nn.LayerNorm(48, elementwise_affine=False),
        *(GatedMLP(approximate) for approximate in (None, "none", "tanh")),
    )
    done = patch(model)
    print(json.dumps({"kernels": [each.kernel for each in done.exchanged], "left": [str(each) for each in done.left]}))


if __name__ == "__main__":
    main()
