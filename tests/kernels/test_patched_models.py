"""What of a patched model stays as it was, what unpatch restores, and how it trains and compiles."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest
import torch
from kernels.look_alikes import (
    DTYPES,
    GatedMLP,
    Layer,
    LlamaRMSNorm,
    Model,
    Weighted,
    stand_in,
)
from torch import Tensor, nn
from torch.nn import functional

from warpsmith.kernels import arguments, patch, unpatch
from warpsmith.kernels.patching.stand_ins import Patched, PatchedLayerNorm, PatchedRMSNorm

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Triton cannot run on", "ignore:Mismatch dtype between input and weight"
)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_parameters_keys_mode_and_attributes_stay() -> None:
    model = Model().eval()
    parameters, state = dict(model.named_parameters()), {name: id(value) for name, value in model.state_dict().items()}
    patch(model)
    assert list(model.state_dict()) == list(state)
    assert all(dict(model.named_parameters())[name] is parameter for name, parameter in parameters.items())
    assert all(not module.training for module in model.modules())
    layer = model.layers[0]
    assert isinstance(layer, Layer)
    assert layer.input_layernorm.variance_epsilon == 1e-6
    assert layer.mlp.config == {"hidden": 16, "intermediate": 40} and isinstance(layer.mlp.gate_proj, nn.Linear)


def test_trying_leaves_no_trace() -> None:
    class Counting(Weighted):
        def __init__(self, width: int) -> None:
            super().__init__(width)
            self.calls = [0]

        def forward(self, hidden_states: Tensor) -> Tensor:
            self.calls[0] = 0
            functional.dropout(hidden_states, 0.5)
            return self.normalized(hidden_states)

    Counting.__name__ = "CountingRMSNorm"
    module = Counting(16)
    weight, state = module.weight.detach().clone(), torch.get_rng_state()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        found = stand_in(module)
        assert torch.is_autocast_enabled("cpu") and torch.is_inference_mode_enabled()
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(module.weight, weight) and module.weight.grad is None
    assert module.calls == [0] and module.training and found.training


def test_defaults_of_the_caller_do_not_count() -> None:
    models = [nn.Sequential(LlamaRMSNorm(16), nn.LayerNorm(16), GatedMLP()).to(dtype) for dtype in DTYPES]
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"), torch.no_grad():
            assert [len(patch(model).exchanged) for model in models] == [3, 3, 3]
    finally:
        torch.set_default_dtype(torch.float32)


def test_unpatch_restores_the_very_modules() -> None:
    model = Model()
    before = dict(model.named_modules())
    x = torch.randn(2, 16)
    expected = model.eval()(x)
    model.train()
    done = patch(model)
    model.eval()
    restored = unpatch(model)
    assert set(restored) == {each.path for each in done.exchanged}
    after = dict(model.named_modules())
    assert list(after) == list(before) and all(after[path] is module for path, module in before.items())
    assert all(not module.training for module in model.modules())
    assert torch.equal(model(x), expected)
    assert unpatch(model) == ()


def test_a_second_patch_does_nothing() -> None:
    model = Model()
    patch(model)
    modules_of = list(model.modules())
    done = patch(model)
    assert (done.exchanged, done.left) == ((), ())
    assert all(one is other for one, other in zip(model.modules(), modules_of, strict=True))


def test_shared_modules_are_exchanged_once_and_stay_shared() -> None:
    norm = LlamaRMSNorm(16)
    model = nn.Sequential(norm, nn.Sequential(norm, nn.Linear(16, 16)), norm)
    done = patch(model)
    assert [each.path for each in done.exchanged] == ["0", "2", "1.0"]
    assert model[0] is model[2] and model[0] is model[1][0] and isinstance(model[0], Patched)
    assert sum(1 for _ in model.parameters()) == 3
    unpatch(model)
    assert model[0] is norm and model[2] is norm and model[1][0] is norm


def test_shared_parameters_stay_shared() -> None:
    first, second = LlamaRMSNorm(16), LlamaRMSNorm(16)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    patch(model)
    assert model[0].weight is model[1].weight is first.weight


@pytest.mark.parametrize("through", ["deepcopy", "pickle", "torch.save"])
def test_a_patched_model_can_be_copied_and_kept(through: str) -> None:
    model = Model().eval()
    patch(model)
    if through == "deepcopy":
        other = copy.deepcopy(model)
    elif through == "pickle":
        other = pickle.loads(pickle.dumps(model))
    else:
        buffer = io.BytesIO()
        torch.save(model, buffer)
        buffer.seek(0)
        other = torch.load(buffer, weights_only=False)
    x = torch.randn(2, 16)
    assert torch.equal(other(x), model(x))
    with torch.no_grad():
        other.norm.weight.mul_(2)
    assert not torch.equal(other(x), model(x))
    patched = other(x)
    unpatch(other)
    torch.testing.assert_close(other(x), patched)
    assert type(other.norm) is nn.LayerNorm and isinstance(model.norm, PatchedLayerNorm)


def test_what_replaces_a_parameter_is_there_after_unpatch() -> None:
    model = Model()
    patch(model)
    state = {name: torch.full_like(value, 0.5) for name, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    model.bfloat16()
    model.norm.register_parameter("bias", None)
    unpatch(model)
    assert model.norm.bias is None and model.norm.weight.dtype == torch.bfloat16
    assert all((value == 0.5).all() for value in model.state_dict().values())


def test_hooks_that_came_later_stay_and_are_called_once() -> None:
    seen: list[type] = []
    model = nn.Sequential(LlamaRMSNorm(16))
    patch(model)
    handle = model[0].register_forward_hook(lambda module, *_: seen.append(type(module)))
    model(torch.randn(2, 16))
    model.double()(torch.randn(2, 16).double())
    unpatch(model)
    model(torch.randn(2, 16).double())
    handle.remove()
    model(torch.randn(2, 16).double())
    assert seen == [PatchedRMSNorm, PatchedRMSNorm, LlamaRMSNorm]


def test_training_goes_the_same_way() -> None:
    losses: list[list[float]] = []
    x = torch.randn(8, 16)
    for patched in (False, True):
        torch.manual_seed(1)
        model = nn.Sequential(Layer(), Layer(), nn.RMSNorm(16), nn.LayerNorm(16))
        if patched:
            assert len(patch(model).exchanged) == 6
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses.append([])
        for _ in range(5):
            loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5) and losses[0][-1] < losses[0][0]


def test_the_trial_announces_nothing_and_uses_no_announcement_up() -> None:
    arguments._announce_reference.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = nn.Sequential(nn.RMSNorm(16), nn.LayerNorm(16), GatedMLP(), GatedMLP(nn.GELU()))
        assert len(patch(model).exchanged) == 4
    with pytest.warns(UserWarning) as warned:
        model(torch.randn(2, 16))
    ops = ["rms_norm", "layer_norm", "swiglu", "geglu"]
    assert [str(each.message).partition(": Triton cannot run on cpu")[0] for each in warned] == ops


@pytest.mark.parametrize("dynamic", [None, True])
def test_torch_compile_without_a_graph_break(dynamic: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    # Dynamo cannot trace a warning, which is for CPU tensors alone.
    monkeypatch.setattr(arguments, "_announce_reference", lambda *_: None)
    model = nn.Sequential(Layer(), nn.RMSNorm(16), nn.LayerNorm(16))
    patch(model)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (3, 5):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(compiled(x), model(x))
        with torch.autocast("cpu", torch.bfloat16):
            assert compiled(x).dtype == torch.float32
    compiled(x).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
