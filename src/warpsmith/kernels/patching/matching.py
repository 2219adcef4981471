"""Decides what a module can be exchanged for: first by its form, then by trial.

Must not know where in a model a module stands, nor what changes there.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from warpsmith.kernels.arguments import FLOATING
from warpsmith.kernels.modules import LayerNorm, RMSNorm
from warpsmith.kernels.patching.likeness import likeness
from warpsmith.kernels.patching.stand_ins import ByLayerNorm, ByRMSNorm, Computation, Gating, Patched, stand_in
from warpsmith.kernels.patching.trial import (
    AUTOCAST_CHECKS,
    GATED_CHECKS,
    NORM_CHECKS,
    PROJECTIONS,
    Check,
    Trial,
    first_line,
    gated_trial,
    norm_trial,
)

_Computation = TypeVar("_Computation", bound=Computation)
#: What was found for a module, its device, the checks and the candidates: a computation, or why there is none.
Verdicts = dict[Hashable, Any]

#: The kernels that modules are exchanged for.
KERNELS = ("rms_norm", "layer_norm", "swiglu", "geglu")
#: The activations that each computes between the projections of a gated MLP: "silu", or geglu's `approximate`.
ACTIVATIONS = {"swiglu": ("silu",), "geglu": ("none", "tanh")}
#: Names under which norms keep their eps.
EPS_NAMES = ("variance_epsilon", "eps", "epsilon")
#: (casting, offset), the most usual first.
RMS_NORMS = (("llama", 0.0), ("gemma", 0.0), ("gemma", 1.0), ("llama", 1.0))
#: Methods of torch.nn.Module that a class may override and still be exchanged.
MAY_OVERRIDE = {"__init__", "__init_subclass__", "__repr__", "extra_repr", "forward"}


def is_of_a_kind(module: nn.Module) -> bool:
    """Whether it looks like a norm or a gated MLP."""
    return _looks_like_norm(module) or _has_projections(module)


def _looks_like_norm(module: nn.Module) -> bool:
    name = type(module).__name__.lower()
    return isinstance(module, nn.LayerNorm | nn.RMSNorm) or "rmsnorm" in name or "layernorm" in name


def _has_projections(module: nn.Module) -> bool:
    return all(isinstance(getattr(module, name, None), nn.Module) for name in PROJECTIONS)


def exchange_for(
    module: nn.Module, kernels: tuple[str, ...], device: torch.device, verdicts: Verdicts
) -> Patched | str | None:
    """The stand-in for a module; if there is none, the reason; None if it looks like nothing that can be exchanged.

    Modules that call a kernel already are passed over, too.

    Args:
        module: of any class.
        kernels: names of KERNELS.
        device: where a module without parameters is tried.
        verdicts: of earlier trials, which this one adds to; equal modules are tried once.
    """
    if isinstance(module, Patched | RMSNorm | LayerNorm):
        return None
    device = next((parameter.device for parameter in module.parameters()), device)
    norms = tuple(kernel for kernel in kernels if kernel not in ACTIVATIONS)
    activations = tuple(name for kernel in kernels for name in ACTIVATIONS.get(kernel, ()))
    if _looks_like_norm(module) and norms:
        return _why_not_tried(module, device) or _norm(module, norms, device, verdicts)
    if _has_projections(module) and activations:
        return _why_not_tried(module, device) or _gated_mlp(module, activations, device, verdicts)
    if type(module).__name__.endswith("MLP") and activations:
        return f"expected children {', '.join(PROJECTIONS)}"
    return None


def _why_not_tried(module: nn.Module, device: torch.device) -> str | None:
    """Why a module is not exchanged whatever it computes, or None."""
    if isinstance(module, torch.jit.ScriptModule):
        return "it is of TorchScript"
    for path, each in module.named_modules():
        # A stand-in calls the projections as they are, so they may be anything. It calls no other child.
        if path.partition(".")[0] in PROJECTIONS:
            continue
        where, whose = (f"its {path}", f"its {path}'s") if path else ("it", "its")
        hooks = sorted(name for name, value in vars(each).items() if name.endswith("hooks") and value)
        if hooks:
            return f"{where} has hooks ({', '.join(hooks)})"
        if "forward" in vars(each):
            return f"{whose} forward was replaced"
        # Its probability may be 0 today and another tomorrow.
        if path and "drop" in type(each).__name__.lower():
            return f"{where} is a {type(each).__name__}"
    # torch.compile would read the original's attribute from the __dict__, instead of the stand-in's slot.
    if taken_names := [name for name in Patched.__slots__ if hasattr(module, name)]:
        return f"it has an attribute {' and '.join(taken_names)}, which the stand-in has too"
    if overridden := _overridden(type(module)):
        return f"{type(module).__name__} overrides {', '.join(overridden)} of torch.nn.Module"
    # An override may do more than compute, such as keep what it sees, which no trial shows.
    first, *others = [each for each in type(module).__mro__ if "forward" in vars(each)]
    if len(others) > 1:
        return f"{first.__name__} overrides the forward of {others[0].__name__}"
    taken = list(inspect.signature(module.forward).parameters.values())
    if len(taken) != 1 or taken[0].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        return f"expected a forward of one input, found {inspect.signature(module.forward)}"
    for name, parameter in module.named_parameters():
        if parameter.is_meta:
            return f"{name} is on the meta device: patch when it has values"
        if hasattr(parameter, "device_mesh"):
            return f"{name} is a {type(parameter).__name__}: patch before the model is distributed"
    return None if device.type in ("cuda", "cpu") else f"expected a CUDA or CPU device, found {device}"


def _overridden(kind: type[nn.Module]) -> list[str]:
    """Methods of torch.nn.Module that the class overrides, and that a stand-in, of another class, would not have."""
    of_module = {name for name in dir(nn.Module) if callable(getattr(nn.Module, name))} | {"_version"}
    own = {name for each in kind.__mro__[: kind.__mro__.index(nn.Module)] for name in vars(each)}
    return sorted((own & of_module) - MAY_OVERRIDE)


def _norm(module: nn.Module, kernels: tuple[str, ...], device: torch.device, verdicts: Verdicts) -> Patched | str:
    parameters = dict(module.named_parameters())
    shapes = {tuple(parameter.shape) for parameter in parameters.values()}
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        shapes.add(tuple(module.normalized_shape))
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        return f"expected parameters of one dimension and one size, found {', '.join(map(str, shapes)) or 'none'}"
    if not set(parameters) <= {"weight", "bias"} or list(module.buffers()):
        return "expected no parameters or buffers but weight and bias"
    for name, parameter in parameters.items():
        if type(parameter) is not nn.Parameter or parameter.dtype not in FLOATING:
            kind = f"{type(parameter).__name__} of {parameter.dtype}"
            return f"{name} must be a plain parameter of float32, float16 or bfloat16, found a {kind}"
    eps = _eps(module)
    if eps is None:
        return f"expected a number as {' or '.join(EPS_NAMES)}"
    ((width,),) = shapes
    candidates = _norms(module, width, eps, kernels)
    if not candidates:
        return f"it has the form of no {' or '.join(kernels)}"
    trial = norm_trial(module, width, eps, device)
    found = _proven(trial, NORM_CHECKS, candidates, verdicts)
    if isinstance(found, str):
        return found
    # Under autocast torch's norms give fp32 for 16 bits on a GPU: this is not proven then, and goes to the original.
    under_autocast = replace(found, autocast_device=device.type)
    proven = not isinstance(_proven(trial, AUTOCAST_CHECKS, [under_autocast], verdicts), str)
    return stand_in(module, under_autocast if proven else found)


def _eps(module: nn.Module) -> float | None:
    # Where none is given, torch takes that of fp32, in which it normalizes.
    if isinstance(module, nn.RMSNorm) and module.eps is None:
        return torch.finfo(torch.float32).eps
    found = (getattr(module, name, None) for name in EPS_NAMES)
    return next((float(eps) for eps in found if isinstance(eps, int | float)), None)


def _norms(module: nn.Module, width: int, eps: float, kernels: tuple[str, ...]) -> list[ByRMSNorm | ByLayerNorm]:
    candidates: list[ByRMSNorm | ByLayerNorm] = []
    has_bias = module._parameters.get("bias") is not None
    if "rms_norm" in kernels and not has_bias and not isinstance(module, nn.LayerNorm):
        candidates += [ByRMSNorm(width, eps, offset=offset, casting=casting) for casting, offset in RMS_NORMS]
    if "layer_norm" in kernels and not isinstance(module, nn.RMSNorm):
        candidates.append(ByLayerNorm(width, eps))
    return candidates


def _gated_mlp(
    module: nn.Module, activations: tuple[str, ...], device: torch.device, verdicts: Verdicts
) -> Patched | str:
    inside = {id(each) for name in PROJECTIONS for _, each in _tensors(getattr(module, name))}
    others = [name for name, each in _tensors(module) if id(each) not in inside]
    if others:
        return f"expected no parameters or buffers but its projections', found {', '.join(others)}"
    candidates = [Gating(name) for name in activations]
    found = _proven(gated_trial(module, device), GATED_CHECKS, candidates, verdicts)
    return found if isinstance(found, str) else stand_in(module, found)


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


def _proven(
    trial: Trial, checks: tuple[Check, ...], candidates: Sequence[_Computation], verdicts: Verdicts
) -> _Computation | str:
    """The first candidate that computes what the original does, or why none does. Equal modules are tried once."""
    tried = (likeness(trial.module, PROJECTIONS), trial.device, checks, tuple(candidates))
    if tried not in verdicts:
        verdicts[tried] = _verdict(trial, checks, candidates)
    verdict: _Computation | str = verdicts[tried]
    return verdict


def _verdict(trial: Trial, checks: tuple[Check, ...], candidates: Sequence[_Computation]) -> _Computation | str:
    """By trial: the first that differs nowhere; if there is none, how the one differs that passed most checks."""
    try:
        differences = trial.differences(checks, candidates)
    except Exception as error:
        return f"a copy of it could not be tried: {first_line(error)}"
    nearest = candidates[0], differences[0]
    for candidate, difference in zip(candidates, differences, strict=True):
        if difference is None:
            return candidate
        if nearest[1] is not None and difference.checks_passed > nearest[1].checks_passed:
            nearest = candidate, difference
    return f"it is not {nearest[0]}: {nearest[1]}"
