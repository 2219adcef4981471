"""The small Llama-like model that benchmark/training.py trains, in plain torch, and text that it can learn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

#: Successors that each token has; their probabilities halve, and so give an entropy of 1.14 nats a token.
SUCCESSORS = 4
#: Tokens that are ever spoken, as most of a vocabulary are rare. With 4096, so few of each are in a batch that for 50
#: steps nothing is learned of what follows them; and when it starts then, rounding decides.
SPOKEN = 512
#: What adds to the residual stream, twice a layer.
ONTO_RESIDUALS = ("o_proj.weight", "down_proj.weight")


@dataclass(frozen=True)
class Sizes:
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    sequence: int
    batch: int


class RMSNorm(nn.Module):
    """As Llama's: the weight meets x̂ in the dtype of x."""

    def __init__(self, hidden: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.variance_epsilon = eps

    def forward(self, x: Tensor) -> Tensor:
        normalized = x.float()
        normalized = normalized * torch.rsqrt(normalized.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * normalized.to(x.dtype)


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.qkv_proj = nn.Linear(sizes.hidden, 3 * sizes.hidden, bias=False)
        self.o_proj = nn.Linear(sizes.hidden, sizes.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.qkv_proj(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.o_proj(y.transpose(1, 2).flatten(2))
        return out


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class GatedMLP(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(sizes.hidden, sizes.intermediate, bias=False)
        self.up_proj = nn.Linear(sizes.hidden, sizes.intermediate, bias=False)
        self.down_proj = nn.Linear(sizes.intermediate, sizes.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


class Layer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.input_norm = RMSNorm(sizes.hidden)
        self.attention = Attention(sizes)
        self.mlp_norm = RMSNorm(sizes.hidden)
        self.mlp = GatedMLP(sizes)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.input_norm(x), cos, sin)
        y: Tensor = x + self.mlp(self.mlp_norm(x))
        return y


class Llama(nn.Module):
    """Tokens (batch, sequence) in, logits (batch, sequence, vocabulary) out."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = RMSNorm(sizes.hidden)
        self.head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)
        self.half_head = sizes.hidden // sizes.heads // 2
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)
            if name.endswith(ONTO_RESIDUALS):
                # As GPT-2's: what all layers add is then no larger than what one would.
                parameter.detach().mul_((2 * sizes.layers) ** -0.5)

    def states(self, tokens: Tensor) -> Tensor:
        """What the head makes logits of, (batch, sequence, hidden)."""
        x = self.embedding(tokens)
        # No buffer, which would be rounded with the parameters.
        positions, pairs = (torch.arange(size, device=x.device) for size in (tokens.shape[1], self.half_head))
        angles = torch.outer(positions, 10000.0 ** (-pairs / self.half_head))
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        states: Tensor = self.norm(x)
        return states

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.states(tokens))
        return logits


class MarkovChain:
    """Text of a fixed chain: what follows a token is one of a few others, of the same probabilities for every token."""

    def __init__(self, sizes: Sizes, device: torch.device) -> None:
        self.sizes = sizes
        self.device = device
        random = torch.Generator().manual_seed(1)
        self.spoken = min(SPOKEN, sizes.vocabulary)
        self.successors = torch.randint(self.spoken, (self.spoken, SUCCESSORS), generator=random)
        self.probabilities = 0.5 ** torch.arange(SUCCESSORS)

    def batch(self, step: int) -> Tensor:
        """(batch, sequence + 1), the same for the same step."""
        random = torch.Generator().manual_seed(1000 + step)
        shape = (self.sizes.batch, self.sizes.sequence)
        choices = torch.multinomial(self.probabilities, shape[0] * shape[1], replacement=True, generator=random)
        tokens = [torch.randint(self.spoken, shape[:1], generator=random)]
        for choice in choices.view(shape).unbind(1):
            tokens.append(self.successors[tokens[-1], choice])
        return torch.stack(tokens, dim=1).to(self.device)
