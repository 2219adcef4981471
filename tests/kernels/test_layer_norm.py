"""LayerNorm without a GPU: the interpreted kernels, the reference, the module, the errors. On a GPU: the hard gate."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from warpsmith.kernels import LayerNorm
from warpsmith.kernels.arguments import _announce_reference
from warpsmith.kernels.layer_norm import layer_norm, layer_norm_forward, layer_norm_reference

EPS = 1e-5
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
#: Whether there is a weight, a bias.
PARAMETERS = ((True, True), (True, False), (False, True), (False, False))

pytestmark = pytest.mark.filterwarnings("ignore:layer_norm. Triton cannot run on cpu")


# The kernels, interpreted on the CPU


@pytest.mark.usefixtures("interpreter_loops")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 4e-3)])
def test_interpreted_kernels_match_float64(
    interpreted_errors: dict[str, dict[str, float]], dtype: str, tolerance: float
) -> None:
    errors = {name: largest for name, largest in interpreted_errors.items() if f"-{dtype}-" in name}
    assert len(errors) == 24
    # Written so that a NaN is a failure.
    assert {name: e for name, e in errors.items() if not all(value <= tolerance for value in e.values())} == {}


# The reference


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reference_is_the_formula(dtype: torch.dtype) -> None:
    x, weight, bias = torch.randn(7, 33, dtype=dtype), torch.randn(33, dtype=dtype), torch.randn(33, dtype=dtype)
    normalized = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + EPS).sqrt()
    expected = normalized * weight + bias
    torch.testing.assert_close(layer_norm_reference(x, weight, bias, EPS), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_reference_rounds_once(dtype: torch.dtype) -> None:
    x, weight = (3 + torch.randn(64, 96)).to(dtype), torch.randn(96)
    exact = layer_norm_reference(x.double(), weight.double(), None, EPS)
    found = layer_norm_reference(x, weight, None, EPS)
    assert found.dtype == dtype and (found == exact.to(dtype)).double().mean() > 0.99


@pytest.mark.parametrize(("has_weight", "has_bias"), PARAMETERS)
def test_reference_is_differentiable(has_weight: bool, has_bias: bool) -> None:
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, dtype=torch.float64, requires_grad=True) if has_weight else None
    bias = torch.randn(5, dtype=torch.float64, requires_grad=True) if has_bias else None
    assert torch.autograd.gradcheck(lambda x, w, b: layer_norm_reference(x, w, b, EPS), (x, weight, bias))


def test_cpu_tensors_are_computed_by_the_reference_and_announced_once() -> None:
    x, weight, bias = torch.randn(4, 16, dtype=torch.bfloat16), torch.randn(16), torch.randn(16)
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="layer_norm: Triton cannot run on cpu tensors"):
        y = layer_norm(x, weight, bias, EPS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = layer_norm(x, weight, bias, EPS)
    expected = layer_norm_reference(x, weight, bias, EPS)
    assert torch.equal(y, expected) and torch.equal(again, expected)


# Errors


@pytest.mark.parametrize(
    ("x", "weight", "bias", "error", "message"),
    [
        (torch.ones(2, 4, dtype=torch.int64), None, None, TypeError, "x must be float32.*int64"),
        (torch.ones(2, 4, dtype=torch.float64), None, None, TypeError, "x must be float32.*float64"),
        (torch.ones(2, 4), torch.ones(4, dtype=torch.int32), None, TypeError, "weight must be float32.*int32"),
        (torch.ones(2, 4), None, torch.ones(4, dtype=torch.int32), TypeError, "bias must be float32.*int32"),
        (torch.ones(2, 4), torch.ones(5), None, ValueError, r"weight must have shape \(4,\), found \(5,\)"),
        (torch.ones(2, 4), None, torch.ones(2, 4), ValueError, r"bias must have shape \(4,\), found \(2, 4\)"),
        (torch.ones(2, 4), torch.ones(4, device="meta"), None, ValueError, "weight is on meta, x on cpu"),
        (torch.ones(2, 4), None, torch.ones(4, device="meta"), ValueError, "bias is on meta, x on cpu"),
        (torch.ones(2, 0), None, None, ValueError, r"x must have a last dimension.*\(2, 0\)"),
        (torch.tensor(1.0), None, None, ValueError, r"x must have a last dimension.*\(\)"),
    ],
)
def test_wrong_arguments_are_named(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"layer_norm: {message}"):
        layer_norm(x, weight, bias)


def test_rows_that_no_program_can_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="layer_norm: a row has 65537 columns; at most 65536"):
        layer_norm_forward(torch.ones(1, 65537), None, None, EPS)


# The module


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"elementwise_affine": False, "eps": 1e-3}])
def test_module_stands_in_for_torchs(settings: dict[str, bool | float]) -> None:
    x, ours, theirs = torch.randn(3, 2, 8), LayerNorm(8, **settings), torch.nn.LayerNorm(8, **settings)  # type: ignore[arg-type]
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours(x), theirs(x))
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())


def test_module_refuses_another_width_and_several_dimensions() -> None:
    with pytest.raises(ValueError, match=r"last dimension of 8, found shape \(2, 9\)"):
        LayerNorm(8, elementwise_affine=False)(torch.ones(2, 9))
    with pytest.raises(ValueError, match=r"normalized_shape must be an int of at least 1, found \(2, 8\)"):
        LayerNorm((2, 8))  # type: ignore[arg-type]


# On a GPU


class Results(NamedTuple):
    y: Tensor
    dx: Tensor
    dw: Tensor | None
    db: Tensor | None


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0, mean: float = 0.0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return (mean + torch.randn(shape, device="cuda", generator=generator)).to(dtype)


def draw_all(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, weight, bias, dy."""
    weight = (1.0 + 0.1 * draw(shape[-1:], torch.float32, 1)).to(dtype)
    return draw(shape, dtype, mean=1.0), weight, draw(shape[-1:], dtype, 3), draw(shape, dtype, 2)


def run(x: Tensor, weight: Tensor | None, bias: Tensor | None, dy: Tensor) -> Results:
    x, weight, bias = (None if t is None else t.detach().requires_grad_() for t in (x, weight, bias))  # type: ignore[assignment]
    y = layer_norm(x, weight, bias, EPS)
    y.backward(dy)
    assert x.grad is not None
    return Results(y.detach(), x.grad, None if weight is None else weight.grad, None if bias is None else bias.grad)


def assert_exact(found: Results, x: Tensor, weight: Tensor | None, bias: Tensor | None, dy: Tensor) -> None:
    """Within one rounding to the result's dtype, and what fp32 leaves of values around 1 and of sums over a row.

    dw and db sum terms that are each off by some units of fp32, with random signs: so is the root of the sum of
    their squares.
    """
    exact_x, exact_w, exact_b = (None if t is None else t.detach().double().requires_grad_() for t in (x, weight, bias))
    assert exact_x is not None
    exact_y = layer_norm_reference(exact_x, exact_w, exact_b, EPS)
    exact_y.backward(dy.double())
    assert exact_x.grad is not None
    assert_within(found.y, exact_y.detach(), 1e-5)
    assert_within(found.dx, exact_x.grad, 3e-5)
    largest_term = 8.0 * (x.numel() // x.shape[-1]) ** 0.5
    for sums, parameter in ((found.dw, exact_w), (found.db, exact_b)):
        assert (sums is None) == (parameter is None)
        if sums is not None and parameter is not None and parameter.grad is not None:
            assert_within(sums, parameter.grad, 5e-6 * largest_term + 1e-5)


def assert_within(found: Tensor, exact: Tensor, absolute: float) -> None:
    assert found.shape == exact.shape
    excess = (found.double() - exact).abs() - 0.75 * torch.finfo(found.dtype).eps * exact.abs() - absolute
    # Written so that a NaN is a failure.
    assert (excess <= 0).all(), f"{int((~(excess <= 0)).sum())} of {excess.numel()} off, by up to {excess.max()}"


SHAPES = [(1, 4096), (127, 1021), (601, 2048), (33, 1), (64, 8192), (257, 4099), (300, 16384), (2, 65536), (3000, 96)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_match_float64(shape: tuple[int, int], dtype: torch.dtype) -> None:
    inputs = draw_all(shape, dtype)
    found = run(*inputs)
    assert {result.dtype for result in found if result is not None} == {dtype}
    assert_exact(found, *inputs)


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1021, 16384])
@pytest.mark.parametrize(("has_weight", "has_bias"), PARAMETERS)
def test_weight_and_bias_are_each_optional(has_weight: bool, has_bias: bool, columns: int) -> None:
    x, weight, bias, dy = draw_all((300, columns), torch.bfloat16)
    inputs = (x, weight if has_weight else None, bias if has_bias else None, dy)
    assert_exact(run(*inputs), *inputs)


@pytest.mark.gpu
def test_fp32_parameters_keep_the_dtype_of_x() -> None:
    x, _, _, dy = draw_all((64, 512), torch.bfloat16)
    _, weight, bias, _ = draw_all((64, 512), torch.float32)
    found = run(x, weight, bias, dy)
    assert found.dw is not None and found.db is not None
    assert (found.y.dtype, found.dw.dtype, found.db.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    assert_exact(found, x, weight, bias, dy)


@pytest.mark.gpu
def test_a_large_mean_does_not_cancel() -> None:
    x = draw((50, 4096), torch.float32, mean=1000.0)
    exact = layer_norm_reference(x.double(), None, None, EPS)
    assert_within(layer_norm(x, None, None, EPS), exact, 2e-3)


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
    _, weight, bias, dy = draw_all(tuple(x.shape), torch.float32)
    for gradient in (dy, torch.ones((), device="cuda").expand(x.shape)):
        assert_exact(run(x, weight, bias, gradient), x, weight, bias, gradient)


@pytest.mark.gpu
def test_strided_parameters() -> None:
    x, _, _, dy = draw_all((9, 64), torch.float32)
    _, weight, bias, _ = draw_all((9, 128), torch.float32)
    assert_exact(run(x, weight[::2], bias[::2], dy), x, weight[::2], bias[::2], dy)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_zero_rows_give_an_empty_result_and_zero_gradients_of_the_parameters(shape: tuple[int, ...]) -> None:
    found = run(*draw_all(shape, torch.bfloat16))
    assert found.y.shape == found.dx.shape == shape
    assert found.dw is not None and torch.equal(found.dw, torch.zeros_like(found.dw))
    assert found.db is not None and torch.equal(found.db, torch.zeros_like(found.db))


@pytest.mark.gpu
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_make_their_row_nan_and_no_other(bad: float) -> None:
    x, weight, bias, dy = draw_all((200, 100), torch.float32)
    x[150, 7] = bad
    found, others = run(x, weight, bias, dy), torch.arange(200) != 150
    assert found.y[150].isnan().all() and found.y[others].isfinite().all()
    assert found.dx[150].isnan().all() and found.dx[others].isfinite().all()
    assert found.dw is not None and found.dw.isnan().all()
    assert found.db is not None and found.db.isfinite().all()


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1021, 16384])
@pytest.mark.parametrize("dtype", DTYPES)
def test_repeated_calls_agree_bitwise(dtype: torch.dtype, columns: int) -> None:
    inputs = draw_all((1000, columns), dtype)
    first = run(*inputs)
    for _ in range(5):
        for again, before in zip(run(*inputs), first, strict=True):
            assert again is not None and before is not None and torch.equal(again, before)


@pytest.mark.gpu
def test_inputs_are_not_overwritten() -> None:
    inputs = draw_all((64, 100), torch.bfloat16)
    before = [tensor.clone() for tensor in inputs]
    run(*inputs)
    assert all(torch.equal(now, then) for now, then in zip(inputs, before, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [100, 16384])
@pytest.mark.parametrize("needed", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_gradients_are_computed_only_where_they_are_needed(needed: tuple[int, ...], columns: int) -> None:
    *inputs, dy = draw_all((64, columns), torch.float32)
    every = run(*inputs, dy)[1:]
    leaves = [tensor.clone().requires_grad_(index in needed) for index, tensor in enumerate(inputs)]
    layer_norm(*leaves, EPS).backward(dy)
    for index, leaf in enumerate(leaves):
        if index not in needed:
            assert leaf.grad is None
            continue
        expected = every[index]
        assert leaf.grad is not None and expected is not None
        torch.testing.assert_close(leaf.grad, expected, rtol=1e-5, atol=1e-4)
    assert not layer_norm(*inputs, EPS).requires_grad


@pytest.mark.gpu
def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    x, weight, bias, dy = draw_all((4, 32), torch.float32)
    y = layer_norm(x.requires_grad_(), weight, bias, EPS)
    (dx,) = torch.autograd.grad(y, x, dy.requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1021, 16384])
@pytest.mark.parametrize(("has_weight", "has_bias"), PARAMETERS)
def test_torch_compile_without_a_graph_break(has_weight: bool, has_bias: bool, columns: int) -> None:
    x, weight, bias, dy = draw_all((4, 75, columns), torch.bfloat16)
    leaves = [x, weight if has_weight else None, bias if has_bias else None]
    eager = run(x, leaves[1], leaves[2], dy)
    torch.compiler.reset()
    compiled = torch.compile(layer_norm, fullgraph=True)
    leaves = [None if leaf is None else leaf.requires_grad_() for leaf in leaves]
    y = compiled(*leaves, EPS)
    y.backward(dy)
    torch.testing.assert_close(y, eager.y)
    for leaf, expected in zip(leaves, eager[1:], strict=True):
        if leaf is not None:
            torch.testing.assert_close(leaf.grad, expected)


@pytest.mark.gpu
def test_cuda_graph_capture_and_replay_on_new_values() -> None:
    x, weight, bias, dy = draw_all((300, 1024), torch.bfloat16)
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]

    def step() -> tuple[Tensor, ...]:
        y = layer_norm(x, weight, bias, EPS)
        return y, *torch.autograd.grad(y, leaves, dy)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        x.copy_(draw((300, 1024), torch.bfloat16, seed=5))
        dy.copy_(draw((300, 1024), torch.bfloat16, seed=6))
    for _ in range(2):
        graph.replay()
    assert all(torch.equal(found, eager) for found, eager in zip(captured, step(), strict=True))


@pytest.mark.gpu
def test_autocast_leaves_the_dtype_of_x() -> None:
    inputs = draw_all((64, 128), torch.float32)
    outside = run(*inputs)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = run(*inputs)
    assert inside.y.dtype == torch.float32
    for found, expected in zip(inside, outside, strict=True):
        assert found is not None and expected is not None and torch.equal(found, expected)


@pytest.mark.gpu
def test_rows_beyond_two_to_the_31_elements_are_reached(far_rows: Tensor) -> None:
    near, weight, bias, dy = draw_all(tuple(far_rows.shape), torch.bfloat16)
    far_rows.copy_(near)
    assert_exact(run(far_rows, weight, bias, dy), far_rows, weight, bias, dy)


@pytest.mark.gpu
def test_wide_rows_and_tensors_on_several_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="65537 columns; at most 65536"):
        layer_norm(torch.ones(1, 65537, device="cuda"))
    with pytest.raises(ValueError, match="weight is on cpu, x on cuda"):
        layer_norm(torch.ones(2, 4, device="cuda"), torch.ones(4))
