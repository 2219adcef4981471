"""A gradient of a gradient is refused by every op of the library, and its gradient is what it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from kernels.interpreted_first_order import ops, refusal
from torch import Tensor, nn

from warpsmith.kernels.first_order import first_order

#: RMSNormFunction stays as it was recorded; the gradients of a sum are right to any order.
EXEMPT = {"RMSNormFunction", "VectorAddFunction"}
NAMES = sorted(ops("cpu"))


@pytest.mark.usefixtures("interpreter_loops")
def test_every_function_of_the_library_is_tried(interpreted_errors: dict[str, Any]) -> None:
    assert set(interpreted_errors["functions"]) == {*NAMES, *EXEMPT}


@pytest.mark.usefixtures("interpreter_loops")
@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_of_a_gradient_is_refused(name: str, interpreted_errors: dict[str, Any]) -> None:
    assert "once_differentiable" in interpreted_errors["refusals"][name]


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_on_a_gpu_a_gradient_of_a_gradient_is_refused(name: str) -> None:
    assert "once_differentiable" in refusal(ops("cuda")[name], "cuda")


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, z: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, y)
        ctx.set_materialize_grads(False)
        return x * y, x - y

    @staticmethod
    @first_order
    def backward(
        ctx: Any, dproduct: Tensor | None, ddifference: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, None]:
        assert not torch.is_grad_enabled() or torch.compiler.is_compiling()
        x, y = ctx.saved_tensors
        if dproduct is None:
            assert ddifference is not None
            return ddifference, -ddifference if ctx.needs_input_grad[1] else None, None
        return dproduct * y, dproduct * x if ctx.needs_input_grad[1] else None, None


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("needs_y", [True, False])
def test_gradients_that_are_none_stay_so(which: int, needs_y: bool) -> None:
    x, y = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=needs_y)
    inputs = (x, y) if needs_y else (x,)
    expected = (y, x) if which == 0 else (torch.ones(5), -torch.ones(5))
    for create_graph in (False, True):
        outputs = Product.apply(x, y, None)
        found = torch.autograd.grad(outputs[which].sum(), inputs, create_graph=create_graph)
        assert all(map(torch.equal, found, expected))
        assert {each.requires_grad for each in found} == {create_graph}


def test_one_is_refused_where_the_gradient_that_comes_in_requires_one_too() -> None:
    x, dproduct = torch.randn(5, requires_grad=True), torch.ones(5, requires_grad=True)
    (dx,) = torch.autograd.grad(Product.apply(x, torch.randn(5), None)[0], x, dproduct, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.parametrize("dynamic", [None, True])
def test_torch_compile_traces_it_and_refuses_too(dynamic: bool | None) -> None:
    torch.compiler.reset()
    compiled = torch.compile(Product.apply, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    x, y = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
    assert all(map(torch.equal, torch.autograd.grad(compiled(x, y, None)[0].sum(), (x, y)), (y, x)))
    (dx,) = torch.autograd.grad(compiled(x, y, None)[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        dx.square().sum().backward()


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


class Scaling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((5,), 2.0))

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = Product.apply(x, self.weight, None)[0]
        return scaled


@pytest.mark.usefixtures("process_group")
def test_data_parallel_gradients_are_what_they_were() -> None:
    module, x = Scaling(), torch.randn(5)
    parallel = nn.parallel.DistributedDataParallel(module)
    for steps in (1, 2):
        parallel(x).sum().backward()
        assert module.weight.grad is not None and torch.equal(module.weight.grad, steps * x)
