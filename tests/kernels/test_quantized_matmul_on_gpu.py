"""Quantized matmul and quantize_rows on a GPU: the hard gate."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from warpsmith.kernels.quantize_rows import quantize_rows, quantize_rows_reference
from warpsmith.kernels.quantized_matmul import (
    MAX_INT8_K,
    quantized_matmul,
    quantized_matmul_reference,
)

INT8, FLOAT8 = torch.int8, torch.float8_e4m3fn
DTYPES = (torch.float32, torch.float16, torch.bfloat16)

module = sys.modules["warpsmith.kernels.quantized_matmul"]

pytestmark = pytest.mark.gpu


def has_float8() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9)


def has_tma() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)


needs_float8 = pytest.mark.skipif(not has_float8(), reason="float8 needs compute capability 8.9")
QUANTIZED = (INT8, pytest.param(FLOAT8, marks=needs_float8))


class Arguments(NamedTuple):
    a: Tensor
    b: Tensor
    a_scale: Tensor
    b_scale: Tensor
    bias: Tensor


def draw(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


def draw_all(n_rows: int, n_cols: int, depth: int, quantized: torch.dtype) -> Arguments:
    a, a_scale = quantize_rows_reference(draw((n_rows, depth), seed=1), quantized)
    b, b_scale = quantize_rows_reference(draw((n_cols, depth), seed=2), quantized)
    return Arguments(a, b, a_scale, b_scale, draw((n_cols,), seed=3))


def assert_exact(y: Tensor, given: Arguments, *, lost: float = 0.0) -> None:
    """y is rounded once; in fp32 a sum, two products and a sum before it are. `lost`: of the sum of magnitudes, by
    float8 tensor cores, of whose addends each is cut to 2⁻¹³ of the largest."""
    exact = quantized_matmul_reference(*given, out_dtype=torch.float64)
    assert y.shape == exact.shape and y.is_contiguous()
    magnitudes = (given.a.double().abs(), given.b.double().abs(), given.a_scale.abs(), given.b_scale.abs())
    sums = quantized_matmul_reference(*magnitudes, out_dtype=torch.float64)
    before = 4 * 2.0**-24 * (exact.abs() + 2 * given.bias.double().abs())
    allowed = torch.finfo(y.dtype).eps / 2 * 1.01 * exact.abs() + before + lost * sums + 2.0**-24
    excess = (y.double() - exact).abs() - allowed
    # Written so that a NaN is a failure.
    assert (excess <= 0).all(), f"{int((~(excess <= 0)).sum())} of {excess.numel()} off, by up to {excess.max()}"


def lost_by(quantized: torch.dtype) -> float:
    return 0.0 if quantized == INT8 else 2.0**-10


@pytest.mark.parametrize("out_dtype", DTYPES)
@pytest.mark.parametrize("quantized", QUANTIZED)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 4096, 4096),
        (16, 1000, 512),
        (17, 4096, 4096),
        (130, 257, 384),
        (1021, 1031, 1009),
        (2048, 3072, 1024),
        (2047, 3073, 1040),
        (2047, 3073, 1009),
        (9000, 140, 528),
        (3000, 200, 48),
        (33, 1, 1),
        (1, 1, 7),
        (5, 7, 0),
    ],
)
def test_values_match_float64(shape: tuple[int, int, int], quantized: torch.dtype, out_dtype: torch.dtype) -> None:
    given = draw_all(*shape, quantized)
    given = given._replace(bias=given.bias.to(out_dtype))
    assert_exact(quantized_matmul(*given, out_dtype=out_dtype), given, lost=lost_by(quantized))


@pytest.mark.skipif(not has_tma(), reason="TMA needs compute capability 9.0")
@pytest.mark.parametrize("quantized", QUANTIZED)
def test_large_products_are_read_through_tma(quantized: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[str] = []
    for name in ("_launch", "_launch_tma"):
        monkeypatch.setattr(module, name, lambda *given, name=name: launched.append(name))
    for shape in ((2048, 3072, 1024), (2047, 3073, 1009), (2048, 512, 1024), (16, 65536, 64)):
        quantized_matmul(*draw_all(*shape, quantized))
    assert launched == ["_launch_tma", "_launch_tma", "_launch", "_launch"]


def test_int8_sums_are_exact_at_the_edge_of_int32() -> None:
    a = torch.full((300, MAX_INT8_K), -128, dtype=INT8, device="cuda")
    assert (quantized_matmul(a, a, 1.0, 1.0, out_dtype=torch.float32) == float(MAX_INT8_K * 128**2)).all()
    given = draw_all(700, 800, 1000, INT8)
    # Sums of at most 1000 · 127², which fp32 holds.
    exact = given.a.double() @ given.b.double().T
    assert torch.equal(quantized_matmul(given.a, given.b, 1.0, 1.0, out_dtype=torch.float32).double(), exact)


# The second has tiles of 128 x 256 for every SM of an H200.
@needs_float8
@pytest.mark.parametrize("shape", [(1024, 1024, 8192), (2048, 4352, 4096)])
def test_fast_sums_are_no_better_than_promoted_ones(shape: tuple[int, int, int]) -> None:
    given = draw_all(*shape, FLOAT8)
    exact = quantized_matmul_reference(*given, out_dtype=torch.float64)
    promoted, fast = (
        quantized_matmul(*given, out_dtype=torch.float32, use_fast_accum=fast).double() for fast in (False, True)
    )
    assert_exact(fast.float(), given, lost=2.0**-7)
    assert (promoted - exact).square().mean() <= (fast - exact).square().mean()


@pytest.mark.parametrize("quantized", QUANTIZED)
@pytest.mark.parametrize("size", [(200, 300), (1500, 1600)])
@pytest.mark.parametrize("layout", ["wide", "shifted", "transposed", "every other", "expanded"])
def test_any_layout(layout: str, size: tuple[int, int], quantized: torch.dtype) -> None:
    given = draw_all(*size, 160, quantized)

    def laid_out(matrix: Tensor) -> Tensor:
        values = matrix.view(INT8)  # torch has few operators for float8
        moved = {
            "wide": lambda: torch.cat((values, values), dim=1)[:, :160],
            "shifted": lambda: torch.cat((values, values), dim=1).flatten()[1:-319].view(-1, 320)[:, :160],
            "transposed": lambda: values.T.contiguous().T,
            "every other": lambda: values.repeat_interleave(2, dim=1)[:, ::2],
            "expanded": lambda: values[:1].expand(values.shape),
        }[layout]()
        return moved.view(quantized)

    moved = given._replace(
        a=laid_out(given.a),
        b=laid_out(given.b),
        a_scale=given.a_scale.repeat_interleave(2)[::2],
        bias=given.bias.new_ones(()).expand(given.bias.shape),
    )
    # "shifted" is short by a row at the end.
    moved = moved._replace(a_scale=moved.a_scale[: moved.a.shape[0]], b_scale=moved.b_scale[: moved.b.shape[0]])
    moved = moved._replace(bias=moved.bias[: moved.b.shape[0]])
    assert_exact(quantized_matmul(*moved, out_dtype=torch.float32), moved, lost=lost_by(quantized))


@pytest.mark.parametrize("size", [(100, 120, 64), (1500, 1600, 64)])
def test_one_scale_as_a_number_or_a_tensor(size: tuple[int, int, int]) -> None:
    given = draw_all(*size, INT8)
    expected = quantized_matmul(given.a, given.b, torch.full_like(given.a_scale, 0.5), given.b_scale)
    for one in (0.5, torch.tensor(0.5, device="cuda"), torch.tensor([0.5], device="cuda")):
        assert torch.equal(quantized_matmul(given.a, given.b, one, given.b_scale), expected)


@pytest.mark.parametrize("shape", [(0, 64, 32), (64, 0, 32), (0, 0, 0)])
def test_nothing_gives_nothing(shape: tuple[int, int, int]) -> None:
    given = draw_all(*shape, INT8)
    assert quantized_matmul(*given).shape == shape[:2]


@pytest.mark.parametrize("size", [(150, 140, 64), (1500, 1600, 64)])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_stay_in_their_row_or_column(bad: float, size: tuple[int, int, int]) -> None:
    given = draw_all(*size, INT8)
    usual = quantized_matmul(*given)
    for name, spoilt in (("a_scale", (7, slice(None))), ("b_scale", (slice(None), 7)), ("bias", (slice(None), 7))):
        changed = getattr(given, name).clone()
        changed[7] = bad
        y = quantized_matmul(*given._replace(**{name: changed}))
        assert not y[spoilt].isfinite().any()
        y[spoilt] = usual[spoilt]
        assert torch.equal(y, usual)


@pytest.mark.parametrize("quantized", QUANTIZED)
@pytest.mark.parametrize("shape", [(16, 4096, 4096), (1000, 1021, 1040), (2048, 3000, 1040), (700, 800, 301)])
def test_repeated_calls_agree_bitwise_and_leave_their_arguments(
    shape: tuple[int, int, int], quantized: torch.dtype
) -> None:
    given = draw_all(*shape, quantized)
    before = [tensor.clone() for tensor in given]
    first = quantized_matmul(*given)
    for _ in range(5):
        assert torch.equal(quantized_matmul(*given), first)
    for now, then in zip(given, before, strict=True):
        assert torch.equal(now.view(torch.uint8), then.view(torch.uint8))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("quantized", QUANTIZED)
def test_torch_compile_without_a_graph_break(quantized: torch.dtype, dynamic: bool | None) -> None:
    def quantized_linear(x: Tensor, b: Tensor, b_scale: Tensor, bias: Tensor) -> Tensor:
        a, a_scale = quantize_rows(x, quantized)
        return quantized_matmul(a, b, a_scale, b_scale, bias)

    torch.compiler.reset()
    compiled = torch.compile(quantized_linear, fullgraph=True, dynamic=dynamic)
    for n_rows, depth in ((300, 512), (7, 512), (1, 512), (300, 1021)):
        given = draw_all(n_rows, 400, depth, quantized)
        x = draw((n_rows, depth), torch.bfloat16)
        assert torch.equal(compiled(x, *given[1::2], given.bias), quantized_linear(x, *given[1::2], given.bias))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("quantized", QUANTIZED)
def test_torch_compile_of_what_tma_reads_without_it(quantized: torch.dtype, dynamic: bool | None) -> None:
    torch.compiler.reset()
    compiled = torch.compile(quantized_matmul, fullgraph=True, dynamic=dynamic)
    for n_rows, depth in ((1500, 512), (2047, 1040), (1500, 1021)):
        given = draw_all(n_rows, 1601, depth, quantized)
        y = compiled(*given)
        assert_exact(y, given, lost=lost_by(quantized))
        assert quantized != INT8 or torch.equal(y, quantized_matmul(*given))


def test_torch_compile_with_scales_that_are_numbers() -> None:
    given = draw_all(300, 400, 512, INT8)
    torch.compiler.reset()
    compiled = torch.compile(lambda a, b, s: quantized_matmul(a, b, s, 0.5), fullgraph=True)
    for scale in (0.25, 0.125):
        assert torch.equal(compiled(given.a, given.b, scale), quantized_matmul(given.a, given.b, scale, 0.5))


@pytest.mark.parametrize("size", [(300, 256, 512), (1500, 1600, 512), (1500, 1600, 301)])
@pytest.mark.parametrize("quantized", QUANTIZED)
def test_cuda_graph_capture_and_replay_on_new_values(quantized: torch.dtype, size: tuple[int, int, int]) -> None:
    n_rows, _, depth = size
    given, x = draw_all(*size, quantized), draw((n_rows, depth), torch.bfloat16, 5)

    def step() -> Tensor:
        a, a_scale = quantize_rows(x, quantized)
        return quantized_matmul(a, given.b, a_scale, 0.01, given.bias)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    x.copy_(draw((n_rows, depth), torch.bfloat16, 6))
    for _ in range(2):
        graph.replay()
    assert torch.equal(captured, step())


def test_autocast_leaves_the_dtype() -> None:
    given = draw_all(64, 128, 96, INT8)
    outside = quantized_matmul(*given, out_dtype=torch.float32)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = quantized_matmul(*given, out_dtype=torch.float32)
    assert inside.dtype == torch.float32 and torch.equal(inside, outside)


def test_rows_beyond_two_to_the_31_bytes_are_reached() -> None:
    row_stride, depth = 2**31 + 16, 64
    if torch.cuda.mem_get_info()[0] < 8 * 2**30:
        pytest.skip("needs 8 GiB of free device memory")
    given = draw_all(3, 5, depth, INT8)
    a = torch.empty(2 * row_stride + depth, dtype=INT8, device="cuda").as_strided((3, depth), (row_stride, 1))
    a.copy_(given.a)
    assert_exact(quantized_matmul(a, *given[1:], out_dtype=torch.float32), given)


def test_a_scale_on_another_device_is_named() -> None:
    given = draw_all(4, 4, 16, INT8)
    with pytest.raises(ValueError, match="a_scale is on cpu, a on cuda"):
        quantized_matmul(*given._replace(a_scale=given.a_scale.cpu()))


# quantize_rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("quantized", QUANTIZED)
@pytest.mark.parametrize("shape", [(1000, 4096), (127, 1021), (3, 70001), (2, 3, 37), (33, 1), (7,), (8192, 16)])
def test_quantizing_is_torchs_to_the_bit(shape: tuple[int, ...], quantized: torch.dtype, dtype: torch.dtype) -> None:
    assert_quantized(draw(shape, dtype), quantized)


@pytest.mark.parametrize("quantized", QUANTIZED)
def test_quantizing_special_rows_and_any_layout(quantized: torch.dtype) -> None:
    x = draw((8, 500))
    x[0], x[1, 3], x[2, 499], x[3, 250] = 0.0, torch.nan, torch.inf, -torch.inf
    x[4], x[5], x[6] = 1e-45, x[5] * 1e-43, x[6] * 1e37
    x[7] = torch.arange(500, device="cuda").remainder(120) + 0.5
    x[7, 0] = 127.0
    for laid_out in (x, x.T.contiguous().T, x.repeat_interleave(2, dim=1)[:, ::2], torch.cat((x, x), dim=1)[:, :500]):
        assert_quantized(laid_out, quantized)


def assert_quantized(x: Tensor, quantized: torch.dtype) -> None:
    """Divided and rounded in fp32 as torch does, on the CPU, where a quotient is the correctly rounded one."""
    before = x.clone()
    q, scale = quantize_rows(x, quantized)
    expected: Any = quantize_rows_reference(x.cpu(), quantized)
    assert q.shape == x.shape and q.is_contiguous() and scale.dtype == torch.float32
    assert torch.equal(scale.cpu().nan_to_num(-1.0), expected[1].nan_to_num(-1.0))
    # -0.0 of float8 is 0.0.
    assert torch.equal(q.cpu().float(), expected[0].float())
    assert torch.equal(x.nan_to_num(-1.0), before.nan_to_num(-1.0))
