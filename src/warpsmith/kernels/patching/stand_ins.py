"""The modules that `patch` puts into a model: they hold the state of the originals and call the kernels.

Inputs for which the trial proved nothing (float64, mixed dtypes, subclasses of Tensor) are handed to the original. Must
not know how originals are found or what proves that a stand-in computes the same.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrize import is_parametrized

from warpsmith.kernels.arguments import FLOATING, runs_triton
from warpsmith.kernels.geglu import geglu
from warpsmith.kernels.layer_norm import layer_norm
from warpsmith.kernels.rms_norm import rms_norm, rms_norm_reference
from warpsmith.kernels.swiglu import swiglu

#: The operators of other subclasses of Tensor, such as DTensor, do more than a kernel that reads their memory.
_PLAIN = (Tensor, nn.Parameter)


class Patched(nn.Module):
    """Stands in the original's place with its very parameters, children, buffers, hooks and attributes.

    The two share one __dict__: what is set on one, be it a parameter, a hook or a mask, is set on the other. Only two
    slots are the stand-in's own, `original` and `computation`; the original must have no attributes of these names.
    """

    __slots__ = ("computation", "original")
    computation: Computation
    original: nn.Module

    def __init__(self, original: nn.Module, computation: Computation) -> None:
        # Module.__setattr__ would make the original a child, and put it into the state_dict.
        object.__setattr__(self, "__dict__", original.__dict__)
        object.__setattr__(self, "computation", computation)
        object.__setattr__(self, "original", original)

    # type(self), because parametrizations change the class of a module.

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.original, self.computation)

    def __deepcopy__(self, memo: dict[int, Any]) -> Patched:
        return type(self)(copy.deepcopy(self.original, memo), self.computation)

    def _replicate_for_data_parallel(self) -> Patched:
        # So that a replica's original has the replica's parameters.
        replica = self.original._replicate_for_data_parallel()  # type: ignore[no-untyped-call]
        return type(self)(replica, self.computation)

    def forward(self, *given: Tensor, **named: Tensor) -> Tensor:
        """As the original's forward: takes one input, by position or by whatever name the original gives it."""
        inputs = (*given, *named.values())
        if len(inputs) != 1:
            raise TypeError(f"{type(self).__name__}: expected one input, found {len(inputs)}")
        return self.computation.output(self, inputs[0])

    def original_output(self, x: Tensor) -> Tensor:
        """What the original gives for an input that the kernel does not take."""
        if is_parametrized(self):
            name = type(self.original).__name__
            raise RuntimeError(f"{type(self).__name__}: {name} has no such parametrization; parametrize before patch")
        y: Tensor = self.original.forward(x)
        return y

    def extra_repr(self) -> str:
        return f"{self.computation}, in place of {type(self.original).__name__}"


class PatchedRMSNorm(Patched):
    """An RMSNorm, computed by rms_norm."""


class PatchedTorchRMSNorm(PatchedRMSNorm, nn.RMSNorm):
    """A torch.nn.RMSNorm. It stays an instance of that class, because optimizers and parallel plans ask for it."""


class PatchedLayerNorm(Patched):
    """A LayerNorm, computed by layer_norm."""


class PatchedTorchLayerNorm(PatchedLayerNorm, nn.LayerNorm):
    """A torch.nn.LayerNorm; an instance of that class for the reasons of PatchedTorchRMSNorm."""


class PatchedGatedMLP(Patched):
    """down_proj(activation(gate_proj(x)) · up_proj(x)), by swiglu or geglu between the original's own projections."""


def stand_in(original: nn.Module, computation: Computation) -> Patched:
    """The module that computes this in the original's place."""
    if isinstance(computation, Gating):
        return PatchedGatedMLP(original, computation)
    if isinstance(computation, ByLayerNorm):
        of_torch = isinstance(original, nn.LayerNorm)
        return (PatchedTorchLayerNorm if of_torch else PatchedLayerNorm)(original, computation)
    of_torch = isinstance(original, nn.RMSNorm)
    return (PatchedTorchRMSNorm if of_torch else PatchedRMSNorm)(original, computation)


# What they compute


class Computation:
    """What a stand-in computes. As a string, the function that is called and its settings."""

    def output(self, module: Patched, x: Tensor) -> Tensor:
        """The original's output for x."""
        raise NotImplementedError


@dataclass(frozen=True)
class Normalizing(Computation):
    """A norm over the last dimension. `autocast_device`: where it is right for 16 bits under autocast too."""

    width: int
    eps: float
    autocast_device: str | None = None

    def output(self, module: Patched, x: Tensor) -> Tensor:
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        if not self._fits(x, weight, bias):
            return module.original_output(x)
        with _on_device_of(x):
            return self.normalized(x, weight, bias)

    def _fits(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> bool:
        """Whether it was proven that the kernel gives what the original does for such tensors."""
        if not _can_be_computed(x, weight, bias) or x.shape[-1:] != (self.width,):
            return False
        device = x.device.type
        return x.dtype == torch.float32 or self.autocast_device == device or not torch.is_autocast_enabled(device)

    def normalized(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """The kernel's output. Its arguments fit."""
        raise NotImplementedError


@dataclass(frozen=True)
class ByRMSNorm(Normalizing):
    offset: float = 0.0
    casting: str = "llama"

    def normalized(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        if not runs_triton("rms_norm", x):
            # What rms_norm would call; but its own announcement would be used up by the trial.
            return rms_norm_reference(x, weight, self.eps, self.offset, self.casting)
        return rms_norm(x, weight, self.eps, offset=self.offset, casting=self.casting)

    def __str__(self) -> str:
        return f"rms_norm, eps={self.eps}, offset={self.offset}, casting={self.casting!r}"


@dataclass(frozen=True)
class ByLayerNorm(Normalizing):
    def normalized(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        return layer_norm(x, weight, bias, self.eps)

    def __str__(self) -> str:
        return f"layer_norm, eps={self.eps}"


@dataclass(frozen=True)
class Gating(Computation):
    """activation: "silu", or what geglu calls approximate."""

    activation: str

    def output(self, module: Any, x: Tensor) -> Tensor:
        gate, up = module.gate_proj(x), module.up_proj(x)
        y: Tensor = module.down_proj(self._gated(gate, up))
        return y

    def _gated(self, gate: Tensor, up: Tensor) -> Tensor:
        silu = self.activation == "silu"
        if not _can_be_computed(gate, up) or gate.shape != up.shape:
            return (functional.silu(gate) if silu else functional.gelu(gate, approximate=self.activation)) * up
        with _on_device_of(gate):
            return swiglu(gate, up) if silu else geglu(gate, up, approximate=self.activation)

    def __str__(self) -> str:
        return "swiglu" if self.activation == "silu" else f"geglu, approximate={self.activation!r}"


def _can_be_computed(*tensors: Tensor | None) -> bool:
    """Whether they are plain tensors of one dtype and one device that the kernels take. None is no tensor."""
    given = [tensor for tensor in tensors if tensor is not None]
    first = given[0]
    return (
        first.dtype in FLOATING
        and first.device.type in ("cuda", "cpu")
        # A nested tensor has no shape.
        and not any(type(each) not in _PLAIN or each.is_nested for each in given)
        and all(each.dtype == first.dtype and each.device == first.device for each in given)
    )


def _on_device_of(x: Tensor) -> AbstractContextManager[object]:
    """Triton launches on the current device; compiled code sees to that itself."""
    if torch.compiler.is_compiling() or not x.is_cuda:
        return nullcontext()
    return torch.cuda.device(x.device)
