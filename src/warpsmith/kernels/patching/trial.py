"""Whether a stand-in computes what the original does: both are called on a small random input and compared.

A class of the right name may compute something else, and a subclass anything at all. So a copy of the original is
given random parameters and called, and so is the stand-in of that copy: on the original's device, in each dtype, in
evaluation and in training, with gradients. The original itself is not called, nothing is announced, and the random
state of the caller does not change.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from warpsmith.kernels.arguments import FLOATING, unannounced
from warpsmith.kernels.patching.stand_ins import Computation, stand_in

#: As a share of the largest value in a row. Chosen: sums of 65536 values in another order differ by less, those of
#: another eps or another GELU by more.
ROUNDING = 2e-5
#: The same for a few values, which rounding took to the other neighbour. In 16 bits, eight times their precision.
ROUNDED_AWAY = 1e-3
#: The share that these few may be. Chosen: another casting moves a third of all values, another order of summation
#: less than one in a thousand.
MOST_ROUNDED_AWAY = 0.02

#: Attributes of these types are searched for what a forward changes in them.
CONTAINERS = (list, dict, set)
#: A multiple of the usual inputs at which a clamp shows, even one at the end of fp16's range.
LARGE = 1e5


@dataclass(frozen=True)
class Check:
    """How a module is tried.

    `exact_roundings`: the stand-in must also round where the original does, besides computing the same. `scale`: a
    multiple of the usual inputs.
    """

    dtype: torch.dtype
    training: bool = False
    autocast: bool = False
    exact_roundings: bool = True
    scale: float = 1.0

    def __str__(self) -> str:
        how = ", in training" if self.training else ", under autocast" if self.autocast else ""
        how += ", on large values" if self.scale > 1 else ""
        return f"{str(self.dtype).removeprefix('torch.')}{how}"


#: Given a check, the random parts for a copy, by the id of what they replace in it, and an input.
DrawPartsAndInput = Callable[[Check], tuple[Mapping[int, nn.Module | nn.Parameter], Tensor]]


@dataclass(frozen=True)
class Difference:
    """The first check at which a stand-in differs, and how."""

    check: Check
    what: str
    checks_passed: int

    def __str__(self) -> str:
        return f"in {self.check}, {self.what}"


@dataclass(frozen=True)
class Trial:
    """The module that is compared with its stand-ins, the device, and what it is called on."""

    module: nn.Module
    device: torch.device
    draw: DrawPartsAndInput

    def observe(self, check: Check, build: Callable[[nn.Module], nn.Module]) -> tuple[Tensor | None, ...]:
        """The output, and in training the gradients of the input and of every random parameter."""
        parts, x = self.draw(check)
        copied = copy.deepcopy(self.module, dict(parts))
        copied.train(check.training)
        tried = build(copied)
        before = _attributes(tried)
        x.requires_grad_(check.training)
        with torch.autocast(self.device.type, check.dtype if check.autocast else None, enabled=check.autocast):
            y = tried.forward(x)
        if changed := [name for name, value in _attributes(tried).items() if not _is_same(value, before.get(name))]:
            raise TypeError(f"its forward changes {', '.join(changed)}")
        if not isinstance(y, Tensor):
            raise TypeError(f"its output is a {type(y).__name__}, expected a tensor")
        if not check.training:
            return (y.detach(),)
        dy = _randn(y.shape, torch.Generator("cpu").manual_seed(2)).to(self.device, y.dtype)
        return (y.detach(), *torch.autograd.grad(y, (x, *tried.parameters()), dy, allow_unused=True))

    def differences(self, checks: tuple[Check, ...], candidates: Sequence[Computation]) -> list[Difference | None]:
        """For each candidate where it first differs from the original, or None if it does not.

        Raises what the original raises.
        """
        found: list[Difference | None] = [None] * len(candidates)
        with _nothing_of_the_surroundings(self.device):
            for passed, check in enumerate(checks):
                expected = self.observe(check, lambda module: module)
                for index, candidate in enumerate(candidates):
                    if found[index] is None and (what := self._difference(check, candidate, expected)):
                        found[index] = Difference(check, what, passed)
        return found

    def _difference(self, check: Check, candidate: Computation, expected: tuple[Tensor | None, ...]) -> str | None:
        try:
            observed = self.observe(check, lambda module: stand_in(module, candidate))
        except Exception as error:
            return first_line(error)
        most = MOST_ROUNDED_AWAY if check.exact_roundings else 1.0
        pairs = zip(observed, expected, strict=True)
        return next((what for ours, theirs in pairs if (what := _difference_between(ours, theirs, most))), None)


def first_line(error: Exception) -> str:
    """Its type, and what it says first."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _difference_between(ours: Tensor | None, theirs: Tensor | None, most_rounded_away: float) -> str | None:
    if ours is None or theirs is None:
        return None if ours is theirs else "a gradient is there in one and not in the other"
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{theirs.dtype} of shape {tuple(theirs.shape)}, not {ours.dtype} of {tuple(ours.shape)}"
    exact = theirs.double()
    error = (ours.double() - exact).abs() / exact.abs().amax(-1, keepdim=True).clamp_min(1e-30)
    # Written so that a NaN is a difference.
    if not (error <= max(ROUNDED_AWAY, 8 * torch.finfo(theirs.dtype).eps)).all():
        return f"values differ by up to {error.max():.1e} of the largest"
    share = 1 - (error <= ROUNDING).double().mean().item()
    return f"{share:.0%} of the values differ" if share > most_rounded_away else None


def _attributes(module: nn.Module) -> dict[str, list[object]]:
    """Attributes of it and its children, by name: the value, the contents of a container, the versions of tensors."""
    found: dict[str, list[object]] = {}
    for path, each in module.named_modules():
        for name, value in vars(each).items():
            inside = list(value) if isinstance(value, CONTAINERS) else []
            inside += value.values() if isinstance(value, dict) else []
            versions = [tensor._version for tensor in (value, *inside) if isinstance(tensor, Tensor)]
            found[f"{path}.{name}" if path else name] = [value, *inside, *versions]
    return found


def _is_same(one: list[object], other: list[object] | None) -> bool:
    if other is None or len(one) != len(other):
        return False
    return all(a is b or (isinstance(a, int) and a == b) for a, b in zip(one, other, strict=True))


@contextmanager
def _nothing_of_the_surroundings(device: torch.device) -> Iterator[None]:
    """Without the caller's autocast, inference mode and current GPU; random state is restored, nothing announced."""
    cuda = device.type == "cuda"
    with ExitStack() as stack:
        stack.enter_context(unannounced())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.random.fork_rng([device] if cuda else []))
        stack.enter_context(torch.autocast(device.type, enabled=False))
        if cuda:
            stack.enter_context(torch.cuda.device(device))
        yield


# Random values, made on the CPU in fp32 whatever the caller's defaults are


def _randn(shape: Sequence[int], random: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=random, device="cpu", dtype=torch.float32)


def _column(*values: float) -> Tensor:
    return torch.tensor(values, device="cpu", dtype=torch.float32)[:, None, None]


# What norms are tried on


NORM_CHECKS = (
    Check(torch.float32),
    Check(torch.float32, training=True),
    Check(torch.float32, scale=LARGE),
    Check(torch.bfloat16),
    Check(torch.float16),
)
AUTOCAST_CHECKS = tuple(Check(dtype, autocast=True) for dtype in FLOATING if dtype != torch.float32)


def norm_trial(module: nn.Module, width: int, eps: float, device: torch.device) -> Trial:
    """Called on rows of values of about 1, of about 30, off zero, and so small that eps counts."""

    def draw(check: Check) -> tuple[Mapping[int, nn.Module | nn.Parameter], Tensor]:
        random = torch.Generator("cpu").manual_seed(1)
        parts = {
            id(each): nn.Parameter(_randn(each.shape, random).to(device, check.dtype))
            for each in module.parameters(recurse=False)
        }
        scales = _column(1.0, 30.0, 1.0, max(eps, 1e-8) ** 0.5)
        shifts = _column(0.0, 0.0, 3.0, 0.0)
        # Enough values that another casting shows.
        x = _randn((4, max(1, 512 // width), width), random) * scales + shifts
        return parts, (x * check.scale).to(device, check.dtype)

    return Trial(module, device, draw)


# What gated MLPs are tried on


#: fp32 tells the activations apart. In 16 bits a stand-in may differ by a rounding, because it makes one less.
GATED_CHECKS = (
    Check(torch.float32),
    Check(torch.float32, training=True),
    Check(torch.float32, scale=LARGE),
    *(Check(dtype, exact_roundings=False) for dtype in FLOATING if dtype != torch.float32),
)
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


class _Projection(nn.Module):
    """A small linear map without a weight, so that a module which reads the weight instead of calling it fails."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix = nn.Parameter(matrix)

    def forward(self, x: Tensor) -> Tensor:
        # In float64, which TF32 does not touch.
        return (x.double() @ self.matrix.double()).to(x.dtype)


def gated_trial(module: nn.Module, device: torch.device) -> Trial:
    """Called with small projections in the place of its own, and with gates of about 2, where activations differ."""

    def draw(check: Check) -> tuple[Mapping[int, nn.Module | nn.Parameter], Tensor]:
        random = torch.Generator("cpu").manual_seed(1)
        parts = {}
        for name, shape, scale in zip(PROJECTIONS, ((16, 24), (16, 24), (24, 16)), (2.0, 1.0, 1.0), strict=True):
            matrix = _randn(shape, random) * (scale / shape[0] ** 0.5)
            parts[id(getattr(module, name))] = _Projection(matrix.to(device, check.dtype))
        return parts, (_randn((2, 16, 16), random) * check.scale).to(device, check.dtype)

    return Trial(module, device, draw)
