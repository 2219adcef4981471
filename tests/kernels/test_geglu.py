"""GeGLU without a GPU: the kernels interpreted and compiled, the reference, the errors. On a GPU: the hard gate."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import triton
from torch import Tensor
from torch.nn import functional
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.kernels.arguments import _announce_reference
from warpsmith.kernels.geglu import _geglu_backward_kernel, _geglu_forward_kernel, geglu, geglu_reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
APPROXIMATIONS = ("tanh", "none")

pytestmark = pytest.mark.filterwarnings("ignore:geglu. Triton cannot run on cpu")


# The kernels, interpreted on the CPU


# fp16: what is expected is rounded too, and a rounding may tip.
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float16", 1e-3)])
def test_interpreted_kernels_match_float64(
    interpreted_errors: dict[str, dict[str, float]], dtype: str, tolerance: float
) -> None:
    errors = {name: largest for name, largest in interpreted_errors.items() if f"-{dtype}-" in name}
    assert len(errors) == 80
    # Written so that a NaN is a failure.
    assert {name: e for name, e in errors.items() if not all(value <= tolerance for value in e.values())} == {}


# The kernels, compiled for an H200


def accesses(kernel: Any, tanh: bool, columns_multiple_of_16: bool) -> set[str]:
    """The accesses to global memory in its PTX, of bf16, with 16-byte aligned tensors and row strides."""
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[object]]] = {}
    for index, name in enumerate(kernel.arg_names):
        signature[name] = "constexpr" if name.isupper() else "*bf16" if name.endswith("_ptr") else "i32"
        if not name.isupper() and (name != "n_cols" or columns_multiple_of_16):
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs={"TANH": tanh, "BLOCK_SIZE": 2048}, attrs=attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    lines = [line.split() for line in compiled.asm["ptx"].splitlines()]
    return {word for line in lines for word in line if word.startswith(("ld.global", "st.global"))}


@pytest.mark.parametrize("tanh", [True, False])
@pytest.mark.parametrize("kernel", [_geglu_forward_kernel, _geglu_backward_kernel])
def test_accesses_are_of_16_bytes_whatever_the_number_of_columns(
    kernel: Any, tanh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    wide = {"ld.global.v4.b32", "st.global.v4.b32"}
    assert accesses(kernel, tanh, columns_multiple_of_16=True) == wide
    assert accesses(kernel, tanh, columns_multiple_of_16=False) == wide | {"ld.global.b16", "st.global.b16"}


# The reference


@pytest.mark.parametrize("approximate", APPROXIMATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reference_is_torch_gelu_times_up_where_nothing_is_rounded(dtype: torch.dtype, approximate: str) -> None:
    gate, up = torch.randn(7, 33, dtype=dtype), torch.randn(7, 33, dtype=dtype)
    expected = functional.gelu(gate, approximate=approximate) * up
    torch.testing.assert_close(geglu_reference(gate, up, approximate), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_reference_rounds_once(dtype: torch.dtype) -> None:
    gate, up = torch.randn(64, 96).to(dtype), torch.randn(64, 96).to(dtype)
    y = geglu_reference(gate, up, "none")
    assert torch.equal(y, (functional.gelu(gate.float()) * up.float()).to(dtype))
    assert not torch.equal(y, functional.gelu(gate) * up)


@pytest.mark.parametrize("approximate", APPROXIMATIONS)
def test_reference_is_differentiable(approximate: str) -> None:
    gate, up = (torch.randn(3, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda g, u: geglu_reference(g, u, approximate), (gate, up))


def test_cpu_tensors_are_computed_by_the_reference_and_announced_once() -> None:
    gate, up = torch.randn(4, 16, dtype=torch.bfloat16), torch.randn(4, 16, dtype=torch.bfloat16)
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="geglu: Triton cannot run on cpu tensors"):
        y = geglu(gate, up)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = geglu(gate, up)
    expected = geglu_reference(gate, up, "none")
    assert torch.equal(y, expected) and torch.equal(again, expected)


# Errors


@pytest.mark.parametrize(
    ("gate", "up", "error", "message"),
    [
        (torch.ones(2, 4, dtype=torch.int64), torch.ones(2, 4), TypeError, "gate must be float32.*int64"),
        (torch.ones(2, 4), torch.ones(2, 4, dtype=torch.float64), TypeError, "up must be float32.*float64"),
        (torch.ones(2, 4), torch.ones(2, 4).half(), TypeError, "the dtype of gate, torch.float32, found torch.float16"),
        (torch.ones(2, 4), torch.ones(2, 5), ValueError, r"up must have shape \(2, 4\), found \(2, 5\)"),
        (torch.ones(2, 4), torch.ones(4), ValueError, r"up must have shape \(2, 4\), found \(4,\)"),
        (torch.ones(2, 4), torch.ones(2, 4, device="meta"), ValueError, "up is on meta, gate on cpu"),
    ],
)
def test_wrong_arguments_are_named(gate: Tensor, up: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        geglu(gate, up)


def test_another_approximation_is_named() -> None:
    with pytest.raises(ValueError, match=r"approximate must be one of \('none', 'tanh'\), found 'sigmoid'"):
        geglu(torch.ones(2, 4), torch.ones(2, 4), approximate="sigmoid")


# On a GPU


class Results(NamedTuple):
    y: Tensor
    dgate: Tensor
    dup: Tensor


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


def draw_all(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """gate, up and dy."""
    return draw(shape, dtype, 1), draw(shape, dtype, 2), draw(shape, dtype, 3)


def run(gate: Tensor, up: Tensor, dy: Tensor, approximate: str = "none") -> Results:
    gate, up = gate.detach().requires_grad_(), up.detach().requires_grad_()
    y = geglu(gate, up, approximate=approximate)
    return Results(y.detach(), *torch.autograd.grad(y, (gate, up), dy))


def run_exactly(gate: Tensor, up: Tensor, dy: Tensor, approximate: str = "none") -> Results:
    gate, up = gate.detach().double().requires_grad_(), up.detach().double().requires_grad_()
    y = geglu_reference(gate, up, approximate)
    return Results(y.detach(), *torch.autograd.grad(y, (gate, up), dy.double()))


def assert_exact(found: Results, exact: Results, dtype: torch.dtype) -> None:
    """Half a unit in the last place, for everything is rounded once; fp32 itself errs by a few units, of what cancels
    in the derivative too."""
    rounding = max(torch.finfo(dtype).eps / 2, 1e-6)
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == dtype
        excess = (ours.double() - theirs).abs() - (1.1 * rounding * theirs.abs() + 1e-5)
        # Written so that a NaN is a failure.
        assert (excess <= 0).all(), f"{int((~(excess <= 0)).sum())} of {excess.numel()} off, by up to {excess.max()}"


def assert_same(found: Results, other: Results) -> None:
    assert all(torch.equal(one, another) for one, another in zip(found, other, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("approximate", APPROXIMATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(1, 4096), (127, 1021), (601, 2048), (33, 1), (257, 4099), (5, 16384), (2, 70001), (3, 4, 96), (7,), ()]
)
def test_values_and_gradients_match_float64(shape: tuple[int, ...], dtype: torch.dtype, approximate: str) -> None:
    gate, up, dy = draw_all(shape, dtype)
    assert_exact(run(gate, up, dy, approximate), run_exactly(gate, up, dy, approximate), dtype)


@pytest.mark.gpu
def test_the_two_forms_of_gelu_are_two() -> None:
    arguments = draw_all((64, 256), torch.float32)
    by_tanh, exact = run(*arguments, "tanh"), run(*arguments, "none")
    for one, other in zip(by_tanh, exact, strict=True):
        assert 1e-5 < float((one - other).abs().max()) < 1e-1
    assert torch.equal(geglu(*arguments[:2]), exact.y)


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1, 7, 64, 1021, 2048, 4104])
@pytest.mark.parametrize("dtype", DTYPES)
def test_halves_of_one_tensor(dtype: torch.dtype, columns: int) -> None:
    both, dy = draw((5, 60, 2 * columns), dtype), draw((5, 60, columns), dtype, 3)
    gate, up = both.chunk(2, dim=-1)
    found = run(gate, up, dy)
    assert_exact(found, run_exactly(gate, up, dy), dtype)
    assert_same(found, run(gate.contiguous(), up.contiguous(), dy))


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["one half", "transposed", "permuted", "expanded", "every other"])
def test_any_layout_of_gate_up_and_dy(layout: str) -> None:
    wide = draw((3, 100, 200), torch.float32)
    gate = {
        "one half": wide[..., :77],
        "transposed": wide[0].T,
        "permuted": wide.permute(1, 0, 2),
        "expanded": wide[0, :1].expand(50, 200),
        "every other": wide[..., ::2],
    }[layout]
    up, dy = draw(tuple(gate.shape), torch.float32, 2), draw(tuple(gate.shape), torch.float32, 3)
    for gradient in (dy, torch.ones((), device="cuda").expand(gate.shape), dy.mT.contiguous().mT):
        assert_exact(run(gate, up, gradient), run_exactly(gate, up, gradient), torch.float32)
        assert_exact(run(up, gate, gradient), run_exactly(up, gate, gradient), torch.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64), (3, 0)])
def test_nothing_gives_nothing(shape: tuple[int, ...]) -> None:
    found = run(*draw_all(shape, torch.bfloat16))
    assert all(tensor.shape == shape for tensor in found)


@pytest.mark.gpu
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", [0, 1, 2])
@pytest.mark.parametrize("approximate", APPROXIMATIONS)
def test_nan_and_infinity_propagate_where_they_are(approximate: str, where: int, bad: float) -> None:
    arguments = draw_all((200, 100), torch.float32)
    arguments[where][150, 7] = bad
    found, exact = run(*arguments, approximate), run_exactly(*arguments, approximate)
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_repeated_calls_agree_bitwise_and_leave_their_arguments(dtype: torch.dtype) -> None:
    arguments = draw_all((1000, 1021), dtype)
    before = [tensor.clone() for tensor in arguments]
    first = run(*arguments)
    for _ in range(5):
        assert_same(run(*arguments), first)
    assert all(torch.equal(now, then) for now, then in zip(arguments, before, strict=True))


@pytest.mark.gpu
def test_gradients_are_computed_only_where_they_are_needed() -> None:
    gate, up, dy = draw_all((64, 100), torch.float32)
    both = run(gate, up, dy)
    gate.requires_grad_()
    assert torch.equal(torch.autograd.grad(geglu(gate, up), gate, dy)[0], both.dgate)
    gate.requires_grad_(False)
    up.requires_grad_()
    assert torch.equal(torch.autograd.grad(geglu(gate, up), up, dy)[0], both.dup)
    assert not geglu(gate, up.detach()).requires_grad


@pytest.mark.gpu
def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    gate, up, dy = (tensor.requires_grad_() for tensor in draw_all((4, 32), torch.float32))
    (dgate,) = torch.autograd.grad(geglu(gate, up), gate, dy, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dgate.sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("approximate", APPROXIMATIONS)
def test_torch_compile_without_a_graph_break(approximate: str, halves: bool, dynamic: bool) -> None:
    gate, up, dy = draw_all((4, 75, 1021), torch.bfloat16)
    if halves:
        gate, up = torch.cat((gate, up), dim=-1).chunk(2, dim=-1)
    eager = run(gate, up, dy, approximate)
    torch.compiler.reset()
    compiled = torch.compile(geglu, fullgraph=True, dynamic=dynamic)
    gate, up = gate.detach().requires_grad_(), up.detach().requires_grad_()
    y = compiled(gate, up, approximate=approximate)
    for found, expected in zip((y, *torch.autograd.grad(y, (gate, up), dy)), eager, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.gpu
def test_cuda_graph_capture_and_replay_on_new_values() -> None:
    gate, up, dy = draw_all((300, 1024), torch.bfloat16)
    gate.requires_grad_()
    up.requires_grad_()

    def step() -> tuple[Tensor, ...]:
        y = geglu(gate, up)
        return (y, *torch.autograd.grad(y, (gate, up), dy))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for seed, tensor in enumerate((gate, up, dy), start=5):
            tensor.copy_(draw((300, 1024), torch.bfloat16, seed))
    for _ in range(2):
        graph.replay()
    assert all(torch.equal(found, eager) for found, eager in zip(captured, step(), strict=True))


@pytest.mark.gpu
def test_autocast_leaves_the_dtype() -> None:
    arguments = draw_all((64, 128), torch.float32)
    outside = run(*arguments)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = run(*arguments)
    assert inside.y.dtype == torch.float32
    assert_same(inside, outside)


@pytest.mark.gpu
def test_rows_beyond_two_to_the_31_elements_are_reached(far_rows: Tensor) -> None:
    near, up, dy = draw_all(tuple(far_rows.shape), torch.bfloat16)
    far_rows.copy_(near)
    assert_exact(run(far_rows, up, dy), run_exactly(far_rows, up, dy), torch.bfloat16)


@pytest.mark.gpu
def test_an_up_on_another_device_is_named() -> None:
    with pytest.raises(ValueError, match="up is on cpu, gate on cuda"):
        geglu(torch.ones(2, 4, device="cuda"), torch.ones(2, 4))
