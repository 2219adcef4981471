"""What patch exchanges, on a GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from kernels.look_alikes import (
    DTYPES,
    DroppingRMSNorm,
    GatedMLP,
    GemmaRMSNorm,
    Layer,
    LlamaRMSNorm,
    assert_rounded_alike,
    reason,
    stand_in,
)
from torch import Tensor, nn

from warpsmith.kernels import patch
from warpsmith.kernels.patching.stand_ins import PatchedGatedMLP

pytestmark = pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")


def on_gpu(dtype: torch.dtype) -> tuple[nn.Module, nn.Module, Tensor]:
    """A model, the same patched, and an input."""
    width = 16
    plain = nn.Sequential(Layer(), Layer(), GemmaRMSNorm(width), nn.RMSNorm(width), GatedMLP(nn.GELU()))
    plain = plain.append(nn.LayerNorm(width)).to("cuda", dtype)
    patched = copy.deepcopy(plain)
    done = patch(patched)
    assert not done.left and len(done.exchanged) == 8, done
    return plain, patched, torch.randn(6, 50, width, device="cuda").to(dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs_and_gradients_are_those_of_the_plain_model(dtype: torch.dtype) -> None:
    plain, patched, x = on_gpu(dtype)
    exact = copy.deepcopy(plain).double()
    dy = torch.randn_like(x)
    found = []
    for model, cast in ((plain, dtype), (patched, dtype), (exact, torch.float64)):
        y = model(x.to(cast))
        found.append((y, *torch.autograd.grad(y, list(model.parameters()), dy.to(cast))))
    for plainly, ours, exactly in zip(*found, strict=True):
        assert ours.dtype == plainly.dtype
        scale = exactly.abs().max()
        plain_error, our_error = ((each.double() - exactly).abs().max() / scale for each in (plainly, ours))
        # No further from float64 than the plain model, but for chance.
        assert our_error <= 2 * plain_error + 8 * torch.finfo(dtype).eps


@pytest.mark.gpu
@pytest.mark.parametrize("make", [lambda: nn.RMSNorm(64), lambda: nn.LayerNorm(64), lambda: LlamaRMSNorm(64)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_autocast_gives_the_dtype_of_the_original(make: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    original = make().to("cuda")
    found = stand_in(original)
    for parameters in (torch.float32, dtype):
        original.to(parameters)
        x = torch.randn(5, 64, device="cuda").to(dtype)
        with torch.autocast("cuda", torch.bfloat16):
            assert_rounded_alike(found(x), original(x))


@pytest.mark.gpu
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_on_a_gpu_without_a_graph_break(dynamic: bool | None) -> None:
    _, patched, x = on_gpu(torch.bfloat16)
    torch.compiler.reset()
    compiled = torch.compile(patched, fullgraph=True, dynamic=dynamic)
    for rows in (6, 4):
        expected, found = patched(x[:rows]), compiled(x[:rows])
        torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)
    found.sum().backward()
    assert all(parameter.grad is not None for parameter in patched.parameters())


@pytest.mark.gpu
def test_a_row_too_wide_for_the_kernel_is_left() -> None:
    assert "at most 65536 are supported" in reason(nn.LayerNorm(65537, device="cuda"))


@pytest.mark.gpu
def test_trying_leaves_the_random_state_of_the_gpu() -> None:
    model = nn.Sequential(DroppingRMSNorm(64)).cuda()
    state = torch.cuda.get_rng_state()
    patch(model)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert isinstance(stand_in(GatedMLP().cuda()), PatchedGatedMLP)
