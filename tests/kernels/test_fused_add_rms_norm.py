"""Residual addition and RMSNorm: on the CPU interpreted kernels, the reference, the errors; on a GPU the hard gate."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.kernels.arguments import _announce_reference
from warpsmith.kernels.fused_add_rms_norm import (
    fused_add_rms_norm,
    fused_add_rms_norm_forward,
    fused_add_rms_norm_reference,
)

EPS = 1e-6
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CONVENTIONS = (("llama", 0.0), ("gemma", 1.0))

pytestmark = pytest.mark.filterwarnings("ignore:fused_add_rms_norm. Triton cannot run on")


# The kernels, interpreted on the CPU


@pytest.mark.usefixtures("interpreter_loops")
@pytest.mark.parametrize(("dtype", "cases", "tolerance"), [("float32", 41, 3e-6), ("float16", 40, 4e-3)])
def test_interpreted_kernels_match_float64(
    interpreted_errors: dict[str, dict[str, float]], dtype: str, cases: int, tolerance: float
) -> None:
    errors = {name: largest for name, largest in interpreted_errors.items() if f"-{dtype}-" in name}
    assert len(errors) == cases
    # Written so that a NaN is a failure.
    assert {name: e for name, e in errors.items() if not all(value <= tolerance for value in e.values())} == {}


# The reference


@pytest.mark.parametrize("casting", ["llama", "gemma"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reference_is_torchs_where_nothing_is_rounded(dtype: torch.dtype, casting: str) -> None:
    x, residual, weight = torch.randn(7, 33, dtype=dtype), torch.randn(7, 33, dtype=dtype), torch.randn(33, dtype=dtype)
    y, s = fused_add_rms_norm_reference(x, residual, weight, EPS, 0.5, casting)
    assert torch.equal(s, x + residual)
    torch.testing.assert_close(y, functional.rms_norm(s, (33,), weight + 0.5, EPS))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_reference_rounds_where_the_convention_says(dtype: torch.dtype) -> None:
    x, residual, weight = torch.randn(64, 96).to(dtype), torch.randn(64, 96).to(dtype), torch.randn(96).to(dtype)
    llama, s = fused_add_rms_norm_reference(x, residual, weight, EPS, 0.0, "llama")
    gemma, _ = fused_add_rms_norm_reference(x, residual, weight, EPS, 0.0, "gemma")
    normalized = s.float() * torch.rsqrt(s.float().pow(2).mean(-1, keepdim=True) + EPS)
    assert torch.equal(s, x + residual)
    assert torch.equal(llama, normalized.to(dtype) * weight)
    assert torch.equal(gemma, (normalized * weight.float()).to(dtype))


@pytest.mark.parametrize("has_weight", [True, False])
def test_reference_is_differentiable(has_weight: bool) -> None:
    x, residual = (torch.randn(3, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weight = torch.randn(5, dtype=torch.float64, requires_grad=True) if has_weight else None
    assert torch.autograd.gradcheck(fused_add_rms_norm_reference, (x, residual, weight, EPS, 1.0, "gemma"))


def test_cpu_tensors_are_computed_by_the_reference_and_announced_once() -> None:
    x, residual, weight = (torch.randn(4, 16), torch.randn(4, 16), torch.randn(16))
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="fused_add_rms_norm: Triton cannot run on cpu tensors"):
        outputs = fused_add_rms_norm(x, residual, weight, EPS, offset=1.0, casting="gemma")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = fused_add_rms_norm(x, residual, weight, EPS, offset=1.0, casting="gemma")
    expected = fused_add_rms_norm_reference(x, residual, weight, EPS, 1.0, "gemma")
    for found in (outputs, again):
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, expected, strict=True))


def test_in_place_overwrites_both_inputs() -> None:
    x, residual = torch.randn(4, 16), torch.randn(4, 16)
    y, s = fused_add_rms_norm(x, residual)
    found = fused_add_rms_norm(x, residual, in_place=True)
    assert found[0] is x and found[1] is residual
    assert torch.equal(x, y) and torch.equal(residual, s)


# Errors

ONES = torch.ones(2, 4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"x": ONES.long()}, TypeError, "x must be float32.*int64"),
        ({"residual": ONES.double()}, TypeError, "residual must be float32.*float64"),
        ({"residual": ONES.half()}, TypeError, "residual must have the dtype of x, torch.float32, found torch.float16"),
        ({"residual": ONES[:1]}, ValueError, r"residual must have shape \(2, 4\), found \(1, 4\)"),
        ({"residual": ONES.to("meta")}, ValueError, "residual is on meta, x on cpu"),
        ({"weight": torch.ones(4, dtype=torch.int32)}, TypeError, "weight must be float32.*int32"),
        ({"weight": torch.ones(5)}, ValueError, r"weight must have shape \(4,\), found \(5,\)"),
        ({"weight": torch.ones(4, device="meta")}, ValueError, "weight is on meta, x on cpu"),
        ({"x": torch.ones(2, 0), "residual": torch.ones(2, 0)}, ValueError, r"last dimension.*\(2, 0\)"),
        ({"casting": "mistral"}, ValueError, "casting must be one of .*'mistral'"),
        ({"x": torch.ones(2, 4, requires_grad=True), "in_place": True}, ValueError, "in_place is for inference"),
        ({"weight": torch.ones(4, requires_grad=True), "in_place": True}, ValueError, "in_place is for inference"),
        ({"residual": torch.ones(4, 2).T, "in_place": True}, ValueError, r"residual must be contiguous.*\(1, 2\)"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fused_add_rms_norm(**({"x": ONES.clone(), "residual": ONES.clone()} | arguments))


def test_rows_that_no_program_can_hold_are_refused() -> None:
    wide = torch.ones(1, 65537)
    with pytest.raises(ValueError, match="65537 columns; at most 65536"):
        fused_add_rms_norm_forward(wide, wide, None, EPS, 0.0, "llama", in_place=False)


def test_in_place_refuses_shared_memory() -> None:
    whole, other = torch.ones(5, 8), torch.ones(4, 8)
    x = whole[:4]
    for residual, weight in ((x, None), (whole[1:], None), (other, whole[0]), (other, other[1])):
        with pytest.raises(ValueError, match="share memory, and in_place overwrites two of them; clone one"):
            fused_add_rms_norm(x, residual, weight, in_place=True)
    assert torch.equal(whole, torch.ones(5, 8)) and torch.equal(other, torch.ones(4, 8))


def test_in_place_takes_neighbours_of_one_memory() -> None:
    whole = torch.randn(8, 8)
    expected = fused_add_rms_norm(whole[:4].clone(), whole[4:].clone())
    y, s = fused_add_rms_norm(whole[:4], whole[4:], in_place=True)
    assert y.data_ptr() == whole.data_ptr() and torch.equal(y, expected[0]) and torch.equal(s, expected[1])


@pytest.mark.gpu
def test_what_in_place_overwrites_cannot_serve_a_pass_backward() -> None:
    x, residual = torch.randn(4, 8, device="cuda"), torch.randn(4, 8, device="cuda")
    weight = torch.ones(8, device="cuda", requires_grad=True)
    product = (x * weight).sum()
    with torch.no_grad():
        fused_add_rms_norm(x, residual, in_place=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


# On a GPU


class Results(NamedTuple):
    y: Tensor
    s: Tensor
    dx: Tensor
    dr: Tensor
    dw: Tensor | None


class Drawn(NamedTuple):
    x: Tensor
    residual: Tensor
    weight: Tensor
    dy: Tensor
    ds_out: Tensor


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


def draw_all(shape: tuple[int, ...], dtype: torch.dtype, offset: float = 0.0) -> Drawn:
    x, residual, dy, ds_out = (draw(shape, dtype, seed) for seed in range(4))
    weight = (1.0 - offset + 0.1 * draw(shape[-1:], torch.float32, seed=5)).to(dtype)
    return Drawn(x, residual, weight, dy, ds_out)


def run(drawn: Drawn, offset: float = 0.0, casting: str = "llama", apply: Any = fused_add_rms_norm) -> Results:
    x, residual, weight = (tensor.detach().requires_grad_() for tensor in drawn[:3])
    y, s = apply(x, residual, weight, EPS, offset=offset, casting=casting)
    torch.autograd.backward((y, s), (drawn.dy, drawn.ds_out))
    assert x.grad is not None and residual.grad is not None
    return Results(y.detach(), s.detach(), x.grad, residual.grad, weight.grad)


def assert_exact(found: Results, drawn: Drawn, offset: float = 0.0) -> None:
    """Half a unit in the last place a rounding: y may be rounded twice, ds once, dw once and each of its terms once.

    s is torch's own sum, bit for bit; it is what float64 normalizes. The roundings of the terms of dw have random
    signs: three times the root of their squares is six deviations, and more than the worst case of nine rows. fp32
    sums of thousands of terms leave a few units more than one rounding.
    """
    assert torch.equal(found.s, drawn.x + drawn.residual)
    s, weight = found.s.double().requires_grad_(), drawn.weight.double().requires_grad_()
    exact, _ = fused_add_rms_norm_reference(s, torch.zeros_like(s), weight, EPS, offset, "gemma")
    torch.autograd.backward((exact, s * 1.0), (drawn.dy.double(), drawn.ds_out.double()))
    assert s.grad is not None and weight.grad is not None
    normalized = exact.detach() / (weight.detach() + offset)
    dw_norm = (drawn.dy.double() * normalized).reshape(-1, s.shape[-1]).square().sum(dim=0).sqrt()
    rounding = max(torch.finfo(drawn.x.dtype).eps / 2, 2e-6)
    assert_within(found.y, exact.detach(), 2.5 * rounding * exact.detach().abs() + 1e-6)
    for gradient in (found.dx, found.dr):
        assert_within(gradient, s.grad, 1.5 * rounding * s.grad.abs() + 1e-5)
    assert found.dw is not None
    assert_within(found.dw, weight.grad, 1.5 * rounding * weight.grad.abs() + 3 * rounding * dw_norm + 1e-6)


def assert_within(found: Tensor, exact: Tensor, tolerance: Tensor) -> None:
    assert found.shape == exact.shape
    excess = (found.double() - exact).abs() - tolerance
    # Written so that a NaN is a failure.
    assert (excess <= 0).all(), f"{int((~(excess <= 0)).sum())} of {excess.numel()} off, by up to {excess.max()}"


def assert_same(found: Results, expected: Results) -> None:
    for name, ours, theirs in zip(Results._fields, found, expected, strict=True):
        assert ours is not None and theirs is not None and torch.equal(ours, theirs), name


@pytest.mark.gpu
@pytest.mark.parametrize(("casting", "offset"), CONVENTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(1, 4096), (127, 1021), (9001, 512), (601, 2048), (33, 1), (64, 8192), (257, 4099), (140, 16384), (2, 65536)],
)
def test_values_and_gradients_match_float64(
    shape: tuple[int, int], dtype: torch.dtype, casting: str, offset: float
) -> None:
    drawn = draw_all(shape, dtype, offset)
    found = run(drawn, offset, casting)
    assert {tensor.dtype for tensor in found if tensor is not None} == {dtype}
    assert_exact(found, drawn, offset)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_weight_means_no_scale(dtype: torch.dtype) -> None:
    drawn = draw_all((300, 1021), dtype)
    ones = drawn._replace(weight=torch.ones_like(drawn.weight))
    x, residual = (tensor.clone().requires_grad_() for tensor in drawn[:2])
    torch.autograd.backward(fused_add_rms_norm(x, residual, None, EPS), (drawn.dy, drawn.ds_out))
    expected = run(ones)
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(x.grad, expected.dx, rtol=rounding, atol=1e-6)
    torch.testing.assert_close(residual.grad, expected.dr, rtol=rounding, atol=1e-6)


@pytest.mark.gpu
def test_an_fp32_weight_keeps_the_dtype_of_x() -> None:
    drawn = draw_all((64, 512), torch.bfloat16)
    found = run(drawn._replace(weight=drawn.weight.float()))
    assert found.y.dtype == torch.bfloat16 and found.dw is not None and found.dw.dtype == torch.float32
    assert_exact(found, drawn)


@pytest.mark.gpu
@pytest.mark.parametrize("used", ["y", "s"])
def test_an_output_that_nobody_uses_has_no_gradient(used: str) -> None:
    drawn = draw_all((300, 1024), torch.float32)
    x, residual, weight = (tensor.clone().requires_grad_() for tensor in drawn[:3])
    y, s = fused_add_rms_norm(x, residual, weight, EPS)
    y.backward(drawn.dy) if used == "y" else s.backward(drawn.ds_out)
    unused = {"y": "ds_out", "s": "dy"}[used]
    expected = run(drawn._replace(**{unused: torch.zeros_like(drawn.dy)}))
    torch.testing.assert_close(x.grad, expected.dx)
    torch.testing.assert_close(residual.grad, expected.dr)
    assert torch.equal(weight.grad, expected.dw) if used == "y" else weight.grad is None


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_two_gradients_of_one_tensor_are_added_up_apart(compiled: bool) -> None:
    drawn = draw_all((3, 100, 256), torch.float32)
    once = run(drawn)
    torch.compiler.reset()
    apply = torch.compile(fused_add_rms_norm, fullgraph=True) if compiled else fused_add_rms_norm
    x, residual = (tensor.clone().requires_grad_() for tensor in drawn[:2])
    for _ in range(3):
        torch.autograd.backward(apply(x, residual, drawn.weight, EPS), (drawn.dy, drawn.ds_out))
    assert x.grad is not None and residual.grad is not None and x.grad.data_ptr() != residual.grad.data_ptr()
    torch.testing.assert_close(x.grad, 3 * once.dx)
    torch.testing.assert_close(residual.grad, 3 * once.dr)
    both = drawn.x.clone().requires_grad_()
    torch.autograd.backward(apply(both, both, drawn.weight, EPS), (drawn.dy, drawn.ds_out))
    torch.testing.assert_close(both.grad, 2 * run(drawn._replace(residual=drawn.x)).dx)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["row_strided", "transposed", "expanded", "permuted", "one_row_of_one_dimension"])
def test_any_layout(layout: str) -> None:
    def laid_out(seed: int) -> Tensor:
        wide = draw((3, 100, 200), torch.float32, seed)
        return {
            "row_strided": wide[0, :, :77],
            "transposed": wide[0].T,
            "expanded": wide[0, :1].expand(50, 200),
            "permuted": wide.permute(1, 0, 2),
            "one_row_of_one_dimension": wide[0, 0, :33],
        }[layout]

    x, residual, dy, ds_out = (laid_out(seed) for seed in range(4))
    weight = draw((2 * x.shape[-1],), torch.float32, 5)[::2]
    one = torch.ones((), device="cuda").expand(x.shape)
    for drawn in (Drawn(x, residual, weight, dy, ds_out), Drawn(x, residual.contiguous(), weight, one, one)):
        found = run(drawn)
        assert found.y.is_contiguous() and found.s.is_contiguous()
        assert_exact(found, drawn)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_zero_rows_give_an_empty_result_and_a_zero_weight_gradient(shape: tuple[int, ...]) -> None:
    found = run(draw_all(shape, torch.bfloat16))
    assert found.y.shape == found.s.shape == found.dx.shape == shape
    assert found.dw is not None and torch.equal(found.dw, torch.zeros(64, dtype=torch.bfloat16, device="cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["x", "residual", "ds_out"])
def test_nan_and_infinity_propagate_within_their_row(name: str, bad: float) -> None:
    drawn = draw_all((200, 100), torch.float32)
    getattr(drawn, name)[150, 7] = bad

    def by_reference(x: Tensor, r: Tensor, w: Tensor, eps: float, *, offset: float, casting: str) -> Any:
        return fused_add_rms_norm_reference(x, r, w, eps, offset, casting)

    found, expected = run(drawn), run(drawn, apply=by_reference)
    for field, ours, theirs in zip(Results._fields, found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4, equal_nan=True, msg=field)
    assert found.dx[torch.arange(200) != 150].isfinite().all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_repeated_calls_agree_bitwise_and_leave_their_inputs(dtype: torch.dtype) -> None:
    drawn = draw_all((1000, 1021), dtype)
    before, first = [tensor.clone() for tensor in drawn], run(drawn)
    for _ in range(5):
        assert_same(run(drawn), first)
    assert all(torch.equal(now, then) for now, then in zip(drawn, before, strict=True))


@pytest.mark.gpu
def test_gradients_are_computed_only_where_they_are_needed() -> None:
    drawn = draw_all((64, 100), torch.float32)
    every = run(drawn)
    for index, expected in enumerate((every.dx, every.dr, every.dw)):
        inputs = [tensor.clone() for tensor in drawn[:3]]
        inputs[index].requires_grad_()
        y, s = fused_add_rms_norm(*inputs, EPS)
        assert y.requires_grad and s.requires_grad == (index != 2)
        torch.autograd.backward((y, s) if s.requires_grad else (y,), (drawn.dy, drawn.ds_out)[: 1 + s.requires_grad])
        assert [tensor.grad is not None for tensor in inputs] == [index == other for other in range(3)]
        assert expected is not None and torch.equal(inputs[index].grad, expected)
    assert not any(output.requires_grad for output in fused_add_rms_norm(*drawn[:3], EPS))


@pytest.mark.gpu
def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    drawn = draw_all((4, 32), torch.float32)
    x = drawn.x.requires_grad_()
    y, _ = fused_add_rms_norm(x, drawn.residual, drawn.weight, EPS)
    (dx,) = torch.autograd.grad(y, x, drawn.dy.requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_writes_the_same_values(dtype: torch.dtype) -> None:
    drawn = draw_all((2, 150, 1021), dtype)
    y, s = fused_add_rms_norm(*drawn[:3], EPS)
    for apply in (fused_add_rms_norm, torch.compile(fused_add_rms_norm, fullgraph=True)):
        x, residual = drawn.x.clone(), drawn.residual.clone()
        found = apply(x, residual, drawn.weight, EPS, in_place=True)
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, (y, s), strict=True))
        assert torch.equal(x, y) and torch.equal(residual, s)


@pytest.mark.gpu
@pytest.mark.parametrize(("casting", "offset"), CONVENTIONS)
def test_torch_compile_without_a_graph_break(casting: str, offset: float) -> None:
    drawn = draw_all((4, 75, 1021), torch.bfloat16, offset)
    torch.compiler.reset()
    found = run(drawn, offset, casting, torch.compile(fused_add_rms_norm, fullgraph=True))
    for name, ours, theirs in zip(Results._fields, found, run(drawn, offset, casting), strict=True):
        torch.testing.assert_close(ours, theirs, msg=name)


@pytest.mark.gpu
def test_torch_compile_of_one_function_at_several_widths() -> None:
    torch.compiler.reset()
    compiled = torch.compile(fused_add_rms_norm, fullgraph=True)
    for shape in ((60, 1021), (300, 700), (900, 16384), (7, 1021)):
        drawn = draw_all(shape, torch.float32)
        for name, ours, theirs in zip(Results._fields, run(drawn, apply=compiled), run(drawn), strict=True):
            torch.testing.assert_close(ours, theirs, msg=name)


@pytest.mark.gpu
def test_torch_compile_where_an_output_is_not_used() -> None:
    drawn = draw_all((300, 256), torch.float32)
    torch.compiler.reset()
    found = []
    for apply in (fused_add_rms_norm, torch.compile(fused_add_rms_norm, fullgraph=True)):
        x = drawn.x.clone().requires_grad_()
        apply(x, drawn.residual, drawn.weight, EPS)[0].backward(drawn.dy)
        found.append(x.grad)
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.gpu
def test_cuda_graph_capture_and_replay_on_new_values() -> None:
    drawn = draw_all((300, 1024), torch.bfloat16)
    inputs = [tensor.requires_grad_() for tensor in drawn[:3]]

    def step() -> tuple[Tensor, ...]:
        outputs = fused_add_rms_norm(*inputs, EPS)
        return (*outputs, *torch.autograd.grad(outputs, inputs, (drawn.dy, drawn.ds_out)))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for seed, tensor in enumerate(drawn):
            tensor.copy_(draw(tuple(tensor.shape), torch.bfloat16, seed=10 + seed))
    for _ in range(2):
        graph.replay()
    assert all(torch.equal(found, eager) for found, eager in zip(captured, step(), strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_autocast_leaves_the_dtype_of_x(dtype: torch.dtype) -> None:
    drawn = draw_all((64, 128), dtype)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = run(drawn)
    assert inside.y.dtype == inside.s.dtype == dtype
    assert_same(inside, run(drawn))


@pytest.mark.gpu
def test_wide_rows_and_other_devices_are_refused() -> None:
    wide, narrow = torch.ones(1, 65537, device="cuda"), torch.ones(2, 4, device="cuda")
    with pytest.raises(ValueError, match="65537 columns; at most 65536"):
        fused_add_rms_norm(wide, wide)
    with pytest.raises(ValueError, match="weight is on cpu, x on cuda"):
        fused_add_rms_norm(narrow, narrow, torch.ones(4))
