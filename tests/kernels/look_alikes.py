"""Modules like those of transformers, and some that only look like them, for tests of patch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from warpsmith.kernels import patch
from warpsmith.kernels.patching.stand_ins import Patched

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class Weighted(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.variance_epsilon = eps

    def normalized(self, hidden_states: Tensor) -> Tensor:
        x = hidden_states.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x.to(hidden_states.dtype)


class LlamaRMSNorm(Weighted):
    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.normalized(hidden_states)


class GemmaRMSNorm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.randn(width) / 4)

    def forward(self, x: Tensor) -> Tensor:
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1.0 + self.weight.float())).type_as(x)


class T5LayerNorm(LlamaRMSNorm):
    """A LayerNorm by name alone."""


class Projections(nn.Module):
    def __init__(self, act_fn: Callable[[Tensor], Tensor] | None = None, *, bias: bool = False) -> None:
        super().__init__()
        self.config = {"hidden": 16, "intermediate": 40}
        self.gate_proj, self.up_proj = nn.Linear(16, 40, bias=bias), nn.Linear(16, 40, bias=bias)
        self.down_proj = nn.Linear(40, 16, bias=bias)
        self.act_fn = nn.SiLU() if act_fn is None else act_fn


class GatedMLP(Projections):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return y


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = LlamaRMSNorm(16)
        self.mlp = GatedMLP()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.mlp(self.input_layernorm(x))
        return y


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.norm = nn.LayerNorm(16)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        y: Tensor = self.dropout(self.norm(x))
        return y


# What computes something else, or not by itself


class NoRMSNorm(Weighted):
    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.normalized(hidden_states).clamp(-1, 1)


class CentredRMSNorm(Weighted):
    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.normalized(hidden_states - hidden_states.mean(-1, keepdim=True))


class RMSNormInBF16(Weighted):
    """Squares and sums in the dtype of the input."""

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


class DetachedRMSNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.variance_epsilon).detach()
        return self.weight * (x.float() * rstd).to(x.dtype)


class DroppingRMSNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(self.normalized(x), 0.5, self.training)


class GatedRMSNorm(Weighted):
    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        return self.normalized(x)


class RecordingRMSNorm(LlamaRMSNorm):
    """Computes the same, and something beside."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        self.seen = hidden_states
        return super().forward(hidden_states)


class RecordingLayerNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return super().forward(x)


class RecordingMLP(GatedMLP):
    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return super().forward(x)


class BufferedRMSNorm(LlamaRMSNorm):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_buffer("seen", torch.zeros(1))


class OneGroupLayerNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class FailingRMSNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("not on\nthis machine")


class SwappedMLP(Projections):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(self.act_fn(self.up_proj(x)) * self.gate_proj(x))
        return y


class ReadingMLP(Projections):
    """Reads a weight past what its projection may have become."""

    def forward(self, x: Tensor) -> Tensor:
        up = functional.linear(x, self.up_proj.weight)
        y: Tensor = self.down_proj(self.act_fn(self.gate_proj(x)) * up)
        return y


class ScaledMLP(GatedMLP):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))


class BufferedMLP(Projections):
    """Which a state_dict may fill later."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x) * self.scale)
        return y


class DroppingMLP(Projections):
    """By a probability that may change."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.dropout(self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))
        return y


class ClampedMLP(Projections):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x).clamp(-self.limit, self.limit)
        y: Tensor = self.down_proj(self.act_fn(gate) * up)
        return y


class ClampedRMSNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return self.normalized(x.clamp(-1e4, 1e4))


class CountingRMSNorm(Weighted):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.calls, self.widths, self.seen = 0, [width], torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.normalized(x)


class ListingRMSNorm(CountingRMSNorm):
    def normalized(self, x: Tensor) -> Tensor:
        self.calls = 0
        self.widths.append(x.shape[-1])
        return super().normalized(x)


class SummingRMSNorm(CountingRMSNorm):
    def normalized(self, x: Tensor) -> Tensor:
        self.calls = 0
        self.seen += 1
        return super().normalized(x)


class CountingActivation(nn.Module):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return functional.silu(x)


class StatefulRMSNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return self.normalized(x)

    def get_extra_state(self) -> dict[str, int]:
        return {"version": 1}

    def set_extra_state(self, state: dict[str, int]) -> None:
        assert state == {"version": 1}


class RenamingRMSNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return self.normalized(x)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        state[f"{prefix}weight"] = state.pop(f"{prefix}gamma")
        super()._load_from_state_dict(state, prefix, *others)  # type: ignore[no-untyped-call]


class KeptInFP32(nn.Module):
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> KeptInFP32:
        return self


class RMSNormInFP32(Weighted, KeptInFP32):
    def forward(self, x: Tensor) -> Tensor:
        return self.normalized(x)


class FrozenLayerNorm(nn.LayerNorm):
    def train(self, mode: bool = True) -> FrozenLayerNorm:
        return super().train(False)


class FusedMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj, self.down_proj = nn.Linear(16, 80), nn.Linear(40, 16)


# What patch makes of one module


def stand_in(module: nn.Module, **options: Any) -> Patched:
    """What a module is exchanged for."""
    holder = nn.Sequential(module)
    done = patch(holder, **options)
    assert not done.left, done
    found = holder[0]
    assert isinstance(found, Patched) and found.original is module
    return found


def reason(module: nn.Module, **options: Any) -> str:
    """Why it is left."""
    holder = nn.Sequential(module)
    done = patch(holder, **options)
    assert holder[0] is module and not done.exchanged
    (left,) = done.left
    assert (left.path, left.original) == ("0", type(module).__name__)
    return left.reason


def assert_rounded_alike(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=2 * torch.finfo(expected.dtype).eps, atol=1e-6)
