"""Kernels here are run by Triton's interpreter, on CPU tensors, from sources that are loaded as a variant is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from warpsmith.contracts.measurement import Contender, SourceRef
from warpsmith.measure.correctness import gate as gates
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation

KERNEL = """
import torch
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction


def _{name}_kernel(x, y, factor, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(y + index, tl.load(x + index, mask=mask, other=0.0) * factor, mask=mask)


{name}_kernel = InterpretedFunction(_{name}_kernel)


def {name}(x, factor):
    y = torch.empty_like(x)
    {name}_kernel[((x.numel() + 63) // 64,)](x, y, factor, x.numel(), BLOCK=64)
    return y
"""
#: y = scale · x, both passes by the kernel.
FUNCTION = """

class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return {forward}

    @staticmethod
    def backward(ctx, dy):
        return {backward}, None


def call(x, factor):
    return _Scale.apply(x, factor)
"""
FORWARD, BACKWARD = "scale(x, factor)", "scale(dy.contiguous(), ctx.factor)"
ORIGINAL = KERNEL.format(name="scale") + FUNCTION.format(forward=FORWARD, backward=BACKWARD)

Make = Callable[[str, str], Implementation]


def target_of(gate: Any) -> Any:
    return gate.target(
        call=lambda module, inputs: module.call(inputs["x"], inputs["scale"]),
        reference=lambda inputs: inputs["x"] * inputs["scale"],
        differentiable=("x",),
    )


@pytest.fixture
def made(gate: Any, tmp_path: Path) -> Make:
    def make(name: str, text: str) -> Implementation:
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        source = SourceRef(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        return load_implementation(target_of(gate), Contender(name=name, source=source), str(tmp_path))

    return make


@pytest.fixture
def failures(gate: Any, made: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, str]]]:
    """What these three checks of the gate have against a candidate; values alone would fail some."""
    checks = {name: gates.CHECKS[name] for name in ("own kernels", "library calls", "kernels needed")}
    monkeypatch.setattr(gates, "CHECKS", checks)

    def run(text: str, original: str = ORIGINAL) -> list[tuple[str, str]]:
        sides = made("candidate", text), made("original", original)
        (found,) = gates.check(*sides, target_of(gate), [gate.case()], device=torch.device("cpu"), seed=1)
        assert ("own kernels" in found.skipped) == (original.count("_kernel[") == 0)
        return [(failure.check, failure.message) for failure in found.failures]

    return run


def test_kernels_of_its_own_by_whatever_name_are_what_is_asked_for(failures: Any) -> None:
    other = KERNEL.format(name="stretch") + FUNCTION.format(
        forward=FORWARD.replace("scale", "stretch", 1), backward="stretch(dy.contiguous(), ctx.factor)"
    )
    assert failures(other) == []
    assert failures(ORIGINAL) == []


@pytest.mark.parametrize(
    ("forward", "backward", "idle"), [("x * factor", BACKWARD, "forward"), (FORWARD, "dy * ctx.factor", "backward")]
)
def test_a_pass_without_a_kernel_of_its_own_is_refused(failures: Any, forward: str, backward: str, idle: str) -> None:
    text = KERNEL.format(name="scale") + FUNCTION.format(forward=forward, backward=backward)
    message = f"launches no kernel of its own in the {idle} pass, where the original launches _scale_kernel"
    assert failures(text) == [("own kernels", message)]


def test_where_the_original_launches_none_none_is_asked_for(failures: Any) -> None:
    plain = "import torch\n" + FUNCTION.format(forward="x * factor", backward="dy * ctx.factor")
    assert failures(plain, plain) == []
    assert failures(ORIGINAL, plain) == []


def test_a_kernel_of_another_module_is_refused_unless_the_original_imports_it(
    failures: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "someones_kernels.py").write_text(KERNEL.format(name="stretch"), encoding="utf-8")
    text = KERNEL.format(name="scale") + FUNCTION.format(
        forward="scale(x, 1.0) * 0 + stretch(x, factor)", backward=BACKWARD
    )
    text = text.replace("import torch\n", "import torch\nfrom someones_kernels import stretch\n", 1)
    message = "launches _stretch_kernel of someones_kernels, which the original neither launches nor imports"
    assert failures(text) == [("own kernels", message)]
    assert failures(text, "import someones_kernels\n" + ORIGINAL) == []
    one_name = ORIGINAL.replace("import torch\n", "import torch\nfrom someones_kernels import stretch\n", 1)
    assert failures(text, one_name) == []


@pytest.mark.parametrize(
    ("forward", "backward", "idle"),
    [
        ("(scale(x, factor), x * factor)[1]", BACKWARD, "forward"),
        (FORWARD, "(scale(dy, 1.0), 2 * dy + dy)[1]", "backward"),
    ],
)
def test_kernels_that_run_for_show_are_refused(failures: Any, forward: str, backward: str, idle: str) -> None:
    text = KERNEL.format(name="scale") + FUNCTION.format(forward=forward, backward=backward)
    message = f"the {idle} pass gives the same with no kernel launched: operators of torch do the work"
    assert failures(text) == [("kernels needed", message)]
    assert failures(text, text) == []


def test_a_kernel_without_which_the_call_fails_does_not_run_for_show(failures: Any) -> None:
    finite = "(lambda y: (y, int(y.sum().item()))[0])(scale(x, factor))"  # no int of NaN
    assert failures(KERNEL.format(name="scale") + FUNCTION.format(forward=finite, backward=BACKWARD)) == []


LIBRARY = [
    ("torch.nn.functional.layer_norm(x, x.shape[-1:])", "aten::native_layer_norm"),
    ("torch.softmax(x, -1)", "aten::_softmax"),
    ("(x @ x.T) @ x", "aten::mm"),
    ("x.sort().values", "aten::sort"),
    ("x.cumsum(-1)", "aten::cumsum"),
    ("x.exp()", "aten::exp"),
]


@pytest.mark.parametrize(("expression", "operator"), LIBRARY)
def test_an_operator_that_computes_is_refused_unless_the_original_calls_it(
    failures: Any, expression: str, operator: str
) -> None:
    def using(expression: str) -> str:
        forward = f"({expression}) * 0 + {FORWARD}"
        return KERNEL.format(name="scale") + FUNCTION.format(forward=forward, backward=BACKWARD)

    message = f"calls {operator}, a library's kernel that the original does not use"
    assert failures(using(expression)) == [("library calls", message)]
    assert failures(using(expression), using(expression)) == []


@pytest.mark.parametrize(
    "expression",
    [
        "torch.zeros(4, 8).sum(dim=0).to(torch.float16).sum()",
        "x.new_empty((3, x.shape[1])).zero_().amax()",
        "torch.cat([x, x]).view(-1)[:5].contiguous().reshape(5, 1).amin()",
        "torch.full((2,), 3.0).mul_(2).div(3).sub(1).sum()",
        "torch.arange(7, dtype=torch.int32).sum()",
        "x.t().unsqueeze(0).expand(2, -1, -1).select(0, 1).clone().sum()",
    ],
)
def test_memory_views_copies_and_sums_of_a_workspace_are_allowed(failures: Any, expression: str) -> None:
    forward = f"{FORWARD} + 0 * ({expression}).item()"
    assert failures(KERNEL.format(name="scale") + FUNCTION.format(forward=forward, backward=BACKWARD)) == []


def test_an_operator_that_the_source_registers_is_its_own_and_what_it_calls_is_not(failures: Any) -> None:
    registered = """

@torch.library.custom_op("tested_here::{name}", mutates_args=())
def {name}(x: torch.Tensor, factor: float) -> torch.Tensor:
    return {body}
"""
    allowed = registered.format(name="stretched", body=FORWARD)
    forward = "torch.ops.tested_here.{}(x, factor)"
    function = FUNCTION.format(forward=forward.format("stretched"), backward=BACKWARD)
    assert failures(KERNEL.format(name="scale") + allowed + function) == []
    computing = registered.format(name="computed", body=f"{FORWARD} + 0 * x.exp()")
    function = FUNCTION.format(forward=forward.format("computed"), backward=BACKWARD)
    message = "calls aten::exp, a library's kernel that the original does not use"
    assert failures(KERNEL.format(name="scale") + computing + function) == [("library calls", message)]
