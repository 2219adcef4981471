"""Softmax without a GPU: the interpreted kernels, the reference, the module, the errors. On a GPU: the hard gate."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from warpsmith.kernels import Softmax
from warpsmith.kernels.arguments import _announce_reference
from warpsmith.kernels.softmax import MAX_BLOCK_SIZE, softmax, softmax_reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

pytestmark = pytest.mark.filterwarnings("ignore:softmax. Triton cannot run on")


# The kernels, interpreted on the CPU


@pytest.mark.usefixtures("interpreter_loops")
@pytest.mark.parametrize(("dtype", "cases", "tolerance"), [("float32", 23, 1e-6), ("float16", 20, 2e-3)])
def test_interpreted_kernels_match_float64(
    interpreted_errors: dict[str, dict[str, float]], dtype: str, cases: int, tolerance: float
) -> None:
    errors = {name: largest for name, largest in interpreted_errors.items() if f"-{dtype}-" in name}
    assert len(errors) == cases
    # Written so that a NaN is a failure.
    assert {name: e for name, e in errors.items() if not all(value <= tolerance for value in e.values())} == {}


# The reference and the module


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_reference_is_torch_softmax(dtype: torch.dtype) -> None:
    x = torch.randn(3, 7, 33).to(dtype)
    torch.testing.assert_close(softmax_reference(x), torch.softmax(x, dim=-1))


def test_reference_is_differentiable() -> None:
    assert torch.autograd.gradcheck(softmax_reference, (torch.randn(3, 5, dtype=torch.float64, requires_grad=True),))


def test_cpu_tensors_are_computed_by_the_reference_and_announced_once() -> None:
    x = torch.randn(4, 16, dtype=torch.bfloat16)
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="softmax: Triton cannot run on cpu tensors"):
        y = softmax(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = softmax(x)
    assert torch.equal(y, softmax_reference(x)) and torch.equal(again, y)


def test_module_is_the_function() -> None:
    x = torch.randn(2, 3, 8)
    assert torch.equal(Softmax()(x), torch.nn.Softmax(dim=-1)(x))
    assert repr(Softmax()) == "Softmax(dim=-1)" and list(Softmax().parameters()) == []


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.ones(2, 4, dtype=torch.int64), TypeError, "softmax: x must be float32.*int64"),
        (torch.ones(2, 4, dtype=torch.float64), TypeError, "softmax: x must be float32.*float64"),
        (torch.ones(2, 0), ValueError, r"softmax: x must have a last dimension.*\(2, 0\)"),
        (torch.tensor(1.0), ValueError, r"last dimension.*\(\)"),
    ],
)
def test_wrong_arguments_are_named(x: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        softmax(x)


# On a GPU


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


def run(x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    """y and dx."""
    x = x.detach().requires_grad_()
    y = softmax(x)
    y.backward(dy)
    assert x.grad is not None
    return y.detach(), x.grad


def assert_exact(found: tuple[Tensor, Tensor], x: Tensor, dy: Tensor) -> None:
    """Against float64, within what the roundings allow.

    y is rounded once, and dx once, after it was made of the rounded y: that errs by half a unit in y itself and in
    each term of Σ dy · y. fp32 exponentials leave a few units more than one rounding. Below the least normal number
    a unit is as large as there.
    """
    (y, dx), dtype = found, x.dtype
    x, dy = x.detach().double().requires_grad_(), dy.double()
    exact = softmax_reference(x)
    exact.backward(dy)
    assert x.grad is not None
    exact = exact.detach()
    rounding = max(torch.finfo(dtype).eps / 2, 2e-6)
    smallest_unit = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    assert_within(y, exact, 1.5 * rounding * exact + smallest_unit)
    size = (dy * exact).abs().sum(dim=-1, keepdim=True)
    tolerance = 2.5 * rounding * x.grad.abs() + 1.5 * rounding * exact * size
    assert_within(dx, x.grad, tolerance + 3 * smallest_unit * (1 + dy.abs() + size))


def assert_within(found: Tensor, exact: Tensor, tolerance: Tensor) -> None:
    assert found.shape == exact.shape
    excess = (found.double() - exact).abs() - tolerance
    # Written so that a NaN is a failure.
    assert (excess <= 0).all(), f"{int((~(excess <= 0)).sum())} of {excess.numel()} off, by up to {excess.max()}"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [
        *((1, 4096), (127, 1021), (601, 2048), (33, 1), (5003, 128), (64, 8192), (257, 4099)),
        # walked over, and in chunks
        *((600, 16384), (300, 17011), (150, 32768), (5, 32769), (3, 65536), (2, 128256)),
    ],
)
def test_values_and_gradients_match_float64(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, dy = draw(shape, dtype), draw(shape, dtype, seed=2)
    found = run(x, dy)
    assert [tensor.dtype for tensor in found] == [dtype, dtype]
    assert_exact(found, x, dy)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["row_strided", "transposed", "expanded", "permuted", "one_row_of_one_dimension"])
def test_any_layout_of_x_and_dy(layout: str) -> None:
    wide = draw((3, 100, 200), torch.float32)
    x = {
        "row_strided": wide[0, :, :77],
        "transposed": wide[0].T,
        "expanded": wide[0, :1].expand(50, 200),
        "permuted": wide.permute(1, 0, 2),
        "one_row_of_one_dimension": wide[0, 0, :33],
    }[layout]
    for dy in (draw(tuple(x.shape), torch.float32, seed=2), torch.ones((), device="cuda").expand(x.shape)):
        assert_exact(run(x, dy), x, dy)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64), (0, 70000)])
def test_zero_rows_give_an_empty_result(shape: tuple[int, ...]) -> None:
    x = draw(shape, torch.bfloat16)
    y, dx = run(x, torch.empty_like(x))
    assert y.shape == dx.shape == shape


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [100, 20000, MAX_BLOCK_SIZE + 5000, 4 * MAX_BLOCK_SIZE])
def test_special_values_are_torchs_within_their_row(columns: int) -> None:
    x, dy = draw((8, columns), torch.float32), draw((8, columns), torch.float32, 2)
    x[0] = -torch.inf
    x[1, 7], x[2, -7], x[3, -7] = torch.nan, torch.inf, -torch.inf
    # Nothing but -inf in front of the values; values that would overflow.
    x[4, :-9], x[5] = -torch.inf, 1e30
    dy[6, 3] = torch.nan
    found, exact_x = run(x, dy), x.clone().requires_grad_()
    exact = torch.softmax(exact_x, dim=-1)
    exact.backward(dy)
    assert exact_x.grad is not None
    torch.testing.assert_close(found[0], exact.detach(), rtol=1e-5, atol=1e-7, equal_nan=True)
    torch.testing.assert_close(found[1], exact_x.grad, rtol=1e-4, atol=1e-6, equal_nan=True)
    assert found[0].isnan().any(dim=-1).tolist() == [True, True, True, False, False, False, False, False]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1000, 1021), (600, 16384), (20, 70001)])
def test_repeated_calls_agree_bitwise_and_leave_their_inputs(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, dy = draw(shape, dtype), draw(shape, dtype, seed=2)
    before, first = (x.clone(), dy.clone()), run(x, dy)
    for _ in range(3):
        assert all(torch.equal(again, once) for again, once in zip(run(x, dy), first, strict=True))
    assert torch.equal(x, before[0]) and torch.equal(dy, before[1])


@pytest.mark.gpu
def test_a_gradient_that_nobody_needs_is_not_kept() -> None:
    assert not softmax(draw((4, 32), torch.float32)).requires_grad


@pytest.mark.gpu
def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    x = draw((4, 32), torch.float32).requires_grad_()
    dy = draw((4, 32), torch.float32, 2).requires_grad_()
    (dx,) = torch.autograd.grad(softmax(x), x, dy, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(4, 75, 1021), (600, 16384), (2, 3, 40000)])
def test_torch_compile_without_a_graph_break(shape: tuple[int, ...]) -> None:
    x, dy = draw(shape, torch.bfloat16), draw(shape, torch.bfloat16, 2)
    eager = run(x, dy)
    torch.compiler.reset()
    x = x.requires_grad_()
    y = torch.compile(softmax, fullgraph=True)(x)
    y.backward(dy)
    assert x.grad is not None
    torch.testing.assert_close(y, eager[0])
    torch.testing.assert_close(x.grad, eager[1])


@pytest.mark.gpu
def test_torch_compile_of_one_function_at_several_widths() -> None:
    torch.compiler.reset()
    compiled = torch.compile(softmax, fullgraph=True)
    for shape in ((60, 1021), (300, 700), (900, 16384), (5, 40000), (7, 1021)):
        x = draw(shape, torch.bfloat16)
        torch.testing.assert_close(compiled(x), softmax(x))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(300, 1024), (600, 16384), (20, 70000)])
def test_cuda_graph_capture_and_replay_on_new_values(shape: tuple[int, int]) -> None:
    x, dy = draw(shape, torch.bfloat16).requires_grad_(), draw(shape, torch.bfloat16, 2)

    def step() -> tuple[Tensor, Tensor]:
        y = softmax(x)
        (dx,) = torch.autograd.grad(y, x, dy)
        return y, dx

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        x.copy_(draw(shape, torch.bfloat16, seed=5))
        dy.copy_(draw(shape, torch.bfloat16, seed=6))
    for _ in range(2):
        graph.replay()
    assert all(torch.equal(found, eager) for found, eager in zip(captured, step(), strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_autocast_leaves_the_dtype_of_x(dtype: torch.dtype) -> None:
    x, dy = draw((64, 128), dtype), draw((64, 128), dtype, 2)
    outside = run(x, dy)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = run(x, dy)
    assert inside[0].dtype == dtype
    assert all(torch.equal(one, other) for one, other in zip(inside, outside, strict=True))


@pytest.mark.gpu
def test_rows_beyond_two_to_the_31_elements_are_reached(far_rows: Tensor) -> None:
    far_rows.copy_(draw(tuple(far_rows.shape), torch.bfloat16))
    dy = draw(tuple(far_rows.shape), torch.bfloat16, 2)
    assert_exact(run(far_rows, dy), far_rows, dy)
