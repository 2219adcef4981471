"""What patch finds in models of transformers, where that is installed; their look-alikes are tested without."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from warpsmith.kernels import patch, unpatch

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore:.*Triton cannot run on")

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = "rms_norm, eps=1e-06, offset=0.0, casting='llama'"
GEMMA = "rms_norm, eps=1e-06, offset=1.0, casting='gemma'"
OLMO = "rms_norm, eps=1e-05, offset=0.0, casting='gemma'"
TANH = "geglu, approximate='tanh'"


@pytest.mark.parametrize(
    ("name", "settings", "exchanged", "left"),
    [
        ("Llama", {}, {LLAMA: 5, "swiglu": 2}, 0),
        ("Llama", {"hidden_act": "gelu", "mlp_bias": True}, {LLAMA: 5, "geglu, approximate='none'": 2}, 0),
        ("Llama", {"hidden_act": "relu"}, {LLAMA: 5}, 2),
        ("Mistral", {}, {LLAMA: 5, "swiglu": 2}, 0),
        ("Qwen2", {}, {LLAMA: 5, "swiglu": 2}, 0),
        ("Qwen3", {"head_dim": 8}, {LLAMA: 9, "swiglu": 2}, 0),
        ("Gemma", {"head_dim": 8}, {GEMMA: 5, TANH: 2}, 0),
        ("Gemma2", {"head_dim": 8}, {GEMMA: 9, TANH: 2}, 0),
        ("Olmo2", {}, {OLMO: 9, "swiglu": 2}, 0),
        ("Cohere", {}, {"layer_norm, eps=1e-05": 3, "swiglu": 2}, 0),
        ("Phi3", {}, {LLAMA.replace("-06", "-05"): 5}, 2),
    ],
)
def test_its_models_are_exchanged_and_compute_the_same(
    name: str, settings: dict[str, Any], exchanged: dict[str, int], left: int
) -> None:
    torch.manual_seed(0)
    heads = {"num_key_value_heads": 4 if name == "Cohere" else 2}
    config = getattr(transformers, f"{name}Config")(**SIZES, **heads, **TOKENS, **settings)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            # Weights of norms start as constants.
            parameter.add_(0.1 * torch.randn_like(parameter))
    tokens = torch.randint(SIZES["vocab_size"], (2, 9))
    expected = loss_and_gradients(model, tokens)
    state = list(model.state_dict())

    done = patch(model)

    kernels = [each.kernel for each in done.exchanged]
    assert {kernel: kernels.count(kernel) for kernel in kernels} == exchanged and len(done.left) == left, done
    assert list(model.state_dict()) == state
    torch.testing.assert_close(loss_and_gradients(model, tokens), expected, rtol=1e-4, atol=1e-6)
    assert len(unpatch(model)) == len(kernels)
    torch.testing.assert_close(loss_and_gradients(model, tokens), expected, rtol=0, atol=0)


def loss_and_gradients(model: torch.nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, ...]:
    loss = model(tokens, labels=tokens).loss
    return loss, *torch.autograd.grad(loss, list(model.parameters()))
