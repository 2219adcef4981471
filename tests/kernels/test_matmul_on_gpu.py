"""The matrix product on a GPU: the hard gate."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from warpsmith.kernels.matmul import ACTIVATIONS, matmul, matmul_reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

pytestmark = pytest.mark.gpu


class Arguments(NamedTuple):
    a: Tensor
    b: Tensor
    bias: Tensor
    dc: Tensor


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


def draw_all(a_shape: tuple[int, ...], n: int, dtype: torch.dtype) -> Arguments:
    """Products of deviation 1."""
    k = a_shape[-1]
    b = draw((k, n), dtype, 2) * max(k, 1) ** -0.5
    return Arguments(draw(a_shape, dtype, 1), b, draw((n,), dtype, 3), draw((*a_shape[:-1], n), dtype, 4))


def run(arguments: Arguments, activation: str = "none", precision: str = "ieee", apply: Any = matmul) -> list[Tensor]:
    """c, da, db and dbias."""
    leaves = [tensor.detach().requires_grad_() for tensor in arguments[:3]]
    c = apply(*leaves, activation=activation, precision=precision)
    return [c.detach(), *torch.autograd.grad(c, leaves, arguments.dc)]


def assert_exact(found: list[Tensor], arguments: Arguments, activation: str = "none", precision: str = "ieee") -> None:
    """Within what the roundings can make of it.

    A sum of n terms is off by at most n roundings of the sum of their absolute values, and products of TF32 by two of
    11 bits, which may cut off. c, da, db and dbias are rounded once, z and dz before them; the roundings of dz, which
    are independent, add up as their squares do.
    """
    dtype = arguments.a.dtype
    half_ulp = torch.finfo(dtype).eps / 2 if dtype != torch.float32 else 2.0**-23
    a, b, bias, dc = (tensor.detach().double() for tensor in arguments)
    a, dc = (tensor.reshape(-1, tensor.shape[-1]) for tensor in (a, dc))
    (m, k), n = a.shape, b.shape[1]
    of_products = 2.0**-9 if precision == "tf32" and dtype == torch.float32 else 0.0

    def of_sum(terms: int, absolute: Tensor) -> Tensor:
        return ((terms + 4) * 2.0**-23 + of_products) * absolute

    leaves = [tensor.requires_grad_() for tensor in (a, b, bias)]
    exact_z = (leaves[0] @ leaves[1] + leaves[2]).detach()
    c = matmul_reference(leaves[0], leaves[1], leaves[2], activation)
    c_exact, exact = c.detach(), torch.autograd.grad(c, leaves, dc)
    a, b, bias = (tensor.detach() for tensor in leaves)

    # No activation is steeper than 1.13, nor its slope than 0.8.
    off_z = of_sum(k, a.abs() @ b.abs() + bias.abs())
    off_dz = torch.zeros_like(dc)
    if activation != "none":
        off_dz = dc.abs() * (0.8 * (off_z + 1.01 * half_ulp * exact_z.abs()) + 1.3 * half_ulp + 2e-6)
    dz = dc.abs() * (1.0 if activation == "none" else 1.13)
    off = [
        1.13 * off_z + 2e-6,
        4 * (off_dz.square() @ b.square().T).sqrt() + of_sum(n, dz @ b.abs().T),
        4 * (a.square().T @ off_dz.square()).sqrt() + of_sum(m, a.abs().T @ dz),
        4 * off_dz.square().sum(0).sqrt() + (m + 4) * 2.0**-23 * dz.sum(0),
    ]
    for ours, theirs, allowed in zip(found, (c_exact, *exact), off, strict=True):
        assert ours.dtype == dtype
        allowed = 1.01 * half_ulp * theirs.abs() + allowed + 1e-7
        excess = (ours.double().reshape(theirs.shape) - theirs).abs() - allowed
        # Written so that a NaN is a failure.
        assert (excess <= 0).all(), f"{int((~(excess <= 0)).sum())} of {excess.numel()} off, by up to {excess.max()}"


def assert_same(found: list[Tensor], other: list[Tensor]) -> None:
    assert all(torch.equal(one, another) for one, another in zip(found, other, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("a_shape", "n"),
    [
        ((1, 512), 256),
        ((16, 1024), 1000),
        ((33, 127), 64),
        ((64, 256), 96),
        ((300, 200), 8),
        ((127, 509), 251),
        ((521, 1021), 523),
        ((512, 96), 1048),
        ((1400, 200), 2600),
        ((4, 5, 64), 48),
        ((40,), 24),
        ((3, 1), 1),
    ],
)
def test_values_and_gradients_match_float64(a_shape: tuple[int, ...], n: int, dtype: torch.dtype) -> None:
    arguments = draw_all(a_shape, n, dtype)
    found = run(arguments)
    assert [each.shape for each in found] == [arguments.dc.shape, *(tensor.shape for tensor in arguments[:3])]
    assert_exact(found, arguments)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("a_shape", "n"), [((16, 256), 512), ((127, 509), 251), ((1400, 128), 2600)])
def test_epilogues_match_float64(a_shape: tuple[int, ...], n: int, dtype: torch.dtype, activation: str) -> None:
    arguments = draw_all(a_shape, n, dtype)
    assert_exact(run(arguments, activation), arguments, activation)


@pytest.mark.parametrize(("a_shape", "n"), [((16, 256), 512), ((127, 509), 251), ((1400, 264), 2600)])
def test_tf32_is_further_off_than_ieee_but_not_by_more_than_it_may(a_shape: tuple[int, ...], n: int) -> None:
    arguments = draw_all(a_shape, n, torch.float32)
    tf32, ieee = run(arguments, precision="tf32"), run(arguments)
    assert_exact(tf32, arguments, precision="tf32")
    exact = matmul_reference(arguments.a.double(), arguments.b.double(), arguments.bias.double())
    assert (tf32[0] - exact).abs().max() > 8 * (ieee[0] - exact).abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_precision_is_of_fp32_only(dtype: torch.dtype) -> None:
    arguments = draw_all((127, 509), 251, dtype)
    assert_same(run(arguments), run(arguments, precision="tf32"))


@pytest.mark.parametrize("size", [(200, 136, 120), (601, 77, 523), (1400, 128, 2600)])
@pytest.mark.parametrize(
    "layout", ["linear", "transposed", "both", "row strided", "shifted", "every other", "expanded"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_layout(dtype: torch.dtype, layout: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    a, b, bias, dc = draw_all((m, k), n, dtype)
    wide_a, wide_b = draw((2 * m, 2 * k), dtype, 5), draw((2 * k, 2 * n), dtype, 6) * k**-0.5
    if layout in ("linear", "both"):
        b = b.T.contiguous().T
    if layout in ("transposed", "both"):
        a, dc = a.T.contiguous().T, dc.T.contiguous().T
    if layout == "row strided":
        a, b = wide_a[:m, :k], wide_b[:k, :n]
    if layout == "shifted":
        a, b = wide_a[1 : m + 1, 3 : k + 3], wide_b[1 : k + 1, 1 : n + 1]
    if layout == "every other":
        a, b = wide_a[::2, ::2], wide_b[::2, ::2]
    if layout == "expanded":
        a, b, dc = a[:1].expand(m, k), b[:, :1].expand(k, n), dc[:1, :1].expand(m, n)
    arguments = Arguments(a, b, bias, dc)
    # Expanded, roundings are the same everywhere, and add up.
    activation = "none" if layout == "expanded" else "silu"
    assert_exact(run(arguments, activation), arguments, activation)


@pytest.mark.parametrize(("a_shape", "n"), [((0, 64), 32), ((2, 0, 64), 32), ((16, 64), 0), ((16, 0), 32), ((0, 0), 0)])
def test_nothing_gives_nothing_or_the_bias(a_shape: tuple[int, ...], n: int) -> None:
    arguments = draw_all(a_shape, n, torch.bfloat16)
    c, da, db, _ = run(arguments)
    assert c.shape == (*a_shape[:-1], n) and da.shape == a_shape and db.shape == (a_shape[-1], n)
    if a_shape[-1] == 0:
        assert torch.equal(c, arguments.bias.expand_as(c))
    else:
        assert not c.numel() and not da.any() and not db.any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("k", [77, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nan_and_infinity_propagate_where_they_are(dtype: torch.dtype, k: int, bad: float) -> None:
    arguments = draw_all((150, k), 136, dtype)
    arguments.a[140, 7] = bad
    arguments.b[3, 130] = bad
    c = matmul(arguments.a, arguments.b, arguments.bias)
    exact = matmul_reference(arguments.a.double(), arguments.b.double(), arguments.bias.double())
    torch.testing.assert_close(c.double(), exact, rtol=0.01, atol=0.01, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [509, 512])
def test_repeated_calls_agree_bitwise_and_leave_their_arguments(dtype: torch.dtype, k: int) -> None:
    arguments = draw_all((1400, k), 2600, dtype)
    before = [tensor.clone() for tensor in arguments]
    first = run(arguments, "gelu")
    for _ in range(5):
        assert_same(run(arguments, "gelu"), first)
    assert all(torch.equal(now, then) for now, then in zip(arguments, before, strict=True))


def test_gradients_are_computed_only_where_they_are_needed() -> None:
    arguments = draw_all((64, 96), 40, torch.float32)
    all_of_them = run(arguments, "silu")
    for index in range(3):
        leaves = list(arguments[:3])
        leaves[index] = leaves[index].detach().requires_grad_()
        (alone,) = torch.autograd.grad(matmul(*leaves, activation="silu"), leaves[index], arguments.dc)
        assert torch.equal(alone, all_of_them[index + 1])
    assert not matmul(*arguments[:3]).requires_grad
    with torch.no_grad():
        assert torch.equal(matmul(*arguments[:3], activation="silu"), all_of_them[0])


def test_a_matrix_times_itself_has_both_gradients() -> None:
    a = draw((64, 64), torch.float32).requires_grad_()
    dc = draw((64, 64), torch.float32, 2)
    expected = dc @ a.detach().T + a.detach().T @ dc
    for apply in (matmul, torch.compile(matmul, fullgraph=True)):
        (da,) = torch.autograd.grad(apply(a, a), a, dc)
        torch.testing.assert_close(da, expected, rtol=1e-4, atol=1e-4)


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    arguments = draw_all((4, 32), 16, torch.float32)
    a, dc = arguments.a.requires_grad_(), arguments.dc.requires_grad_()
    (da,) = torch.autograd.grad(matmul(a, arguments.b), a, dc, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        da.sum().backward()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("activation", ["none", "gelu_tanh"])
@pytest.mark.parametrize(("a_shape", "n"), [((4, 75, 128), 264), ((601, 77), 523), ((3, 64), 32)])
def test_torch_compile_without_a_graph_break(
    a_shape: tuple[int, ...], n: int, activation: str, dynamic: bool | None
) -> None:
    arguments = draw_all(a_shape, n, torch.bfloat16)
    arguments = arguments._replace(b=arguments.b.T.contiguous().T)
    torch.compiler.reset()
    found = run(arguments, activation, apply=torch.compile(matmul, fullgraph=True, dynamic=dynamic))
    assert_exact(found, arguments, activation)


def test_torch_compile_of_rows_whose_strides_alone_are_aligned() -> None:
    arguments = draw_all((300, 520), 600, torch.bfloat16)
    wide = draw((301, 528), torch.bfloat16)
    arguments = arguments._replace(a=wide[1:, 3:523])
    torch.compiler.reset()
    assert_exact(run(arguments, apply=torch.compile(matmul, fullgraph=True)), arguments)
    sliced_within = torch.compile(lambda wide, b: matmul(wide[1:, 3:523], b), fullgraph=True)
    torch.testing.assert_close(sliced_within(wide, arguments.b), matmul(arguments.a, arguments.b))


def test_cuda_graph_capture_and_replay_on_new_values() -> None:
    arguments = draw_all((300, 256), 520, torch.bfloat16)
    leaves = [tensor.requires_grad_() for tensor in arguments[:3]]

    def step() -> tuple[Tensor, ...]:
        c = matmul(*leaves, activation="silu")
        return (c, *torch.autograd.grad(c, leaves, arguments.dc))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for seed, tensor in enumerate(arguments, start=5):
            tensor.copy_(draw(tuple(tensor.shape), torch.bfloat16, seed))
    for _ in range(2):
        graph.replay()
    assert all(torch.equal(found, eager) for found, eager in zip(captured, step(), strict=True))


@pytest.mark.parametrize("a_dtype", [torch.float32, torch.bfloat16])
def test_autocast_casts_what_is_multiplied_as_torch_does(a_dtype: torch.dtype) -> None:
    a, b, bias, dc = draw_all((64, 128), 96, torch.float32)
    cast = Arguments(a.bfloat16(), b.bfloat16(), bias, dc.bfloat16())
    outside = run(cast, "silu")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = run(Arguments(a.to(a_dtype), b, bias, cast.dc), "silu")
    assert [each.dtype for each in inside] == [torch.bfloat16, a_dtype, torch.float32, torch.float32]
    assert_same([each.to(other.dtype) for each, other in zip(inside, outside, strict=True)], outside)


def test_one_value_with_strides_of_its_own() -> None:
    one = draw((8, 16), torch.bfloat16)[::8, ::16]
    assert torch.equal(matmul(one, one), one * one)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_beyond_two_to_the_31_elements_are_reached(dtype: torch.dtype) -> None:
    row_stride, k = 2**30 + 8, 64
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("needs 12 GiB of free device memory")
    memory = torch.empty(2 * row_stride + k, dtype=dtype, device="cuda")
    a = memory.as_strided((3, k), (row_stride, 1))
    _, b, bias, dc = draw_all((3, k), 40, dtype)
    arguments = Arguments(a.copy_(draw((3, k), dtype)), b, bias, dc)
    assert_exact(run(arguments), arguments)


def test_a_b_on_another_device_is_named() -> None:
    with pytest.raises(ValueError, match="b is on cpu, a on cuda"):
        matmul(torch.ones(2, 4, device="cuda"), torch.ones(4, 2))
