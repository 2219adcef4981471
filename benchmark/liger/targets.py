"""How Liger-Kernel's kernels are called. What they are given, checked against and costed by is the library's.

Owns the calls and what they overwrite. Must not know how anything is measured. Loaded in workers only, where
`benchmark/` is on the path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import benchmark_cross_entropy
import benchmark_geglu
import benchmark_layer_norm
import benchmark_rms_norm
import benchmark_softmax
import benchmark_swiglu
import torch
from torch import Tensor
from torch.nn import functional

from liger.installed import PACKAGE
from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target

#: What a pass backward in place writes over, as the gate calls it: it is handed in, and is no input of the call.
INCOMING_GRADIENT = "the gradient of output 0"

#: Prime sizes, other dtypes, and so few rows that Triton's interpreter has them done in no time. Small: what is asked
#: is how fast the tuning cases are.
HELD_OUT = (
    Case(axes={"M": 4, "N": 40}, dtype=DType.FLOAT32, role=Role.HELD_OUT),
    Case(axes={"M": 1000, "N": 768}, dtype=DType.FLOAT32, role=Role.HELD_OUT),
    Case(axes={"M": 127, "N": 1021}, dtype=DType.FLOAT16, role=Role.HELD_OUT),
)


def _rms_norm(module: ModuleType, inputs: Inputs, *, in_place: bool) -> Tensor:
    settings = (inputs["eps"], inputs["offset"], inputs["casting"], in_place)
    y: Tensor = module.LigerRMSNormFunction.apply(inputs["x"], inputs["weight"], *settings)
    return y


def rms_norm(module: ModuleType, inputs: Inputs) -> Tensor:
    """As Liger patches Gemma: the gradient of x gets memory of its own, which is zeroed. The casting is its default."""
    return _rms_norm(module, inputs, in_place=False)


def rms_norm_in_place(module: ModuleType, inputs: Inputs) -> Tensor:
    """As Liger patches Llama, and by default: the gradient of x is written over the one that comes in."""
    return _rms_norm(module, inputs, in_place=True)


def layer_norm(module: ModuleType, inputs: Inputs) -> Tensor:
    y: Tensor = module.LigerLayerNormFunction.apply(inputs["x"], inputs["weight"], inputs["bias"], inputs["eps"])
    return y


def softmax(module: ModuleType, inputs: Inputs) -> Tensor:
    y: Tensor = module.LigerSoftmaxFunction.apply(inputs["x"])
    return y


def geglu(module: ModuleType, inputs: Inputs) -> Tensor:
    """The pass backward writes both gradients over gate and up."""
    y: Tensor = module.LigerGELUMulFunction.apply(inputs["gate"], inputs["up"])
    return y


def swiglu(module: ModuleType, inputs: Inputs) -> Tensor:
    """The pass backward writes both gradients over gate and up."""
    y: Tensor = module.LigerSiLUMulFunction.apply(inputs["gate"], inputs["up"])
    return y


def cross_entropy(module: ModuleType, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """The loss and its gradient, which the pass forward writes over the logits where they need one."""
    logits = inputs["logits"].detach().requires_grad_()
    loss, *_ = module.LigerCrossEntropyFunction.apply(logits, inputs["target"], None)
    return loss.detach(), logits.detach()


def cross_entropy_reference(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """By plain torch, in float64 where the logits are."""
    logits = inputs["logits"].detach().clone().requires_grad_()
    loss = functional.cross_entropy(logits, inputs["target"])
    (gradient,) = torch.autograd.grad(loss, logits)
    return loss.detach(), gradient


def cross_entropy_cost(case: Case, mode: Mode) -> Cost:
    """One pass does what both of the library's do: logits are read once, the gradient is written once."""
    assert mode is Mode.FORWARD
    return benchmark_cross_entropy.cost(case, Mode.FULL)


def _liger(of: Target, call: Callable[[ModuleType, Inputs], Any], file: str, **changed: Any) -> Target:
    """The library's target with Liger's kernel in it: the same tuning cases, inputs, reference and cost."""
    as_liger_has_it = replace(
        of,
        name=f"liger_{call.__name__}",
        source=f"{PACKAGE}/ops/{file}.py",
        module=f"{PACKAGE}.ops.{file}",
        call=call,
        cases=(*(case for case in of.cases if case.role is Role.TUNING), *HELD_OUT),
        providers={"torch": of.providers["torch"]},
        tests=("tests/benchmark/test_liger_targets.py",),
    )
    return replace(as_liger_has_it, **changed)


_ALL = (
    _liger(benchmark_rms_norm.target, rms_norm, "rms_norm"),
    _liger(benchmark_rms_norm.target, rms_norm_in_place, "rms_norm", overwrites=(INCOMING_GRADIENT,)),
    _liger(benchmark_layer_norm.target, layer_norm, "layer_norm"),
    _liger(benchmark_softmax.target, softmax, "softmax"),
    _liger(benchmark_geglu.target, geglu, "geglu", overwrites=("gate", "up")),
    _liger(benchmark_swiglu.target, swiglu, "swiglu", overwrites=("gate", "up")),
    _liger(
        benchmark_cross_entropy.target,
        cross_entropy,
        "cross_entropy",
        reference=cross_entropy_reference,
        cost=cross_entropy_cost,
        modes=(Mode.FORWARD,),
        differentiable=(),
        overwrites=("logits",),
        providers={"torch": lambda: cross_entropy_reference},
    ),
)
TARGETS: Mapping[str, Target] = {target.name: target for target in _ALL}
