"""What is done to a patched model afterwards: settings, masks, parametrizations, hooks, replicas, other tensors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from kernels.look_alikes import GatedMLP, LlamaRMSNorm, stand_in
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

from warpsmith.kernels import patch, unpatch

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Triton cannot run on", "ignore:Mismatch dtype between input and weight", "ignore:.*nested tensors"
)

NORMS = [lambda: nn.LayerNorm(16), lambda: nn.RMSNorm(16), lambda: LlamaRMSNorm(16)]


class Squared(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.square()


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_attributes_that_were_changed_are_there_after_unpatch() -> None:
    model = nn.Sequential(nn.LayerNorm(16), LlamaRMSNorm(16), GatedMLP())
    patch(model)
    model[0].eps, model[1].variance_epsilon, model[2].note = 1.0, 2.0, "new"
    model[2].act_fn = nn.GELU()
    unpatch(model)
    assert (model[0].eps, model[1].variance_epsilon, model[2].note) == (1.0, 2.0, "new")
    assert isinstance(model[2].act_fn, nn.GELU)
    # Settings are those of the moment of patch: to change one, patch again.
    assert [each.kernel for each in patch(model).exchanged][1:] == [
        "rms_norm, eps=2.0, offset=0.0, casting='llama'",
        "geglu, approximate='none'",
    ]


def test_what_the_original_computes_heeds_an_attribute_that_was_changed() -> None:
    found, x = stand_in(nn.LayerNorm(16).double().float()), torch.randn(3, 16, dtype=torch.float64)
    found.double()
    found.eps = 1.0
    assert torch.equal(found(x), nn.functional.layer_norm(x, (16,), eps=1.0))


@pytest.mark.parametrize("make", NORMS)
def test_what_is_pruned_stays_pruned(make: Any) -> None:
    model, x = nn.Sequential(make()), torch.randn(3, 16)
    patch(model)
    prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    expected = model(x)
    assert (expected == 0).sum() == 3 * 8
    model.double()
    torch.testing.assert_close(model(x.double()).float(), expected)
    model.float()
    unpatch(model)
    torch.testing.assert_close(model(x), expected)
    prune.remove(model[0], "weight")  # type: ignore[no-untyped-call]
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("make", NORMS)
def test_what_is_parametrized_is_not_lost_unseen(make: Any) -> None:
    model, x = nn.Sequential(make()), torch.randn(3, 16)
    original = model[0]
    patch(model)
    parametrize.register_parametrization(model[0], "weight", Squared())
    with pytest.raises(ValueError, match=r"unpatch: 0 was parametrized after patch.*remove_parametrizations"):
        unpatch(model)
    for other in (copy.deepcopy(model), nn.Sequential(model[0]._replicate_for_data_parallel())):
        assert type(other[0]) is type(model[0])
    with pytest.raises(RuntimeError, match=f"{type(original).__name__} has no such parametrization"):
        model.double()(x.double())
    with pytest.raises((pickle.PicklingError, AttributeError), match="Parametrized"):
        pickle.dumps(model)
    expected = model.float()(x)
    parametrize.remove_parametrizations(model[0], "weight")
    unpatch(model)
    assert model[0] is original
    torch.testing.assert_close(model(x), expected)


def test_projections_may_be_parametrized() -> None:
    model, x = nn.Sequential(GatedMLP()), torch.randn(3, 16)
    patch(model)
    parametrize.register_parametrization(model[0].gate_proj, "weight", Squared())
    expected = model(x)
    unpatch(model)
    torch.testing.assert_close(model(x), expected)


def test_full_backward_hooks_stay() -> None:
    model, seen = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)), []
    patch(model)
    model[1].register_full_backward_hook(lambda module, *_: seen.append(type(module).__name__))
    model(torch.randn(2, 16)).sum().backward()
    unpatch(model)
    model(torch.randn(2, 16)).sum().backward()
    assert seen == ["PatchedTorchLayerNorm", "LayerNorm"]


@pytest.mark.parametrize("make", NORMS)
def test_a_replica_computes_with_its_own_parameters(make: Any) -> None:
    model, x = nn.Sequential(make()), torch.randn(3, 16)
    patch(model)
    replica = model[0]._replicate_for_data_parallel()
    replica.weight = 3 * model[0].weight
    if getattr(model[0], "bias", None) is not None:
        replica.bias = 3 * model[0].bias
    torch.testing.assert_close(replica(x), 3 * model(x))
    # By the original: the dtypes are mixed.
    mixed = x.bfloat16()
    torch.testing.assert_close(replica(mixed), 3 * model(mixed), rtol=0.02, atol=0.02)
    assert model[0].weight.requires_grad and model[0].weight.is_leaf


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_go_to_the_original(layout: torch.layout) -> None:
    rows = [torch.randn(2, 16), torch.randn(3, 16)]
    nested = torch.nested.nested_tensor(rows, layout=layout)
    for original in (nn.LayerNorm(16), GatedMLP()):
        found = stand_in(original)
        for ours, theirs in zip(found(nested).unbind(), rows, strict=True):
            torch.testing.assert_close(ours, original(theirs))


def test_a_module_of_two_models_has_one_state() -> None:
    norm = nn.LayerNorm(16)
    model = nn.Sequential(nn.Sequential(norm), nn.Sequential(norm))
    patch(model[0])
    patch(model[1])
    model[0][0].weight = nn.Parameter(torch.full((16,), 2.0))
    model[1].eval()
    assert model[1][0].weight is model[0][0].weight and not model[0][0].training
    unpatch(model[0])
    model[1].train()
    assert norm.training
    unpatch(model)
    assert model[0][0] is norm and model[1][0] is norm
