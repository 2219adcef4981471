"""Vector addition without a GPU: the interpreted kernel, the reference, the errors. On a GPU: the hard gate."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from warpsmith.kernels.arguments import _announce_reference
from warpsmith.kernels.vector_add import vector_add, vector_add_reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

pytestmark = pytest.mark.filterwarnings("ignore:vector_add. Triton cannot run on cpu")


def test_the_interpreted_kernel_matches_float64(interpreted_errors: dict[str, float]) -> None:
    errors = interpreted_errors
    assert len(errors) == 18
    # Half a unit in the last place of sums below 8. Written so that a NaN is a failure.
    # The interpreter cuts bf16 off where a GPU rounds: one digit less.
    digits = {"float32": 24, "float16": 11, "bfloat16": 7}
    tolerances = {name: 4 * 2.0 ** -digits[name.rpartition("-")[2]] for name in errors}
    assert {name: error for name, error in errors.items() if not error <= tolerances[name]} == {}


def test_cpu_tensors_are_computed_by_the_reference_and_announced_once() -> None:
    x, y = torch.randn(16, requires_grad=True), torch.randn(16)
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="vector_add: Triton cannot run on cpu tensors"):
        z = vector_add(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(vector_add(x, y), z)
    assert torch.equal(z, x + y) and torch.equal(z, vector_add_reference(x, y))
    z.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.ones(16))


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (torch.ones(4, dtype=torch.int64), torch.ones(4), TypeError, "x must be float32.*int64"),
        (torch.ones(4), torch.ones(4, dtype=torch.float64), TypeError, "y must be float32.*float64"),
        (torch.ones(4), torch.ones(4).half(), TypeError, "the dtype of x, torch.float32, found torch.float16"),
        (torch.ones(4), torch.ones(1), ValueError, r"y must have shape \(4,\), found \(1,\)"),
        (torch.ones(4), torch.ones(4, device="meta"), ValueError, "y is on meta, x on cpu"),
    ],
)
def test_wrong_arguments_are_named(x: Tensor, y: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        vector_add(x, y)


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (1021,), (2048,), (1_000_003,), (300, 77), (0,), (3, 0), ()])
def test_it_is_the_sum_of_torch_bit_by_bit(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, y = draw(shape, dtype, 1).requires_grad_(), draw(shape, dtype, 2).requires_grad_()
    z, dz = vector_add(x, y), draw(shape, dtype, 3)
    assert z.dtype == dtype and torch.equal(z, x + y)
    assert all(torch.equal(found, dz) for found in torch.autograd.grad(z, (x, y), dz))


@pytest.mark.gpu
def test_any_layout_and_what_is_not_finite() -> None:
    x, y = draw((50, 60), torch.float32, 1), draw((60, 100), torch.float32, 2)[:, ::2].T
    x[3, 4], x[5, 6], x[7, 8] = float("nan"), float("inf"), -float("inf")
    z = vector_add(x, y)
    torch.testing.assert_close(z, x + y, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(vector_add(y, x.expand(1, 50, 60)[0]), z, rtol=0, atol=0, equal_nan=True)


@pytest.mark.gpu
def test_torch_compile_without_a_graph_break_and_autocast() -> None:
    x, y = draw((4099,), torch.float32, 1).requires_grad_(), draw((4099,), torch.float32, 2)
    torch.compiler.reset()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        eager, compiled = vector_add(x, y), torch.compile(vector_add, fullgraph=True)(x, y)
    assert torch.equal(eager, x + y) and torch.equal(compiled, eager)
    (dx,) = torch.autograd.grad(compiled, x, y)
    assert torch.equal(dx, y)
    (dx,) = torch.autograd.grad(torch.compile(vector_add, fullgraph=True)(x, x), x, y)
    assert torch.equal(dx, 2 * y)


@pytest.mark.gpu
def test_cuda_graph_capture_and_replay_on_new_values() -> None:
    x, y = draw((4099,), torch.bfloat16, 1), draw((4099,), torch.bfloat16, 2)
    vector_add(x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = vector_add(x, y)
    x.copy_(draw((4099,), torch.bfloat16, 3))
    graph.replay()
    assert torch.equal(z, x + y)
