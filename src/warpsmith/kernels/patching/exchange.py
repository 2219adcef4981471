"""Exchanges modules of a model for modules that call the library's kernels, and puts the originals back.

Owns the walk over a model and the report. Must not know which modules are exchanged, or for what.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from warpsmith.kernels.patching.matching import KERNELS, Verdicts, exchange_for, is_of_a_kind
from warpsmith.kernels.patching.stand_ins import Patched


@dataclass(frozen=True)
class Exchanged:
    """A module that was exchanged: its place in the model, its class, the kernel with its settings."""

    path: str
    original: str
    kernel: str


@dataclass(frozen=True)
class NotExchanged:
    """A module that looked as if it could be exchanged, and the reason why it was not."""

    path: str
    original: str
    reason: str


@dataclass(frozen=True)
class PatchReport:
    """What `patch` did. A module that stands in several places is listed for each."""

    exchanged: tuple[Exchanged, ...]
    left: tuple[NotExchanged, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.exchanged)} exchanged, {len(self.left)} left"]
        kinds: dict[str, list[str]] = {}
        for each in self.exchanged:
            kinds.setdefault(f"{each.original} for {each.kernel}", []).append(each.path)
        for other in self.left:
            kinds.setdefault(f"left {other.original}, {other.reason}", []).append(other.path)
        lines += [f"  {kind}: {_few(paths)}" for kind, paths in kinds.items()]
        return "\n".join(lines)


def _few(paths: list[str]) -> str:
    return ", ".join(paths) if len(paths) <= 3 else f"{paths[0]}, ..., {paths[-1]} ({len(paths)})"


def patch(model: nn.Module, *, only: Collection[str] | None = None) -> PatchReport:
    """Exchange RMSNorm, LayerNorm and gated MLPs inside a model for modules that call the kernels.

    Looked at are torch.nn.RMSNorm and LayerNorm, classes with RMSNorm or LayerNorm in their name, as those of
    transformers, and modules with gate_proj, up_proj and down_proj. A module is exchanged if a copy of it computes
    what the kernel does, on a small random input, within rounding and with gradients; its settings (eps, casting,
    offset, activation) are those that agree.

    Not exchanged are modules that have hooks, dropout or parameters that are no plain tensors, modules that change
    their attributes, and those whose class overrides methods of torch.nn.Module, or the forward of another class, which
    may do more than compute. The report names them with the reason. What does not look like a norm or a gated MLP is
    passed over.

    Parameters, keys of the state_dict, shared modules, training mode, hooks and the module's own attributes stay. The
    class changes: isinstance with a class of your own is False, and its methods and properties are reached through
    `original`. Inputs that a kernel does not take go to the original: float64, and 16 bits under autocast in torch's
    norms, which give fp32 there.

    Settings are those of this moment: to change an eps, unpatch, change it and patch again. Of a gated MLP's children
    only the projections are called: hooks that are put on the others later do not run. Gradients are of the first
    order, in reverse mode. torch.func, torch.fx and torch.jit.script do not see through the kernels: unpatch before.

    Move the model to its device and parametrize it before, and compile it after. Patched models can be copied and
    pickled. A second call exchanges only what is new; a module that two models share gets a stand-in in each, over the
    same state. Equal modules (class, attributes, shapes, device) are tried once, and nothing is exchanged before all
    are tried. The trials announce nothing.

    Args:
        model: the module that holds them. Each is tried on its own device.
        only: names of KERNELS to exchange modules for; None for all.

    Raises:
        TypeError: where the model is no module, or `only` no collection.
        ValueError: where the model is itself such a module, or is compiled, or `only` names something else.
    """
    kernels = _checked(model, only)
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    exchanged: list[Exchanged] = []
    left: list[NotExchanged] = []
    found: dict[nn.Module, Patched | str | None] = {}
    verdicts: Verdicts = {}
    places = list(_places(model))
    for path, _, _, module in places:
        if module not in found:
            found[module] = exchange_for(module, kernels, device, verdicts)
        outcome, original = found[module], type(module).__name__
        if isinstance(outcome, Patched):
            exchanged.append(Exchanged(path, original, str(outcome.computation)))
        elif outcome is not None:
            left.append(NotExchanged(path, original, outcome))
    for _, parent, name, module in places:
        if isinstance(stand_in := found[module], Patched):
            setattr(parent, name, stand_in)
    return PatchReport(tuple(exchanged), tuple(left))


def unpatch(model: nn.Module) -> tuple[str, ...]:
    """Put the original module objects back, with the state that is there now. Returns their places.

    Raises:
        TypeError: where the model is no module.
        ValueError: where the model is itself a module that `patch` put somewhere (unpatch what holds it), or where such
            a module was parametrized since, which took a parameter from the original. Nothing is put back then.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"unpatch: model must be a torch.nn.Module, found {type(model).__name__}")
    if isinstance(model, Patched):
        raise ValueError(f"unpatch: expected a model that holds patched modules, found a {type(model).__name__} itself")
    places = [place for place in _places(model) if isinstance(place[3], Patched)]
    for path, _, _, stand_in in places:
        if is_parametrized(stand_in):
            raise ValueError(
                f"unpatch: {path} was parametrized after patch, and its original was not; call "
                "torch.nn.utils.parametrize.remove_parametrizations on it before"
            )
    for _, parent, name, stand_in in places:
        assert isinstance(stand_in, Patched)
        setattr(parent, name, stand_in.original)
    return tuple(path for path, *_ in places)


def _checked(model: nn.Module, only: Collection[str] | None) -> tuple[str, ...]:
    """The kernels to exchange for. Raises as `patch` does."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"patch: model must be a torch.nn.Module, found {type(model).__name__}")
    if isinstance(model, Patched) or is_of_a_kind(model):
        raise ValueError(
            f"patch: the model is itself a {type(model).__name__}, and only what a module holds can be exchanged; "
            "patch the module that holds it, or torch.nn.Sequential(module)"
        )
    for path, module in model.named_modules():
        if _is_compiled(module):
            raise ValueError(f"patch: {path or 'the model'} is compiled already; patch it before torch.compile")
    if only is None:
        return KERNELS
    if not isinstance(only, Collection):
        raise TypeError(f"patch: only must be a collection of names among {KERNELS}, found {type(only).__name__}")
    if isinstance(only, str) or not set(only) <= set(KERNELS):
        raise ValueError(f"patch: only must be a collection of names among {KERNELS}, found {only!r}")
    return tuple(kernel for kernel in KERNELS if kernel in only)


def _places(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, nn.Module]]:
    """(path, parent, name, module) of everything below the model, each place once."""
    for path, parent in model.named_modules():
        for name, module in parent._modules.items():
            if module is not None:
                yield f"{path}.{name}" if path else name, parent, name, module


def _is_compiled(module: nn.Module) -> bool:
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
