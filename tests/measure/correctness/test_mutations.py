"""Mutations of the gate: with one check left out, a candidate passes that the check would have found.

Each witness misbehaves in what its check alone looks at, most of them in their first call only: what a first run
betrays, later checks look for again on other values.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.measurement import Contender, SourceRef
from warpsmith.contracts.target import Inputs
from warpsmith.measure.correctness import gate as gates
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation

Call = Callable[[Inputs], Any]


@dataclass(frozen=True)
class Witness:
    """A candidate, made anew for every run of the gate. `changes` are those of the target."""

    make: Callable[[], Call]
    original: Call
    device: str = "cpu"
    changes: dict[str, Any] = field(default_factory=dict)


def scaled(inputs: Inputs) -> tuple[Tensor, Tensor]:
    x, w = inputs["x"], inputs["w"]
    y = x.float() * w.float() * inputs["scale"]
    return y.to(x.dtype), y.sum(dim=-1).to(x.dtype)


def doubled(inputs: Inputs) -> Tensor:
    return inputs["x"] * 2


def copied(inputs: Inputs) -> Tensor:
    return inputs["x"].clone()


FORWARD_ONLY: dict[str, Any] = {"modes": ("forward",), "differentiable": ()}


def in_first_calls(misbehaves: Call, behaves: Call, calls: int = 1) -> Callable[[], Call]:
    def make() -> Call:
        counter = itertools.count()
        return lambda inputs: (misbehaves if next(counter) < calls else behaves)(inputs)

    return make


class _WritesItsGradient(torch.autograd.Function):
    """Zeroes the gradient that it was handed once that is used."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        result = gradients[0].clone()
        gradients[0].zero_()
        return result


class _TransposesItsGradient(torch.autograd.Function):
    """Gives the gradient transposed in memory."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].t().contiguous().t()


def writes_the_gradient_of_an_output(inputs: Inputs) -> Any:
    y, sums = scaled(inputs)
    return _WritesItsGradient.apply(y), sums


def gives_a_strided_gradient(inputs: Inputs) -> Any:
    return scaled({**inputs, "x": _TransposesItsGradient.apply(inputs["x"])})


def writes_past_a_buffer(inputs: Inputs) -> Any:
    result = torch.empty_like(inputs["x"])
    result.copy_(doubled(inputs))
    ctypes.memset(result.data_ptr() + result.numel() * result.element_size(), 0, 4)
    return result


def draws(inputs: Inputs) -> Any:
    torch.rand(1)
    return doubled(inputs)


def zeros(inputs: Inputs) -> Any:
    return torch.zeros_like(inputs["x"])


def keeps_its_output() -> Call:
    kept: dict[Any, Tensor] = {}

    def call(inputs: Inputs) -> Any:
        x = inputs["x"]
        return kept.setdefault((x.shape, x.stride(), x.dtype), torch.zeros_like(x)).copy_(doubled(inputs))

    return call


def keeps_what_looks_ordinary() -> Call:
    """Caches by address where values are as random ones are, and so not on those that try the extremes."""
    kept: dict[int, Tensor] = {}

    def call(inputs: Inputs) -> Any:
        x = inputs["x"]
        if x.numel() < 100 or not (0.5 < float(x.std()) < 2 and abs(float(x.mean())) < 0.5):
            return doubled(inputs)
        if not kept:
            kept[x.data_ptr()] = doubled(inputs).clone()
        return kept[x.data_ptr()].clone() if x.data_ptr() in kept and x.is_contiguous() else doubled(inputs)

    return call


def wrong_where_strided(inputs: Inputs) -> Any:
    return doubled(inputs) if inputs["x"].is_contiguous() else zeros(inputs)


class _HalvesStridedGradients(torch.autograd.Function):
    """Half of the gradient where that of the output is strided."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gradient,) = gradients
        return gradient.clone() if gradient.is_contiguous() else gradient / 2


def wrong_where_the_gradient_is_strided(inputs: Inputs) -> Any:
    y, sums = scaled(inputs)
    return _HalvesStridedGradients.apply(y), sums


class _SpoilsWhatItSaved(torch.autograd.Function):
    """Halves in memory, unseen by autograd, what a second pass backward needs."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        ctx.factor = torch.ones_like(y)
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        result = gradients[0] * ctx.factor
        ctx.factor /= 2
        return result


def spoils_what_it_saved(inputs: Inputs) -> Any:
    y, sums = scaled(inputs)
    return _SpoilsWhatItSaved.apply(y), sums


def wrong_without_gradients(inputs: Inputs) -> Any:
    return doubled(inputs) if torch.is_grad_enabled() else zeros(inputs)


def swallows_nan(inputs: Inputs) -> Any:
    return torch.where(inputs["x"].isnan(), 0.0, doubled(inputs))


def fails_on_nothing(inputs: Inputs) -> Any:
    if inputs["x"].numel() == 0:
        raise ValueError("no rows")
    return doubled(inputs)


def half_under_autocast(inputs: Inputs) -> Any:
    if torch.is_autocast_enabled("cpu"):
        return doubled(inputs).bfloat16().to(inputs["x"].dtype)
    return doubled(inputs)


def breaks_the_graph(inputs: Inputs) -> Any:
    return doubled(inputs) if inputs["x"].data_ptr() != 1 else zeros(inputs)


def on_another_stream(inputs: Inputs) -> Any:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = doubled(inputs)
    torch.cuda.current_stream().wait_stream(stream)
    return result


def _doubles(make: Callable[[], Call], device: str = "cpu") -> Witness:
    return Witness(make, doubled, device, {**FORWARD_ONLY, "reference": doubled})


def _scales(make: Callable[[], Call]) -> Witness:
    return Witness(make, scaled, changes={"reference": scaled})


WITNESSES = {
    "inputs": _scales(in_first_calls(writes_the_gradient_of_an_output, scaled)),
    "guards": _doubles(in_first_calls(writes_past_a_buffer, doubled)),
    "form": _scales(in_first_calls(gives_a_strided_gradient, scaled)),
    "sharing": Witness(
        in_first_calls(lambda inputs: inputs["x"], copied), copied, changes={**FORWARD_ONLY, "reference": copied}
    ),
    # The second call is that which is compared with the first.
    "values": _doubles(in_first_calls(zeros, doubled, calls=2)),
    "bystanders": _doubles(in_first_calls(draws, doubled)),
    "streams": _doubles(lambda: on_another_stream, device="cuda"),
    "repeats": _doubles(keeps_its_output),
    "backward again": _scales(lambda: spoils_what_it_saved),
    "other values": _doubles(keeps_what_looks_ordinary),
    "layouts": _doubles(lambda: wrong_where_strided),
    "gradient layouts": _scales(lambda: wrong_where_the_gradient_is_strided),
    "no gradients": _doubles(lambda: wrong_without_gradients),
    "extremes": _doubles(lambda: swallows_nan),
    "shapes": _doubles(lambda: fails_on_nothing),
    "autocast": _doubles(lambda: half_under_autocast),
    "compile": _doubles(lambda: breaks_the_graph),
}

#: Checks that are made only at a case of the target.
PROBES = ("no gradients", "autocast", "compile")
#: Sources, for the checks that ask whose kernels and operators ran. Run by Triton's interpreter.
SOURCE = """
import itertools

import torch
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction

_CALLS = itertools.count()


def _double(x, y, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(y + index, tl.load(x + index, mask=index < n, other=0.0) * 2, mask=index < n)


_double_kernel = InterpretedFunction(_double)


def call(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    if {launches}:
        _double_kernel[(1,)](x, y, x.numel(), BLOCK=1024)
    else:
        y.copy_(x * 2)
    {also}
    return y
"""
SOURCES = {
    "own kernels": SOURCE.format(launches="next(_CALLS)", also=""),
    "library calls": SOURCE.format(launches="True", also="next(_CALLS) or torch.erf(y)"),
    "kernels needed": SOURCE.format(launches="True", also="y.copy_(x * 2)"),
}


@pytest.fixture
def rejected(gate: Any, tmp_path: Path) -> Callable[[str], list[str]]:
    """The checks that reject the witness of a check."""

    def from_source(name: str, text: str, target: Any) -> Implementation:
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        source = SourceRef(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        return load_implementation(target, Contender(name=name, source=source), str(tmp_path))

    def run(name: str, number: int) -> list[str]:
        if (text := SOURCES.get(name)) is not None:
            device, changes = "cpu", {**FORWARD_ONLY, "reference": doubled}
            target = gate.target(**changes, call=lambda module, inputs: module.call(inputs["x"]))
            honest = SOURCE.format(launches="True", also="")
            sides = [
                from_source(f"candidate_{number}", f"{text}# {number}\n", target),
                from_source("original", honest, target),
            ]
        else:
            witness = WITNESSES[name]
            device, target = witness.device, gate.target(cases=(gate.case(),) * (name in PROBES), **witness.changes)
            calls = (("candidate", witness.make()), ("original", witness.original))
            sides = [Implementation(each, call, lambda: None, None) for each, call in calls]
        found = gates.check(*sides, target, [gate.case()], device=torch.device(device), seed=1)
        return [failure.check for each in found for failure in each.failures]

    numbers = itertools.count()
    return lambda name: run(name, next(numbers))


def _left_out(bout: Any) -> Any:
    return iter(())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.gpu) if name == "streams" else name for name in gates.CHECKS]
)
def test_with_a_check_left_out_its_witness_passes(
    rejected: Callable[[str], list[str]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(rejected(name)) == {name}

    monkeypatch.setitem(gates.CHECKS, name, _left_out)

    assert rejected(name) == []
