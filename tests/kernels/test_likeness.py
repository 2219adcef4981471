"""Which modules are alike enough to be tried once, and that patch tries them so."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernels.look_alikes import ClampedMLP, GatedMLP, GemmaRMSNorm, LlamaRMSNorm
from torch import nn

from warpsmith.kernels import patch
from warpsmith.kernels.patching.likeness import likeness
from warpsmith.kernels.patching.trial import PROJECTIONS, Trial

pytestmark = pytest.mark.filterwarnings("ignore:.*Triton cannot run on")


def with_attribute(module: nn.Module, value: object) -> nn.Module:
    module.setting = value  # type: ignore[assignment]
    return module


def tied(module: GatedMLP) -> nn.Module:
    module.up_proj = module.gate_proj
    return module


def with_one_config(module: GatedMLP) -> GatedMLP:
    module.config = CONFIG
    return module


CONFIG = {"hidden": 16}


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LayerNorm(16),
        lambda: nn.RMSNorm(16, 1e-5),
        lambda: LlamaRMSNorm(16).to(torch.bfloat16),
        lambda: with_one_config(GatedMLP()),
        lambda: with_one_config(GatedMLP(nn.GELU("tanh"))),
        lambda: with_attribute(nn.LayerNorm(16), float("nan")),
    ],
)
def test_modules_that_are_made_alike_are_alike_whatever_their_weights(make: Callable[[], nn.Module]) -> None:
    one, other = make(), make()
    assert likeness(one, PROJECTIONS) == likeness(other, PROJECTIONS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nn.LayerNorm(16), nn.LayerNorm(17)),
        (nn.LayerNorm(16), nn.LayerNorm(16, 1e-6)),
        (nn.LayerNorm(16), nn.LayerNorm(16, bias=False)),
        (nn.LayerNorm(16), nn.LayerNorm(16).eval()),
        (LlamaRMSNorm(16), GemmaRMSNorm(16)),
        (GatedMLP(nn.GELU()), GatedMLP(nn.GELU("tanh"))),
        (GatedMLP(), GatedMLP(nn.GELU())),
        (GatedMLP(lambda x: x), GatedMLP(lambda x: 2 * x)),
        (ClampedMLP(7.0), ClampedMLP(50.0)),
        (with_one_config(GatedMLP()), tied(with_one_config(GatedMLP()))),
        *(
            (with_attribute(nn.LayerNorm(16), value), with_attribute(nn.LayerNorm(16), another))
            for value, another in [(1, True), (1, 1.0), (0.0, -0.0), ([1], [1]), ((1, [2]), (1, [2])), (None, "None")]
        ),
    ],
)
def test_what_may_make_a_difference_makes_modules_unlike(one: nn.Module, other: nn.Module) -> None:
    assert likeness(one, PROJECTIONS) != likeness(other, PROJECTIONS)


def test_what_is_in_slots_is_not_seen_and_makes_a_module_like_itself_alone() -> None:
    class Slotted(LlamaRMSNorm):
        __slots__ = ("scale",)

    one = Slotted(16)
    assert likeness(one, PROJECTIONS) == likeness(one, PROJECTIONS) != likeness(Slotted(16), PROJECTIONS)


def test_the_projections_of_a_gated_mlp_may_be_of_any_size() -> None:
    one = with_one_config(GatedMLP())
    other = copy.copy(one)
    other._modules = dict(one._modules)
    other.gate_proj, other.up_proj, other.down_proj = nn.Linear(8, 24), nn.Linear(8, 24), nn.Linear(24, 8)
    assert likeness(one, PROJECTIONS) == likeness(other, PROJECTIONS)


def test_equal_modules_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[nn.Module] = []
    differences = Trial.differences

    def counted(trial: Trial, *arguments: Any) -> Any:
        tried.append(trial.module)
        return differences(trial, *arguments)

    monkeypatch.setattr(Trial, "differences", counted)
    model = nn.Sequential(
        *(LlamaRMSNorm(16) for _ in range(3)),
        *(LlamaRMSNorm(16, eps=1e-3) for _ in range(2)),
        *(with_one_config(GatedMLP(nn.ReLU())) for _ in range(2)),
        LlamaRMSNorm(16).bfloat16(),
    )
    originals = list(model)
    done = patch(model)
    # Norms once more under autocast.
    assert tried == [originals[place] for place in (0, 0, 3, 3, 5)]
    eps = "rms_norm, eps={}, offset=0.0, casting='llama'".format
    assert [each.kernel for each in done.exchanged] == [eps(1e-6)] * 3 + [eps(1e-3)] * 2 + [eps(1e-6)]
    assert [each.path for each in done.left] == ["5", "6"] and len({each.reason for each in done.left}) == 1
    assert all(model[place].weight is originals[place].weight for place in range(5))
    model[0].weight.data.zero_()
    assert model[1](torch.ones(16)).abs().min() > 0 == model[0](torch.ones(16)).abs().max()

    tried.clear()
    patch(nn.Sequential(LlamaRMSNorm(16)))
    assert len(tried) == 2, "what was proven is not kept for another call"
