"""RMSNorm without a GPU: the interpreted kernels, the reference, the module, the errors. On a GPU: the hard gate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
import triton
from torch import Tensor
from torch.nn import functional

from warpsmith.kernels import RMSNorm
from warpsmith.kernels.rms_norm import _announce_reference, rms_norm, rms_norm_forward, rms_norm_reference

EPS = 1e-6
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CONVENTIONS = (("llama", 0.0), ("gemma", 1.0))

pytestmark = pytest.mark.filterwarnings("ignore:rms_norm. Triton cannot run on CPU")


# The kernels, interpreted on the CPU


def interpreter_cannot_loop() -> bool:
    """Triton before 3.7 turns the bounds of a `range` into integers in a way that numpy from 2.4 on refuses."""
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    try:
        int(np.array([3]))
    except TypeError:
        return version < (3, 7)
    return False


@pytest.fixture(scope="module")
def interpreted_errors() -> dict[str, dict[str, float]]:
    script = Path(__file__).with_name("interpreted_rms_norm.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    errors: dict[str, dict[str, float]] = json.loads(done.stdout)
    return errors


@pytest.mark.skipif(interpreter_cannot_loop(), reason="this triton's interpreter cannot loop with this numpy")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float16", 4e-3)])
def test_interpreted_kernels_match_float64(
    interpreted_errors: dict[str, dict[str, float]], dtype: str, tolerance: float
) -> None:
    errors = {name: largest for name, largest in interpreted_errors.items() if f"-{dtype}-" in name}
    assert len(errors) == 20
    # Written so that a NaN is a failure.
    assert {name: e for name, e in errors.items() if not all(value <= tolerance for value in e.values())} == {}


# The reference


@pytest.mark.parametrize("casting", ["llama", "gemma"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reference_is_torch_rms_norm_where_nothing_is_rounded(dtype: torch.dtype, casting: str) -> None:
    x, weight = torch.randn(7, 33, dtype=dtype), torch.randn(33, dtype=dtype)
    expected = functional.rms_norm(x, (33,), weight + 0.5, EPS)
    torch.testing.assert_close(rms_norm_reference(x, weight, EPS, 0.5, casting), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_reference_rounds_where_the_convention_says(dtype: torch.dtype) -> None:
    x, weight = torch.randn(64, 96).to(dtype), torch.randn(96).to(dtype)
    normalized = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + EPS)
    llama, gemma = (rms_norm_reference(x, weight, EPS, 0.0, casting) for casting in ("llama", "gemma"))
    assert torch.equal(llama, normalized.to(dtype) * weight)
    assert torch.equal(gemma, (normalized * weight.float()).to(dtype))
    assert not torch.equal(llama, gemma)


@pytest.mark.parametrize("has_weight", [True, False])
def test_reference_is_differentiable(has_weight: bool) -> None:
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, dtype=torch.float64, requires_grad=True) if has_weight else None
    assert torch.autograd.gradcheck(lambda x, w: rms_norm_reference(x, w, EPS, 1.0, "gemma"), (x, weight))


def test_cpu_tensors_are_computed_by_the_reference_and_announced_once() -> None:
    x, weight = torch.randn(4, 16, dtype=torch.bfloat16), torch.randn(16, dtype=torch.bfloat16)
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="Triton cannot run on CPU tensors"):
        y = rms_norm(x, weight, EPS, offset=1.0, casting="gemma")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = rms_norm(x, weight, EPS, offset=1.0, casting="gemma")
    expected = rms_norm_reference(x, weight, EPS, 1.0, "gemma")
    assert torch.equal(y, expected) and torch.equal(again, expected)


# Errors


@pytest.mark.parametrize(
    ("x", "weight", "casting", "error", "message"),
    [
        (torch.ones(2, 4, dtype=torch.int64), None, "llama", TypeError, "x must be float32.*int64"),
        (torch.ones(2, 4, dtype=torch.float64), None, "llama", TypeError, "x must be float32.*float64"),
        (torch.ones(2, 4), torch.ones(4, dtype=torch.int32), "llama", TypeError, "weight must be float32.*int32"),
        (torch.ones(2, 4), torch.ones(5), "llama", ValueError, r"shape \(4,\), found \(5,\)"),
        (torch.ones(2, 4), torch.ones(2, 4), "llama", ValueError, r"shape \(4,\), found \(2, 4\)"),
        (torch.ones(2, 4), torch.ones(4, device="meta"), "llama", ValueError, "weight is on meta, x on cpu"),
        (torch.ones(2, 4, device="meta"), None, "llama", ValueError, "CUDA device or on the CPU, found meta"),
        (torch.ones(2, 0), None, "llama", ValueError, r"last dimension.*\(2, 0\)"),
        (torch.tensor(1.0), None, "llama", ValueError, r"last dimension.*\(\)"),
        (torch.ones(2, 4), None, "mistral", ValueError, "casting must be one of .*'mistral'"),
    ],
)
def test_wrong_arguments_are_named(
    x: Tensor, weight: Tensor | None, casting: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        rms_norm(x, weight, casting=casting)


def test_rows_that_no_program_can_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="65537 columns; at most 65536"):
        rms_norm_forward(torch.ones(1, 65537), None, EPS, 0.0, "llama")


# The module


def test_module_starts_as_plain_normalization_whatever_the_offset() -> None:
    x = torch.randn(3, 2, 8)
    plain = functional.rms_norm(x, (8,), None, EPS)
    for module in (RMSNorm(8), RMSNorm(8, offset=1.0, casting="gemma"), RMSNorm(8, elementwise_affine=False)):
        torch.testing.assert_close(module(x), plain)


def test_module_says_what_it_is_and_owns_one_parameter() -> None:
    module = RMSNorm(8, eps=1e-5, offset=1.0, casting="gemma")
    assert repr(module) == "RMSNorm(8, eps=1e-05, offset=1.0, casting='gemma', elementwise_affine=True)"
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    assert list(RMSNorm(8, elementwise_affine=False).parameters()) == []


def test_module_refuses_another_width_even_without_a_weight() -> None:
    with pytest.raises(ValueError, match=r"last dimension of 8, found shape \(2, 9\)"):
        RMSNorm(8, elementwise_affine=False)(torch.ones(2, 9))


# On a GPU


class Results(NamedTuple):
    y: Tensor
    dx: Tensor
    dw: Tensor | None


class Exact(NamedTuple):
    """In float64. `dw_norm` is the root of the sum of squares of the terms dy · x̂ that each element of dw sums."""

    y: Tensor
    dx: Tensor
    dw: Tensor | None
    dw_norm: Tensor


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


def draw_weight(columns: int, dtype: torch.dtype, offset: float = 0.0) -> Tensor:
    return (1.0 - offset + 0.1 * draw((columns,), torch.float32, seed=1)).to(dtype)


def run(x: Tensor, weight: Tensor | None, dy: Tensor, offset: float = 0.0, casting: str = "llama") -> Results:
    x = x.detach().requires_grad_()
    weight = None if weight is None else weight.detach().requires_grad_()
    y = rms_norm(x, weight, EPS, offset=offset, casting=casting)
    y.backward(dy)
    assert x.grad is not None
    return Results(y.detach(), x.grad, None if weight is None else weight.grad)


def run_exactly(x: Tensor, weight: Tensor | None, dy: Tensor, offset: float = 0.0) -> Exact:
    x = x.detach().double().requires_grad_()
    weight = None if weight is None else weight.detach().double().requires_grad_()
    y = rms_norm_reference(x, weight, EPS, offset, "gemma")
    y.backward(dy.double())
    assert x.grad is not None
    terms = dy.double() * rms_norm_reference(x.detach(), None, EPS, 0.0, "gemma")
    dw_norm = terms.reshape(-1, x.shape[-1]).square().sum(dim=0).sqrt()
    return Exact(y.detach(), x.grad, None if weight is None else weight.grad, dw_norm)


def assert_exact(found: Results, exact: Exact, dtype: torch.dtype) -> None:
    """Half a unit in the last place a rounding: y may be rounded twice, dx once, dw once and each of its terms once.

    The roundings of the terms of dw have random signs: three times their norm is six deviations, and more than the
    worst case of nine rows. fp32 sums of thousands of terms leave a few units more than one rounding.
    """
    rounding = max(torch.finfo(dtype).eps / 2, 2e-6)
    assert_within(found.y, exact.y, 2.5 * rounding * exact.y.abs() + 1e-6)
    assert_within(found.dx, exact.dx, 1.5 * rounding * exact.dx.abs() + 1e-5)
    if exact.dw is None:
        assert found.dw is None
        return
    assert found.dw is not None
    assert_within(found.dw, exact.dw, 1.5 * rounding * exact.dw.abs() + 3 * rounding * exact.dw_norm + 1e-6)


def assert_within(found: Tensor, exact: Tensor, tolerance: Tensor) -> None:
    assert found.shape == exact.shape
    excess = (found.double() - exact).abs() - tolerance
    # Written so that a NaN is a failure.
    assert (excess <= 0).all(), f"{int((~(excess <= 0)).sum())} of {excess.numel()} off, by up to {excess.max()}"


@pytest.mark.gpu
@pytest.mark.parametrize(("casting", "offset"), CONVENTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(1, 4096), (127, 1021), (601, 2048), (33, 1), (64, 8192), (257, 4099), (5, 16384), (2, 65536)]
)
def test_values_and_gradients_match_float64(
    shape: tuple[int, int], dtype: torch.dtype, casting: str, offset: float
) -> None:
    x, dy, weight = draw(shape, dtype), draw(shape, dtype, seed=2), draw_weight(shape[1], dtype, offset)
    found = run(x, weight, dy, offset, casting)
    assert (found.y.dtype, found.dx.dtype, found.dw is not None and found.dw.dtype) == (dtype, dtype, dtype)
    assert_exact(found, run_exactly(x, weight, dy, offset), dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_weight_means_no_scale_and_no_gradient_of_it(dtype: torch.dtype) -> None:
    x, dy = draw((300, 1021), dtype), draw((300, 1021), dtype, seed=2)
    assert_exact(run(x, None, dy), run_exactly(x, None, dy), dtype)


@pytest.mark.gpu
def test_an_fp32_weight_keeps_the_dtype_of_x() -> None:
    x, dy, weight = draw((64, 512), torch.bfloat16), draw((64, 512), torch.bfloat16, 2), draw_weight(512, torch.float32)
    found = run(x, weight, dy)
    assert found.y.dtype == torch.bfloat16 and found.dw is not None and found.dw.dtype == torch.float32
    assert_exact(found, run_exactly(x, weight, dy), torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_two_conventions_round_in_different_places(dtype: torch.dtype) -> None:
    x, weight = draw((256, 1024), dtype), draw_weight(1024, dtype)
    for casting, other in (("llama", "gemma"), ("gemma", "llama")):
        y = rms_norm(x, weight, EPS, casting=casting)
        own, foreign = (rms_norm_reference(x, weight, EPS, 0.0, c) for c in (casting, other))
        # rsqrt may differ in its last fp32 bit, which tips a few roundings.
        assert (y != own).float().mean() < 0.01 < (y != foreign).float().mean()


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
    weight = draw_weight(x.shape[-1], torch.float32)
    for dy in (draw(tuple(x.shape), torch.float32, seed=2), torch.ones((), device="cuda").expand(x.shape)):
        assert_exact(run(x, weight, dy), run_exactly(x, weight, dy), torch.float32)


@pytest.mark.gpu
def test_a_strided_weight() -> None:
    x, dy, weight = draw((9, 64), torch.float32), draw((9, 64), torch.float32, 2), draw_weight(128, torch.float32)[::2]
    assert_exact(run(x, weight, dy), run_exactly(x, weight, dy), torch.float32)


@pytest.mark.gpu
def test_leading_dimensions_are_rows() -> None:
    x, dy, weight = (
        draw((2, 3, 4, 96), torch.bfloat16),
        draw((2, 3, 4, 96), torch.bfloat16, 2),
        draw_weight(96, torch.bfloat16),
    )
    found = run(x, weight, dy)
    flat = run(x.reshape(24, 96), weight, dy.reshape(24, 96))
    assert found.y.shape == found.dx.shape == x.shape
    assert torch.equal(found.y.reshape(24, 96), flat.y) and torch.equal(found.dx.reshape(24, 96), flat.dx)
    assert found.dw is not None and flat.dw is not None and torch.equal(found.dw, flat.dw)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_zero_rows_give_an_empty_result_and_a_zero_weight_gradient(shape: tuple[int, ...]) -> None:
    x = draw(shape, torch.bfloat16)
    found = run(x, draw_weight(64, torch.bfloat16), torch.empty_like(x))
    assert found.y.shape == found.dx.shape == shape
    assert found.dw is not None and torch.equal(found.dw, torch.zeros(64, dtype=torch.bfloat16, device="cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_propagate_within_their_row(bad: float) -> None:
    x, dy, weight = draw((200, 100), torch.float32), draw((200, 100), torch.float32, 2), draw_weight(100, torch.float32)
    x[150, 7] = bad
    found, exact = run(x, weight, dy), run_exactly(x, weight, dy)
    for name in ("y", "dx", "dw"):
        ours, theirs = getattr(found, name).double(), getattr(exact, name)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4, equal_nan=True, msg=name)
    assert found.y[150, 7].isnan() and found.y[torch.arange(200) != 150].isfinite().all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_repeated_calls_agree_bitwise(dtype: torch.dtype) -> None:
    x, dy, weight = draw((1000, 1021), dtype), draw((1000, 1021), dtype, seed=2), draw_weight(1021, dtype)
    first = run(x, weight, dy)
    for _ in range(5):
        again = run(x, weight, dy)
        assert torch.equal(again.y, first.y) and torch.equal(again.dx, first.dx)
        assert first.dw is not None and again.dw is not None and torch.equal(again.dw, first.dw)


@pytest.mark.gpu
def test_inputs_are_not_overwritten() -> None:
    x, dy, weight = (
        draw((64, 100), torch.bfloat16),
        draw((64, 100), torch.bfloat16, 2),
        draw_weight(100, torch.bfloat16),
    )
    before = [tensor.clone() for tensor in (x, dy, weight)]
    run(x, weight, dy)
    assert all(torch.equal(now, then) for now, then in zip((x, dy, weight), before, strict=True))


@pytest.mark.gpu
def test_gradients_are_those_of_finite_differences() -> None:
    x, dy, weight = draw((4, 64), torch.float32), draw((4, 64), torch.float32, 2), draw_weight(64, torch.float32)
    towards_x, towards_weight = draw((4, 64), torch.float32, 3), draw((64,), torch.float32, 4)
    found, step = run(x, weight, dy), 1e-2

    def loss(distance: float) -> float:
        y = rms_norm(x + distance * towards_x, weight + distance * towards_weight, EPS)
        return float((y.double() * dy.double()).sum())

    assert found.dw is not None
    slope = float((found.dx * towards_x).sum() + (found.dw * towards_weight).sum())
    assert (loss(step) - loss(-step)) / (2 * step) == pytest.approx(slope, rel=2e-3, abs=2e-2)


@pytest.mark.gpu
def test_gradients_are_computed_only_where_they_are_needed() -> None:
    x, dy, weight = draw((64, 100), torch.float32), draw((64, 100), torch.float32, 2), draw_weight(100, torch.float32)
    both = run(x, weight, dy)
    trained_x = x.clone().requires_grad_()
    rms_norm(trained_x, weight, EPS).backward(dy)
    assert weight.grad is None and trained_x.grad is not None and torch.equal(trained_x.grad, both.dx)
    trained_weight = weight.clone().requires_grad_()
    rms_norm(x, trained_weight, EPS).backward(dy)
    assert x.grad is None and both.dw is not None
    assert trained_weight.grad is not None and torch.equal(trained_weight.grad, both.dw)
    assert not rms_norm(x, weight, EPS).requires_grad


@pytest.mark.gpu
def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    x = draw((4, 32), torch.float32).requires_grad_()
    y = rms_norm(x, draw_weight(32, torch.float32), EPS)
    (dx,) = torch.autograd.grad(y, x, draw((4, 32), torch.float32, 2).requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize(("casting", "offset"), CONVENTIONS)
@pytest.mark.parametrize("has_weight", [True, False])
def test_torch_compile_without_a_graph_break(casting: str, offset: float, has_weight: bool) -> None:
    x, dy = draw((4, 75, 1021), torch.bfloat16), draw((4, 75, 1021), torch.bfloat16, 2)
    weight = draw_weight(1021, torch.bfloat16, offset) if has_weight else None
    eager = run(x, weight, dy, offset, casting)
    torch.compiler.reset()
    compiled = torch.compile(rms_norm, fullgraph=True)
    x = x.requires_grad_()
    weight = None if weight is None else weight.requires_grad_()
    y = compiled(x, weight, EPS, offset=offset, casting=casting)
    y.backward(dy)
    assert x.grad is not None
    torch.testing.assert_close(y, eager.y)
    torch.testing.assert_close(x.grad, eager.dx)
    if weight is not None:
        torch.testing.assert_close(weight.grad, eager.dw)


@pytest.mark.gpu
def test_cuda_graph_capture_and_replay_on_new_values() -> None:
    x, dy, weight = (
        draw((300, 1024), torch.bfloat16).requires_grad_(),
        draw((300, 1024), torch.bfloat16, 2),
        draw_weight(1024, torch.bfloat16).requires_grad_(),
    )

    def step() -> tuple[Tensor, Tensor, Tensor]:
        y = rms_norm(x, weight, EPS)
        dx, dw = torch.autograd.grad(y, (x, weight), dy)
        return y, dx, dw

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
    x, dy, weight = draw((64, 128), torch.float32), draw((64, 128), torch.float32, 2), draw_weight(128, torch.float32)
    outside = run(x, weight, dy)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = run(x, weight, dy)
    assert inside.y.dtype == torch.float32
    assert torch.equal(inside.y, outside.y) and torch.equal(inside.dx, outside.dx)
    assert inside.dw is not None and outside.dw is not None and torch.equal(inside.dw, outside.dw)


@pytest.mark.gpu
def test_rows_beyond_two_to_the_31_elements_are_reached() -> None:
    row_stride, columns = 2**30 + 8, 64
    if torch.cuda.mem_get_info()[0] < 8 * 2**30:
        pytest.skip("needs 8 GiB of free device memory")
    x = torch.empty(2 * row_stride + columns, dtype=torch.bfloat16, device="cuda").as_strided(
        (3, columns), (row_stride, 1)
    )
    x.copy_(draw((3, columns), torch.bfloat16))
    dy, weight = draw((3, columns), torch.bfloat16, 2), draw_weight(columns, torch.bfloat16)
    assert_exact(run(x, weight, dy), run_exactly(x, weight, dy), torch.bfloat16)


@pytest.mark.gpu
def test_wide_rows_are_refused_on_the_gpu() -> None:
    with pytest.raises(ValueError, match="65537 columns; at most 65536"):
        rms_norm(torch.ones(1, 65537, device="cuda"))


@pytest.mark.gpu
def test_a_weight_on_another_device_is_named() -> None:
    with pytest.raises(ValueError, match="weight is on cpu, x on cuda"):
        rms_norm(torch.ones(2, 4, device="cuda"), torch.ones(4))
