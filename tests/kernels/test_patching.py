"""What patch exchanges, what it leaves and why, and what it tells."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernels.look_alikes import (
    DTYPES,
    BufferedMLP,
    BufferedRMSNorm,
    CentredRMSNorm,
    ClampedMLP,
    ClampedRMSNorm,
    CountingActivation,
    CountingRMSNorm,
    DetachedRMSNorm,
    DroppingMLP,
    DroppingRMSNorm,
    FailingRMSNorm,
    FrozenLayerNorm,
    FusedMLP,
    GatedMLP,
    GatedRMSNorm,
    GemmaRMSNorm,
    ListingRMSNorm,
    LlamaRMSNorm,
    Model,
    NoRMSNorm,
    OneGroupLayerNorm,
    ReadingMLP,
    RecordingLayerNorm,
    RecordingMLP,
    RecordingRMSNorm,
    RenamingRMSNorm,
    RMSNormInBF16,
    RMSNormInFP32,
    ScaledMLP,
    StatefulRMSNorm,
    SummingRMSNorm,
    SwappedMLP,
    T5LayerNorm,
    assert_rounded_alike,
    reason,
    stand_in,
)
from torch import Tensor, nn
from torch.nn import functional

from warpsmith.kernels import modules, patch, unpatch
from warpsmith.kernels.patching import Exchanged, NotExchanged
from warpsmith.kernels.patching.stand_ins import PatchedRMSNorm

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Triton cannot run on", "ignore:Mismatch dtype between input and weight"
)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# What is exchanged


@pytest.mark.parametrize(
    ("module", "kernel"),
    [
        (LlamaRMSNorm(48, 1e-5), "rms_norm, eps=1e-05, offset=0.0, casting='llama'"),
        (T5LayerNorm(48), "rms_norm, eps=1e-06, offset=0.0, casting='llama'"),
        (GemmaRMSNorm(48), "rms_norm, eps=1e-06, offset=1.0, casting='gemma'"),
        (GemmaRMSNorm(1021), "rms_norm, eps=1e-06, offset=1.0, casting='gemma'"),
        (nn.RMSNorm(48, 1e-5), "rms_norm, eps=1e-05, offset=0.0, casting='gemma'"),
        (nn.RMSNorm(48), "rms_norm, eps=1.1920928955078125e-07, offset=0.0, casting='gemma'"),
        (nn.LayerNorm(48), "layer_norm, eps=1e-05"),
        (nn.LayerNorm(48, 1e-12, bias=False), "layer_norm, eps=1e-12"),
        (nn.LayerNorm(48, elementwise_affine=False), "layer_norm, eps=1e-05"),
        (GatedMLP(), "swiglu"),
        (GatedMLP(functional.silu, bias=True), "swiglu"),
        (GatedMLP(nn.GELU()), "geglu, approximate='none'"),
        (GatedMLP(nn.GELU("tanh")), "geglu, approximate='tanh'"),
    ],
)
def test_settings_are_those_that_agree_with_the_original(module: nn.Module, kernel: str) -> None:
    found = stand_in(module)
    assert str(found.computation) == kernel
    assert repr(found).startswith(type(found).__name__) and f"in place of {type(module).__name__}" in repr(found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "make", [lambda: LlamaRMSNorm(16), lambda: GemmaRMSNorm(16), lambda: nn.RMSNorm(16), lambda: nn.LayerNorm(16)]
)
def test_a_norm_rounds_as_the_original_in_every_dtype(make: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    original = make().to(dtype)
    found, x = stand_in(original), torch.randn(4, 7, 16).to(dtype)
    assert_rounded_alike(found(x), original(x))
    with torch.autocast("cpu", torch.bfloat16):
        assert_rounded_alike(found(x), original(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gated_mlp_gives_the_same_but_for_a_rounding_that_it_saves(dtype: torch.dtype) -> None:
    original = GatedMLP().to(dtype)
    found, x = stand_in(original), torch.randn(4, 7, 16).to(dtype)
    torch.testing.assert_close(found(x), original(x), rtol=0.02, atol=4 * torch.finfo(dtype).eps)


def test_what_a_kernel_does_not_take_goes_to_the_original() -> None:
    for original in (LlamaRMSNorm(16), nn.LayerNorm(16), GatedMLP()):
        found = stand_in(original)
        found.double()
        x = torch.randn(3, 16, dtype=torch.float64)
        assert torch.equal(found(x), original(x)) and found(x).dtype == torch.float64
    mixed = stand_in(LlamaRMSNorm(16))
    assert mixed(torch.randn(3, 16).bfloat16()).dtype == torch.float32
    with pytest.raises(RuntimeError, match="size of tensor"):
        mixed(torch.randn(3, 17))


def test_norms_of_torch_are_still_told_by_their_class() -> None:
    assert isinstance(stand_in(nn.RMSNorm(16)), nn.RMSNorm | PatchedRMSNorm)
    assert isinstance(stand_in(nn.RMSNorm(16)), nn.RMSNorm)
    assert isinstance(stand_in(nn.LayerNorm(16)), nn.LayerNorm)


def test_the_input_may_be_given_by_its_name_in_the_original() -> None:
    found, x = stand_in(LlamaRMSNorm(16)), torch.randn(3, 16)
    assert torch.equal(found(hidden_states=x), found(x))
    with pytest.raises(TypeError, match="PatchedRMSNorm: expected one input, found 2"):
        found(x, x)


def test_projections_are_called_as_they_are() -> None:
    class LowRank(nn.Module):
        def __init__(self, linear: nn.Linear) -> None:
            super().__init__()
            self.linear, self.down, self.up = linear, nn.Linear(16, 2), nn.Linear(2, 40)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.linear(x) + self.up(self.down(x))
            return y

    original = GatedMLP()
    original.up_proj = LowRank(original.up_proj)  # type: ignore[assignment]
    seen: list[str] = []
    original.gate_proj.register_forward_hook(lambda *_: seen.append("gate"))
    found, x = stand_in(original), torch.randn(3, 16)
    assert seen == []
    torch.testing.assert_close(found(x), original(x))
    assert seen == ["gate", "gate"]


def test_names_of_the_original_do_not_meet_those_of_the_stand_in() -> None:
    class Crowded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate_proj, self.up_proj, self.down_proj = nn.Linear(16, 40), nn.Linear(16, 40), nn.Linear(40, 16)
            self.activation = nn.SiLU()
            self.width, self.kernel, self.output = 1, "none", None

        def forward(self, hidden: Tensor) -> Tensor:
            y: Tensor = self.down_proj(self.activation(self.gate_proj(hidden)) * self.up_proj(hidden))
            return y

    original = Crowded()
    found, x = stand_in(original), torch.randn(3, 16)
    torch.testing.assert_close(found(x), original(x))
    assert found.activation is original.activation and (found.width, found.kernel, found.output) == (1, "none", None)


def test_a_projection_may_stand_in_two_places() -> None:
    original = GatedMLP()
    original.up_proj = original.gate_proj
    found, x = stand_in(original), torch.randn(3, 16)
    torch.testing.assert_close(found(x), original(x))
    assert found.up_proj is found.gate_proj


# What is left


def hooked(module: nn.Module) -> nn.Module:
    module.register_full_backward_hook(lambda *_: None)
    return module


def hooked_inside(module: GatedMLP) -> nn.Module:
    assert isinstance(module.act_fn, nn.Module)
    module.act_fn.register_forward_hook(lambda *_: pytest.fail("the trial calls the hook"))
    return module


def replaced_inside(module: GatedMLP) -> nn.Module:
    replaced(module.act_fn)  # type: ignore[arg-type]
    return module


def named(module: nn.Module) -> nn.Module:
    module.original = 3  # type: ignore[assignment]
    return module


def replaced(module: nn.Module) -> nn.Module:
    module.forward = module.forward  # type: ignore[method-assign]
    return module


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (NoRMSNorm(48), "it is not rms_norm, .* offset=0.0, casting='llama': in float32, values differ by up to"),
        (CentredRMSNorm(48), r"it is not layer_norm, eps=1e-06: in bfloat16, \d+% of the values differ"),
        (RMSNormInBF16(48), r"it is not rms_norm, .*: in bfloat16, \d+% of the values differ"),
        (DetachedRMSNorm(48), "in float32, in training, values differ"),
        (DroppingRMSNorm(48), "in float32, in training, values differ"),
        (GatedRMSNorm(48), r"expected a forward of one input, found \(x: .*gate"),
        (BufferedRMSNorm(48), "expected no parameters or buffers but weight and bias"),
        (FailingRMSNorm(48), "a copy of it could not be tried: RuntimeError: not on$"),
        (OneGroupLayerNorm(), "expected parameters of one dimension and one size, found none"),
        (nn.LayerNorm((4, 12)), r"expected parameters of one dimension and one size, found \(4, 12\)"),
        (nn.RMSNorm((4, 12)), r"found \(4, 12\)"),
        (LlamaRMSNorm(48).double(), "weight must be a plain parameter of float32, .*, found a Parameter of .*float64"),
        (LlamaRMSNorm(48).to("meta"), "weight is on the meta device"),
        (GatedMLP().to("meta"), "gate_proj.weight is on the meta device"),
        (hooked(nn.LayerNorm(48)), r"it has hooks \(_backward_hooks\)"),
        (hooked(GatedMLP()), "it has hooks"),
        (hooked_inside(GatedMLP()), r"its act_fn has hooks \(_forward_hooks"),
        (replaced(nn.LayerNorm(48)), "its forward was replaced"),
        (replaced_inside(GatedMLP()), "its act_fn's forward was replaced"),
        (torch.nn.utils.parametrizations.weight_norm(nn.LayerNorm(48), dim=None), "it has hooks"),
        (named(GatedMLP()), "it has an attribute original, which the stand-in has too"),
        (GatedMLP(nn.ReLU()), "it is not swiglu: in float32, values differ"),
        (GatedMLP(lambda x: x * torch.sigmoid(1.702 * x)), "in float32, values differ"),
        (SwappedMLP(), "in float32, values differ"),
        (ReadingMLP(), "a copy of it could not be tried: AttributeError: .*no attribute 'weight'"),
        (ScaledMLP(), "expected no parameters or buffers but its projections', found scale"),
        (BufferedMLP(), "expected no parameters or buffers but its projections', found scale"),
        (DroppingMLP(), "its dropout is a Dropout"),
        (ClampedMLP(50.0), "in float32, on large values, values differ"),
        (ClampedMLP(65504.0), "in float32, on large values, values differ"),
        (ClampedRMSNorm(48), "in float32, on large values, "),
        (CountingRMSNorm(48), "its forward changes calls"),
        (ListingRMSNorm(48), "its forward changes widths"),
        (SummingRMSNorm(48), "its forward changes seen"),
        (GatedMLP(CountingActivation()), r"its forward changes act_fn\.calls"),
        (StatefulRMSNorm(48), "StatefulRMSNorm overrides get_extra_state, set_extra_state of torch.nn.Module"),
        (RenamingRMSNorm(48), "RenamingRMSNorm overrides _load_from_state_dict of torch.nn.Module"),
        (RMSNormInFP32(48), "RMSNormInFP32 overrides _apply of torch.nn.Module"),
        (FrozenLayerNorm(48), "FrozenLayerNorm overrides train of torch.nn.Module"),
        (RecordingRMSNorm(48), "RecordingRMSNorm overrides the forward of LlamaRMSNorm$"),
        (RecordingLayerNorm(48), "RecordingLayerNorm overrides the forward of LayerNorm$"),
        (RecordingMLP(), "RecordingMLP overrides the forward of GatedMLP$"),
        (FusedMLP(), "expected children gate_proj, up_proj, down_proj"),
    ],
)
def test_what_is_left_says_why(module: nn.Module, told: str) -> None:
    assert re.search(told, reason(module))


def test_what_is_of_another_kind_is_not_spoken_of() -> None:
    others = (
        nn.Linear(4, 4),
        nn.BatchNorm1d(4),
        nn.GroupNorm(2, 4),
        nn.SiLU(),
    )
    done = patch(nn.Sequential(*others, modules.RMSNorm(4), modules.LayerNorm(4)))
    assert (done.exchanged, done.left) == ((), ())


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_what_is_of_torchscript_is_left() -> None:
    x = torch.ones(2, 16)
    holder = nn.Sequential(torch.jit.trace(GatedMLP(), x), torch.jit.trace(nn.ReLU(), x))
    assert [(each.path, each.reason) for each in patch(holder).left] == [("0", "it is of TorchScript")]


def test_only_some_kernels() -> None:
    holder = nn.Sequential(LlamaRMSNorm(16), nn.LayerNorm(16), GatedMLP(), GatedMLP(nn.GELU()))
    assert [each.path for each in patch(holder, only=["layer_norm"]).exchanged] == ["1"]
    assert [each.path for each in patch(holder, only={"geglu"}).exchanged] == ["3"]
    done = patch(holder, only=("swiglu", "rms_norm"))
    assert [each.path for each in done.exchanged] == ["0", "2"] and done.left == ()


def test_a_class_may_say_what_it_is_and_how_it_is_made() -> None:
    class Said(nn.Module):
        dim = 16

        def __init__(self) -> None:
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.ones(16)), 1e-6

        def forward(self, x: Tensor) -> Tensor:
            return functional.rms_norm(x, (16,), self.weight, self.eps)

        def extra_repr(self) -> str:
            return "16"

        def reset_parameters(self) -> None:
            nn.init.ones_(self.weight)

    Said.__name__ = "SaidRMSNorm"
    assert isinstance(stand_in(Said()).original, Said)


# What is told


def test_the_summary_prints_what_was_done_by_kind() -> None:
    model = nn.Sequential(*(nn.LayerNorm(16) for _ in range(4)), LlamaRMSNorm(16), FusedMLP())
    done = patch(model)
    assert done.exchanged[4] == Exchanged("4", "LlamaRMSNorm", "rms_norm, eps=1e-06, offset=0.0, casting='llama'")
    assert done.left == (NotExchanged("5", "FusedMLP", "expected children gate_proj, up_proj, down_proj"),)
    assert str(done).splitlines() == [
        "5 exchanged, 1 left",
        "  LayerNorm for layer_norm, eps=1e-05: 0, ..., 3 (4)",
        "  LlamaRMSNorm for rms_norm, eps=1e-06, offset=0.0, casting='llama': 4",
        "  left FusedMLP, expected children gate_proj, up_proj, down_proj: 5",
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((LlamaRMSNorm(16),), ValueError, r"itself a LlamaRMSNorm.*; patch the module that holds it, or torch.nn.Seq"),
        ((GatedMLP(),), ValueError, "itself a GatedMLP"),
        ((stand_in(nn.LayerNorm(16)),), ValueError, "itself a PatchedTorchLayerNorm"),
        ((torch.compile(Model()),), ValueError, "the model is compiled already; patch it before torch.compile"),
        ((nn.Sequential(torch.compile(Model())),), ValueError, "0 is compiled already"),
        (("model",), TypeError, "model must be a torch.nn.Module, found str"),
        ((Model(), "rms_norm"), ValueError, r"only must be a collection of names among \('rms_norm'.*'rms_norm'"),
        ((Model(), ["softmax"]), ValueError, r"found \['softmax'\]"),
        ((Model(), iter(["rms_norm"])), TypeError, "only must be a collection of names among .* found list_iterator"),
    ],
)
def test_what_cannot_be_patched_is_refused(arguments: Any, error: type[Exception], message: str) -> None:
    model, *only = arguments
    with pytest.raises(error, match=message):
        patch(model, only=only[0] if only else None)


def test_a_stand_in_itself_cannot_be_unpatched() -> None:
    with pytest.raises(ValueError, match="expected a model that holds patched modules, found a PatchedGatedMLP"):
        unpatch(stand_in(GatedMLP()))


def test_only_a_module_can_be_unpatched() -> None:
    with pytest.raises(TypeError, match=r"unpatch: model must be a torch.nn.Module, found int"):
        unpatch(5)  # type: ignore[arg-type]


# The kernels


@pytest.mark.usefixtures("interpreter_loops")
def test_interpreted_kernels_pass_the_trial(interpreted_errors: dict[str, list[str]]) -> None:
    assert interpreted_errors["left"] == []
    gated = ["swiglu", "geglu, approximate='none'", "geglu, approximate='tanh'"]
    assert interpreted_errors["kernels"] == ["layer_norm, eps=1e-05"] * 3 + gated
