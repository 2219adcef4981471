"""The nn modules over the kernels: they own parameters and settings, and must not know how a kernel is launched."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from warpsmith.kernels.rms_norm import CASTINGS, rms_norm


class RMSNorm(nn.Module):
    """rms_norm with its weight, which starts where weight + offset is 1."""

    def __init__(
        self,
        hidden_size: int,
        eps: float = 1e-6,
        *,
        offset: float = 0.0,
        casting: str = "llama",
        elementwise_affine: bool = True,
    ) -> None:
        super().__init__()
        if casting not in CASTINGS:
            raise ValueError(f"RMSNorm: casting must be one of {CASTINGS}, found {casting!r}")
        self.hidden_size = hidden_size
        self.eps = eps
        self.offset = offset
        self.casting = casting
        self.weight = nn.Parameter(torch.full((hidden_size,), 1.0 - offset)) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """(..., hidden_size) in; the same shape and dtype out. Raises as rms_norm does."""
        if x.shape[-1:] != (self.hidden_size,):
            raise ValueError(f"RMSNorm: expected a last dimension of {self.hidden_size}, found shape {tuple(x.shape)}")
        return rms_norm(x, self.weight, self.eps, offset=self.offset, casting=self.casting)

    def extra_repr(self) -> str:
        return (
            f"{self.hidden_size}, eps={self.eps}, offset={self.offset}, casting={self.casting!r}, "
            f"elementwise_affine={self.weight is not None}"
        )
