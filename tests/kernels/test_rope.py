"""Rotary position embedding without a GPU: the interpreted kernel, what is launched, the reference, the errors.

On a GPU: the hard gate.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.kernels import arguments
from warpsmith.kernels.rope import PAIRINGS, rope, rope_reference

#: The module: of the package, `rope` is the function.
ropes = importlib.import_module("warpsmith.kernels.rope")

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

pytestmark = pytest.mark.filterwarnings("ignore:rope. Triton cannot run on cpu")


def tables(
    *shape: int, device: str = "cpu", seed: int = 9, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """cos and sin of random angles."""
    angles = 6.3 * torch.rand(shape, generator=torch.Generator(device).manual_seed(seed), device=device)
    return angles.cos().to(dtype), angles.sin().to(dtype)


# The kernel, interpreted on the CPU


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float16", 4e-3)])
def test_the_interpreted_kernel_matches_float64(
    interpreted_errors: dict[str, dict[str, float]], dtype: str, tolerance: float
) -> None:
    errors = {name: largest for name, largest in interpreted_errors.items() if f"-{dtype}-" in name}
    assert len(errors) == 56
    # Written so that a NaN is a failure.
    assert {name: e for name, e in errors.items() if not all(value <= tolerance for value in e.values())} == {}


# What is launched


class Launches:
    """Stands where the kernel does, and keeps what it is launched with."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.found: list[dict[str, Any]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **settings: Any) -> None:
            self.found.append({"grid": grid, **dict(zip(self.names, arguments, strict=False)), **settings})

        return launch


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    stand_in = Launches(ropes._rope_forward_kernel.arg_names)
    monkeypatch.setattr(ropes, "runs_triton", lambda op, tensor: True)
    monkeypatch.setattr(ropes, "_rope_forward_kernel", stand_in)
    return stand_in.found


def transposed(batch: int, heads: int, tokens: int, head: int) -> Tensor:
    return torch.randn(batch, tokens, heads, head).transpose(1, 2)


def test_query_and_key_share_one_launch_a_pass(launches: list[dict[str, Any]]) -> None:
    query, key = transposed(2, 32, 5, 128).requires_grad_(), transposed(2, 8, 5, 128).requires_grad_()
    outputs = rope(query, key, *tables(5, 64))
    assert [(each["grid"], each["INVERSE"]) for each in launches] == [((20,), False)]
    torch.autograd.grad(outputs, (query, key), [torch.ones_like(out) for out in outputs])
    assert [(each["grid"], each["INVERSE"]) for each in launches] == [((20,), False), ((20,), True)]


@pytest.mark.parametrize("missing", ["query", "key"])
def test_a_missing_gradient_is_no_zeros(launches: list[dict[str, Any]], missing: str) -> None:
    inputs = {"query": transposed(2, 4, 5, 8).requires_grad_(), "key": transposed(2, 2, 5, 8).requires_grad_()}
    outputs = dict(zip(inputs, rope(inputs["query"], inputs["key"], *tables(5, 4)), strict=True))
    present = "key" if missing == "query" else "query"
    found = torch.autograd.grad(outputs[present].sum(), tuple(inputs.values()), allow_unused=True)
    assert [gradient is None for gradient in found] == [missing == "query", missing == "key"]
    assert launches[1][f"{missing}_ptr"] is None and launches[1][f"{present}_ptr"] is not None


def test_an_output_carries_a_gradient_where_its_input_does(launches: list[dict[str, Any]]) -> None:
    query, key = transposed(2, 4, 5, 8), transposed(2, 2, 5, 8)
    for of_query, of_key in ((True, False), (False, True), (True, True), (False, False)):
        outputs = rope(query.requires_grad_(of_query), key.requires_grad_(of_key), *tables(5, 4))
        assert [out.requires_grad for out in outputs] == [of_query, of_key]


def test_nothing_is_launched_for_nothing(launches: list[dict[str, Any]]) -> None:
    rope(transposed(2, 4, 0, 8), transposed(2, 2, 0, 8), *tables(0, 4))
    rope(transposed(0, 4, 3, 8), transposed(0, 2, 3, 8), *tables(3, 4))
    assert launches == []


def test_results_are_laid_out_as_their_inputs(launches: list[dict[str, Any]]) -> None:
    dense, contiguous = transposed(2, 4, 5, 8), torch.randn(2, 4, 5, 8)
    fused = torch.randn(2, 5, 12, 8)[:, :, 2:6].transpose(1, 2)
    inner_strided = torch.randn(2, 4, 8, 5).transpose(2, 3)
    expanded = torch.randn(2, 1, 5, 8).expand(2, 4, 5, 8)
    expected = (
        (dense, dense.stride()),
        (contiguous, contiguous.stride()),
        (fused, dense.stride()),
        (inner_strided, contiguous.stride()),
    )
    for x, strides in expected:
        query = x.clone(memory_format=torch.preserve_format).requires_grad_() if x is not fused else x.requires_grad_()
        out = rope(query, x.detach(), *tables(5, 4))[0]
        assert out.stride() == strides
        (gradient,) = torch.autograd.grad(out, query, torch.randn(2, 4, 5, 8))
        assert gradient.stride() == strides
    assert rope(expanded, expanded, *tables(5, 4))[0].stride(-1) == 1


@pytest.mark.parametrize(
    ("heads", "head", "expected"),
    [
        ((32, 8), 128, (2, 16, 4, 4)),
        ((32, 32), 128, (2, 16, 16, 8)),
        ((32, 8), 64, (1, 32, 8, 4)),
        ((16, 8), 256, (2, 8, 4, 4)),
        ((128, 8), 128, (8, 16, 1, 4)),
        ((0, 8), 128, (1, 1, 8, 2)),
        ((1, 1), 4096, (1, 1, 1, 8)),
        ((7, 5), 96, (1, 8, 8, 4)),
    ],
)
def test_launch_settings(heads: tuple[int, int], head: int, expected: tuple[int, ...]) -> None:
    parts, query_block, key_block, num_warps = ropes._launch_settings(*heads, head)
    assert (parts, query_block, key_block, num_warps) == expected
    assert parts * query_block >= heads[0] and parts * key_block >= heads[1]


# The reference


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_half_reference_is_that_of_transformers(dtype: torch.dtype) -> None:
    """apply_rotary_pos_emb, models/llama/modeling_llama.py, on its tables, which hold every angle twice."""
    query, key = torch.randn(2, 4, 5, 8, dtype=dtype), torch.randn(2, 2, 5, 8, dtype=dtype)
    angles = torch.rand(2, 5, 4, dtype=dtype)
    cos, sin = (torch.cat((table, table), dim=-1) for table in (angles.cos(), angles.sin()))
    expected = [
        x * cos.unsqueeze(1) + torch.cat((-x[..., 4:], x[..., :4]), dim=-1) * sin.unsqueeze(1) for x in (query, key)
    ]
    found = rope_reference(query, key, cos[..., :4], sin[..., :4], "half")
    torch.testing.assert_close(found, tuple(expected))


def test_the_interleaved_reference_multiplies_complex_numbers() -> None:
    query, key, angles = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8), torch.rand(5, 4)
    turns = torch.polar(torch.ones(5, 4), angles)
    expected = (torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * turns) for x in (query, key))
    found = rope_reference(query, key, angles.cos(), angles.sin(), "interleaved")
    torch.testing.assert_close(found, tuple(each.flatten(-2) for each in expected))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_scores_depend_on_the_distance_alone(pairing: str) -> None:
    """What the embedding is for: equation 16 of the paper."""
    tokens, head = 12, 16
    angles = torch.arange(tokens).double()[:, None] * 10000 ** (-torch.arange(0, head, 2).double() / head)
    query, key = (torch.randn(1, 1, 1, head).double().expand(1, 1, tokens, head) for _ in range(2))
    query, key = rope_reference(query, key, angles.cos(), angles.sin(), pairing)
    scores = (query @ key.transpose(2, 3))[0, 0]
    for distance in range(tokens):
        along = scores.diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_what_is_not_rotated_passes_through(pairing: str) -> None:
    query, key = torch.randn(2, 4, 5, 11).bfloat16(), torch.randn(2, 2, 5, 11).bfloat16()
    query_out, key_out = rope_reference(query, key, *tables(5, 3), pairing)
    assert torch.equal(query_out[..., 6:], query[..., 6:]) and torch.equal(key_out[..., 6:], key[..., 6:])
    assert not torch.equal(query_out[..., :6], query[..., :6])


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_the_reference_is_differentiable(pairing: str) -> None:
    query = torch.randn(2, 2, 3, 5, dtype=torch.float64, requires_grad=True)
    key = torch.randn(2, 1, 3, 5, dtype=torch.float64, requires_grad=True)
    cos, sin = tables(3, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda q, k: rope_reference(q, k, cos, sin, pairing), (query, key))


def test_cpu_tensors_are_computed_by_the_reference_and_announced_once() -> None:
    query, key = torch.randn(2, 4, 5, 8).bfloat16(), torch.randn(2, 2, 5, 8).bfloat16()
    cos, sin = tables(1, 5, 4)
    arguments._announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="rope: Triton cannot run on cpu tensors"):
        found = rope(query, key, cos, sin, pairing="interleaved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = rope(query, key, cos, sin, pairing="interleaved")
    expected = rope_reference(query, key, cos, sin, "interleaved")
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(found, again, expected, strict=True))


# Errors


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"pairing": "neox"}, ValueError, "pairing must be one of .*'neox'"),
        ({"query": torch.ones(2, 4, 5, 8).long()}, TypeError, "query must be float32.*int64"),
        ({"key": torch.ones(2, 2, 5, 8).double()}, TypeError, "key must be float32.*float64"),
        ({"key": torch.ones(2, 2, 5, 8).half()}, TypeError, "key must be torch.float32 as query is.*float16"),
        ({"cos": torch.ones(5, 4).half()}, TypeError, "cos must be float32 or as query is, torch.float32.*float16"),
        (
            {"sin": torch.ones(5, 4).bfloat16()},
            TypeError,
            "sin must be float32 or as query is.*bfloat16",
        ),
        ({"query": torch.ones(4, 5, 8)}, ValueError, r"query must be \(batch, heads, tokens, head\).*\(4, 5, 8\)"),
        ({"key": torch.ones(5, 8)}, ValueError, r"key must be \(batch, heads, tokens, head\).*\(5, 8\)"),
        ({"key": torch.ones(2, 2, 6, 8)}, ValueError, r"key must have shape \(2, 2, 5, 8\), found \(2, 2, 6, 8\)"),
        ({"cos": torch.ones(6, 4)}, ValueError, r"cos must have shape \(5, pairs\) or \(2, 5, pairs\), found \(6, 4\)"),
        ({"cos": torch.ones(3, 5, 4)}, ValueError, r"\(2, 5, pairs\), found \(3, 5, 4\)"),
        ({"cos": torch.ones(4)}, ValueError, r"\(2, 5, pairs\), found \(4,\)"),
        ({"cos": torch.ones(5, 8)}, ValueError, "1 to head / 2 columns.*found 8 of a head of 8.*twice, take one half"),
        ({"cos": torch.ones(5, 0)}, ValueError, "1 to head / 2 columns.*found 0"),
        ({"sin": torch.ones(5, 3)}, ValueError, r"sin must have shape \(5, 4\), found \(5, 3\)"),
        ({"cos": torch.ones(5, 4, requires_grad=True)}, ValueError, r"cos has no gradient.*pass cos.detach\(\)"),
        ({"sin": torch.ones(5, 4, requires_grad=True)}, ValueError, r"sin has no gradient.*pass sin.detach\(\)"),
        ({"sin": torch.ones(5, 4, device="meta")}, ValueError, "sin is on meta, query on cpu"),
    ],
)
def test_wrong_arguments_are_named(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {
        "query": torch.ones(2, 4, 5, 8),
        "key": torch.ones(2, 2, 5, 8),
        "cos": torch.ones(5, 4),
        "sin": torch.ones(5, 4),
    }
    with pytest.raises(error, match=message):
        rope(**{**given, **changes})


def test_learned_tables_are_welcome_where_no_gradient_is_asked() -> None:
    cos, sin = (table.requires_grad_() for table in tables(5, 4))
    with torch.no_grad():
        rope(torch.ones(2, 4, 5, 8), torch.ones(2, 2, 5, 8), cos, sin)


def test_heads_that_no_program_can_hold_are_refused(launches: list[dict[str, Any]]) -> None:
    x = torch.ones(1, 1, 1, 4098)
    with pytest.raises(ValueError, match="a head has 4098 values; at most 4096"):
        rope(x, x, *tables(1, 2049))
    assert launches == []


# On a GPU


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int, layout: str = "bthd") -> Tensor:
    """(batch, heads, tokens, head), laid out as said."""
    batch, heads, tokens, head = shape
    generator = torch.Generator("cuda").manual_seed(seed)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(sizes, device="cuda", generator=generator).to(dtype)

    if layout == "bthd":
        return normal(batch, tokens, heads, head).transpose(1, 2)
    if layout == "tbhd":
        return normal(tokens, batch, heads, head).permute(1, 2, 0, 3)
    if layout == "fused":
        return normal(batch, tokens, heads + 3, head)[:, :, 2 : heads + 2].transpose(1, 2)
    if layout == "shifted":
        return normal(batch * heads * tokens * head + 1)[1:].view(shape)
    if layout == "inner_strided":
        return normal(batch, heads, head, tokens).transpose(2, 3)
    if layout == "expanded":
        return normal(batch, 1, 1, head).expand(shape)
    return normal(*shape)


def run(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, gradients: tuple[Tensor, Tensor], pairing: str = "half"
) -> tuple[Tensor, ...]:
    """Both outputs, then both gradients."""
    query, key = query.detach().requires_grad_(), key.detach().requires_grad_()
    outputs = rope(query, key, cos, sin, pairing=pairing)
    found = torch.autograd.grad(outputs, (query, key), gradients)
    return (*(out.detach() for out in outputs), *found)


def run_exactly(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, gradients: tuple[Tensor, Tensor], pairing: str = "half"
) -> tuple[Tensor, ...]:
    query, key = query.detach().double().requires_grad_(), key.detach().double().requires_grad_()
    outputs = rope_reference(query, key, cos.double(), sin.double(), pairing)
    found = torch.autograd.grad(outputs, (query, key), [gradient.double() for gradient in gradients])
    return (*(out.detach() for out in outputs), *found)


def assert_exact(found: tuple[Tensor, ...], exact: tuple[Tensor, ...]) -> None:
    """One rounding to the dtype, and three of fp32, each of at most the larger of both values of the pair."""
    for ours, theirs in zip(found, exact, strict=True):
        largest = float(theirs.abs().max()) if theirs.numel() else 0.0
        rtol, atol = 0.51 * torch.finfo(ours.dtype).eps, 3 * torch.finfo(torch.float32).eps * (largest + 1e-3)
        torch.testing.assert_close(ours.double(), theirs, rtol=rtol, atol=atol)


def case(
    batch: int, query_heads: int, key_heads: int, tokens: int, head: int, dtype: torch.dtype, layout: str = "bthd"
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """query, key and the gradients of both outputs, which are contiguous."""
    shapes = ((batch, query_heads, tokens, head), (batch, key_heads, tokens, head))
    query, key = (draw(shape, dtype, seed, layout) for seed, shape in enumerate(shapes))
    return query, key, (draw(shapes[0], dtype, 2, "bhtd"), draw(shapes[1], dtype, 3, "bhtd"))


@pytest.mark.gpu
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("sizes", "rotated"),
    [
        ((2, 32, 8, 67, 128), 128),
        ((1, 32, 32, 127, 64), 64),
        ((2, 16, 8, 33, 256), 256),
        ((3, 7, 5, 101, 96), 96),
        ((2, 128, 8, 13, 128), 128),
        ((2, 32, 32, 31, 80), 32),
        ((1, 4, 1, 17, 256), 64),
        ((2, 3, 1, 11, 23), 10),
        ((1, 1, 1, 1, 2), 2),
        ((64, 32, 8, 1, 128), 128),
        ((1, 2, 3, 5, 4096), 4096),
    ],
)
def test_values_and_gradients_match_float64(
    sizes: tuple[int, int, int, int, int], rotated: int, dtype: torch.dtype, pairing: str
) -> None:
    query, key, gradients = case(*sizes, dtype=dtype)
    cos, sin = tables(sizes[3], rotated // 2, device="cuda", dtype=dtype)
    found = run(query, key, cos, sin, gradients, pairing)
    assert all(each.dtype == dtype for each in found)
    assert_exact(found, run_exactly(query, key, cos, sin, gradients, pairing))


@pytest.mark.gpu
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("layout", ["bhtd", "tbhd", "fused", "shifted", "inner_strided", "expanded"])
def test_any_layout_of_query_key_and_their_gradients(layout: str, pairing: str) -> None:
    query, key, contiguous = case(2, 6, 3, 37, 64, torch.bfloat16, layout)
    cos, sin = tables(37, 16, device="cuda")
    same = tuple(draw(tuple(x.shape), torch.bfloat16, 4 + i, layout) for i, x in enumerate((query, key)))
    ones = tuple(torch.ones((), device="cuda", dtype=torch.bfloat16).expand(x.shape) for x in (query, key))
    for gradients in (contiguous, same, ones):
        found = run(query, key, cos, sin, gradients, pairing)  # type: ignore[arg-type]
        assert_exact(found, run_exactly(query, key, cos, sin, gradients, pairing))  # type: ignore[arg-type]
        assert all(each.stride(-1) == 1 for each in found)


@pytest.mark.gpu
@pytest.mark.parametrize("table_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["plain", "one", "batched", "doubled", "inner_strided", "expanded"])
def test_any_tables(kind: str, table_dtype: torch.dtype) -> None:
    query, key, gradients = case(3, 4, 2, 29, 32, torch.bfloat16)
    shape = {"plain": (29, 16), "one": (1, 29, 16), "doubled": (3, 29, 32), "inner_strided": (3, 16, 29)}
    cos, sin = tables(*shape.get(kind, (3, 29, 16)), device="cuda", dtype=table_dtype)
    if kind == "doubled":
        cos, sin = cos[..., :16], sin[..., :16]
    elif kind == "inner_strided":
        cos, sin = cos.transpose(1, 2), sin.transpose(1, 2)
    elif kind == "expanded":
        cos, sin = cos[:1].expand(3, 29, 16), sin[:1, :1].expand(3, 29, 16)
    assert_exact(run(query, key, cos, sin, gradients), run_exactly(query, key, cos, sin, gradients))


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(0, 4, 2, 5, 8), (2, 4, 2, 0, 8), (2, 0, 2, 5, 8), (2, 4, 0, 5, 8)])
def test_empty_inputs(sizes: tuple[int, int, int, int, int]) -> None:
    query, key, gradients = case(*sizes, dtype=torch.bfloat16)
    cos, sin = tables(sizes[3], 4, device="cuda")
    assert_exact(run(query, key, cos, sin, gradients), run_exactly(query, key, cos, sin, gradients))


@pytest.mark.gpu
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_stay_within_their_pair(bad: float, pairing: str) -> None:
    query, key, gradients = case(2, 4, 2, 9, 16, torch.float32)
    cos, sin = tables(9, 6, device="cuda")
    query[1, 2, 3, 4] = bad
    query[0, 1, 2, 14] = bad
    found, exact = (go(query, key, cos, sin, gradients, pairing) for go in (run, run_exactly))
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-5, equal_nan=True)
    assert int((~found[0].isfinite()).sum()) == 3


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_repeated_calls_agree_bitwise_and_inputs_are_not_overwritten(dtype: torch.dtype) -> None:
    query, key, gradients = case(2, 32, 8, 301, 128, dtype)
    cos, sin = tables(301, 64, device="cuda")
    given = (query, key, cos, sin, *gradients)
    before = [tensor.clone() for tensor in given]
    first = run(query, key, cos, sin, gradients)
    for _ in range(5):
        again = run(query, key, cos, sin, gradients)
        assert all(torch.equal(now, then) for now, then in zip(again, first, strict=True))
    assert all(torch.equal(now, then) for now, then in zip(given, before, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_the_gradient_of_a_rotation_undoes_it(pairing: str) -> None:
    query, key, _ = case(2, 4, 2, 37, 64, torch.float32)
    query, key = query.requires_grad_(), key.requires_grad_()
    outputs = rope(query, key, *tables(37, 32, device="cuda"), pairing=pairing)
    torch.testing.assert_close(torch.autograd.grad(outputs, (query, key), outputs), (query, key))


@pytest.mark.gpu
@pytest.mark.parametrize("only", [0, 1])
def test_one_gradient_alone_is_the_same_as_beside_the_other(only: int) -> None:
    query, key, gradients = case(2, 6, 3, 37, 64, torch.bfloat16)
    cos, sin = tables(37, 32, device="cuda")
    both = run(query, key, cos, sin, gradients)
    inputs = [query.detach(), key.detach()]
    inputs[only].requires_grad_()
    outputs = rope(inputs[0], inputs[1], cos, sin)
    assert [out.requires_grad for out in outputs] == [only == 0, only == 1]
    (found,) = torch.autograd.grad(outputs[only], inputs[only], gradients[only])
    assert torch.equal(found, both[2 + only])
    inputs[1 - only].requires_grad_()
    outputs = rope(inputs[0], inputs[1], cos, sin)
    unused = torch.autograd.grad(outputs[only], inputs, gradients[only], allow_unused=True)
    assert unused[1 - only] is None and unused[only] is not None and torch.equal(unused[only], both[2 + only])


@pytest.mark.gpu
def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    query, key, gradients = case(1, 2, 1, 5, 16, torch.float32)
    query = query.requires_grad_()
    query_out, _ = rope(query, key, *tables(5, 8, device="cuda"))
    (dquery,) = torch.autograd.grad(query_out, query, gradients[0].requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dquery.sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("layout", ["bthd", "bhtd", "fused"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_torch_compile_without_a_graph_break(layout: str, pairing: str, dynamic: bool | None) -> None:
    torch.compiler.reset()
    compiled = torch.compile(rope, fullgraph=True, dynamic=dynamic)
    for tokens in (75, 41):
        query, key, gradients = case(2, 6, 3, tokens, 64, torch.bfloat16, layout)
        cos, sin = tables(tokens, 16, device="cuda")
        eager = run(query, key, cos, sin, gradients, pairing)
        query, key = query.detach().requires_grad_(), key.detach().requires_grad_()
        outputs = compiled(query, key, cos, sin, pairing=pairing)
        found = torch.autograd.grad(outputs, (query, key), gradients)
        torch.testing.assert_close((*(out.detach() for out in outputs), *found), eager)


@pytest.mark.gpu
def test_cuda_graph_capture_and_replay_on_new_values() -> None:
    query, key, gradients = case(2, 8, 4, 65, 128, torch.bfloat16)
    query, key = query.requires_grad_(), key.requires_grad_()
    cos, sin = tables(65, 64, device="cuda")

    def step() -> tuple[Tensor, ...]:
        outputs = rope(query, key, cos, sin)
        return (*outputs, *torch.autograd.grad(outputs, (query, key), gradients))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for seed, tensor in enumerate((query, key, *gradients)):
            tensor.copy_(draw(tuple(tensor.shape), torch.bfloat16, 20 + seed))
        for table, other in zip((cos, sin), tables(65, 64, device="cuda", seed=30), strict=True):
            table.copy_(other)
    for _ in range(2):
        graph.replay()
    assert all(torch.equal(found, eager) for found, eager in zip(captured, step(), strict=True))


@pytest.mark.gpu
def test_autocast_leaves_the_dtype_of_the_inputs() -> None:
    query, key, gradients = case(2, 4, 2, 9, 64, torch.float32)
    cos, sin = tables(9, 32, device="cuda")
    outside = run(query, key, cos, sin, gradients)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = run(query, key, cos, sin, gradients)
    assert all(a.dtype == torch.float32 and torch.equal(a, b) for a, b in zip(inside, outside, strict=True))


@pytest.mark.gpu
def test_heads_beyond_two_to_the_31_elements_are_reached() -> None:
    head_stride, head = 2**30 + 8, 64
    if torch.cuda.mem_get_info()[0] < 8 * 2**30:
        pytest.skip("needs 8 GiB of free device memory")
    memory = torch.empty(2 * head_stride + 4 * head, dtype=torch.bfloat16, device="cuda")
    query = memory.as_strided((1, 3, 4, head), (3 * head_stride, head_stride, head, 1))
    query.copy_(draw((1, 3, 4, head), torch.bfloat16, 0))
    _, key, gradients = case(1, 3, 2, 4, head, torch.bfloat16)
    cos, sin = tables(4, 32, device="cuda")
    assert_exact(run(query, key, cos, sin, gradients), run_exactly(query, key, cos, sin, gradients))


@pytest.mark.gpu
def test_wide_heads_and_tables_on_another_device_are_refused() -> None:
    x = torch.ones(1, 1, 1, 4098, device="cuda")
    with pytest.raises(ValueError, match="a head has 4098 values; at most 4096"):
        rope(x, x, *tables(1, 2049, device="cuda"))
    with pytest.raises(ValueError, match="cos is on cpu, query on cuda"):
        rope(x, x, *tables(1, 8))
