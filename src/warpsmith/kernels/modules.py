"""The nn modules over the kernels: they own parameters and settings, and must not know how a kernel is launched."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from warpsmith.kernels.arguments import expect_choice
from warpsmith.kernels.cross_entropy import REDUCTIONS, cross_entropy
from warpsmith.kernels.layer_norm import layer_norm
from warpsmith.kernels.loss_settings import expect_loss_settings
from warpsmith.kernels.rms_norm import CASTINGS, rms_norm
from warpsmith.kernels.softmax import softmax


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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not _is_width(hidden_size):
            raise ValueError(f"RMSNorm: hidden_size must be an int of at least 1, found {hidden_size!r}")
        if casting not in CASTINGS:
            raise ValueError(f"RMSNorm: casting must be one of {CASTINGS}, found {casting!r}")
        self.hidden_size = hidden_size
        self.eps = eps
        self.offset = offset
        self.casting = casting
        weight = torch.full((hidden_size,), 1.0 - offset, device=device, dtype=dtype) if elementwise_affine else None
        self.weight = None if weight is None else nn.Parameter(weight)

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


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm over the last dimension, computed by layer_norm: same parameters, same state."""

    def __init__(
        self,
        normalized_shape: int,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not _is_width(normalized_shape):
            raise ValueError(f"LayerNorm: normalized_shape must be an int of at least 1, found {normalized_shape!r}")
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(..., normalized_shape) in; the same shape and dtype out. Raises as layer_norm does."""
        if x.shape[-1:] != self.normalized_shape:
            (width,) = self.normalized_shape
            raise ValueError(f"LayerNorm: expected a last dimension of {width}, found shape {tuple(x.shape)}")
        return layer_norm(x, self.weight, self.bias, self.eps)


class Softmax(nn.Module):
    """torch.nn.Softmax over the last dimension, computed by softmax."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        if dim != -1:
            raise ValueError(f"Softmax: dim must be -1, the last dimension, found {dim!r}")

    def forward(self, x: Tensor) -> Tensor:
        """(..., N) in; the same shape and dtype out. Raises as softmax does."""
        return softmax(x)

    def extra_repr(self) -> str:
        return "dim=-1"


class CrossEntropyLoss(nn.Module):
    """cross_entropy with its settings. Classes are the last dimension of the logits; torch's own has them second."""

    def __init__(
        self, *, ignore_index: int = -100, label_smoothing: float = 0.0, z_loss: float = 0.0, reduction: str = "mean"
    ) -> None:
        super().__init__()
        expect_choice("CrossEntropyLoss", "reduction", reduction, REDUCTIONS)
        self.settings = expect_loss_settings("CrossEntropyLoss", ignore_index, label_smoothing, z_loss)
        self.reduction = reduction

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """(..., V) logits and (...,) classes in; the loss out, fp32. Raises as cross_entropy does."""
        return cross_entropy(logits, target, **self.settings._asdict(), reduction=self.reduction)

    def extra_repr(self) -> str:
        settings = {**self.settings._asdict(), "reduction": self.reduction}
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def _is_width(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1
