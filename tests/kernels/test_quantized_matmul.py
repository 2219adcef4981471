"""Quantized matmul and quantize_rows without a GPU: kernels interpreted and compiled, references, errors."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.kernels import arguments as arguments_of_kernels
from warpsmith.kernels import quantized_matmul as exported
from warpsmith.kernels.arguments import _announce_reference, expect_float8_hardware
from warpsmith.kernels.quantize_rows import quantize_rows, quantize_rows_reference
from warpsmith.kernels.quantized_matmul import (
    MAX_INT8_K,
    _quantized_matmul_kernel,
    _quantized_matmul_tma_kernel,
    _readable,
    _tile_settings,
    _tma_tile_settings,
    quantized_matmul,
    quantized_matmul_reference,
)
from warpsmith.kernels.tma import tma_reads

INT8, FLOAT8 = torch.int8, torch.float8_e4m3fn
QUANTIZED = (INT8, FLOAT8)
#: What a program may have on an H200.
SHARED_BYTES = 232448
DTYPES = (torch.float32, torch.float16, torch.bfloat16)

pytestmark = pytest.mark.filterwarnings("ignore:quantize.*Triton cannot run on")


# The kernels, interpreted on the CPU


# fp16: what is expected is rounded too, and a rounding may tip.
@pytest.mark.usefixtures("interpreter_loops")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 6e-4)])
def test_interpreted_products_match_float64(interpreted_errors: dict[str, float], dtype: str, tolerance: float) -> None:
    errors = {name: e for name, e in interpreted_errors.items() if f"-{dtype}-" in name and "quantize" not in name}
    assert len(errors) == 64
    # Written so that a NaN is a failure.
    assert {name: error for name, error in errors.items() if not error <= tolerance} == {}


@pytest.mark.usefixtures("interpreter_loops")
def test_interpreted_int8_sums_are_exact_up_to_the_last(interpreted_errors: dict[str, float]) -> None:
    assert interpreted_errors["extreme products"] == 0.0


# To int8 alone: the interpreter rounds 127 of fp32 to 64 of float8_e4m3fn, as it loses what a rounding carries over.
@pytest.mark.usefixtures("interpreter_loops")
def test_interpreted_quantizing_is_torchs_to_the_bit(interpreted_errors: dict[str, float]) -> None:
    errors = {name: error for name, error in interpreted_errors.items() if name.startswith("quantize-")}
    assert len(errors) == 32
    assert {name: error for name, error in errors.items() if error} == {}


# The kernels, compiled for an H200


@pytest.fixture(autouse=True)
def h200(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(arguments_of_kernels, "_INTERPRETED_SMS", 132)
    monkeypatch.setattr(arguments_of_kernels, "_INTERPRETED_SHARED_BYTES", SHARED_BYTES)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def matrix(n_rows: int, depth: int, quantized: torch.dtype) -> Tensor:
    return torch.empty((n_rows, depth), dtype=INT8).view(quantized)


def compiled(
    kernel: Any,
    settings: tuple[int, ...],
    quantized: torch.dtype,
    *,
    out: str = "bf16",
    divisible: bool = True,
    **constants: bool,
) -> Any:
    """With scales by row and column and a bias; divisible: m, n and k by 16."""
    block_m, block_n, block_k, num_stages, num_warps = settings
    element = "i8" if quantized == INT8 else "fp8e4nv"
    types = {"a_ptr": f"*{element}", "b_ptr": f"*{element}", "y_ptr": f"*{out}", "bias_ptr": "*bf16"}
    types["a_rows"], types["b_rows"] = (f"tensordesc<{element}[{block}, {block_k}]>" for block in (block_m, block_n))
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[object]]] = {}
    for index, name in enumerate(kernel.arg_names):
        usual = "constexpr" if name.isupper() else "*fp32" if name.endswith("_ptr") else "i32"
        signature[name] = types.get(name, usual)
        if name.endswith(("_ptr", "_row_stride")) or (divisible and signature[name] == "i32"):
            attributes[(index,)] = [["tt.divisibility", 16]]
    constants = {"SCALE_A_ROW": True, "SCALE_B_ROW": True, "FAST_ACCUM": False, "K_IS_EVEN": True, **constants}
    blocks = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_ROWS": 8, "INT8": quantized == INT8}
    constexprs = {name: value for name, value in {**constants, **blocks}.items() if name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constexprs, attrs=attributes)
    options = {"num_stages": num_stages, "num_warps": num_warps}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


WGMMA = {INT8: r"wgmma\.mma_async.*k32\.s32\.s8\.s8", FLOAT8: r"wgmma\.mma_async.*k32\.f32\.e4m3\.e4m3"}


@pytest.mark.parametrize(("quantized", "fast"), [(INT8, False), (FLOAT8, False), (FLOAT8, True)])
def test_large_products_use_tma_and_as_many_programs_on_an_sm_as_fit(quantized: torch.dtype, fast: bool) -> None:
    a, b = matrix(8192, 16, quantized), matrix(8192, 16, quantized)
    settings, programs_per_sm = _tma_tile_settings(a, b, torch.bfloat16, use_fast_accum=fast)
    assert (settings, programs_per_sm) == (((128, 256, 128, 4, 8), 1) if fast else ((128, 128, 128, 3, 4), 2))
    for divisible in (True, False):
        found = compiled(_quantized_matmul_tma_kernel, settings, quantized, divisible=divisible, FAST_ACCUM=fast)
        assert re.search(WGMMA[quantized], found.asm["ptx"]) and "cp.async.bulk.tensor" in found.asm["ptx"]
        # A program has 1 KiB of its own beside what it asks for.
        assert programs_per_sm * (found.metadata.shared + 1024) <= SHARED_BYTES + 1024
        to_fp32, _ = _tma_tile_settings(a, b, torch.float32, use_fast_accum=fast)
        found = compiled(
            _quantized_matmul_tma_kernel, to_fp32, quantized, out="fp32", divisible=divisible, FAST_ACCUM=fast
        )
        assert found.metadata.shared <= SHARED_BYTES


@pytest.mark.parametrize("quantized", QUANTIZED)
@pytest.mark.parametrize("size", [4096, 400, 16])
def test_tensor_cores_multiply_what_is_copied_asynchronously(size: int, quantized: torch.dtype) -> None:
    settings = _tile_settings(matrix(size, 512, quantized), matrix(4096 if size == 16 else size, 512, quantized))
    few_rows = (16, 32, 512 if quantized == INT8 else 256, 4, 4)
    assert settings == {4096: (128, 128, 128, 3, 4), 400: (64, 64, 256, 4, 4), 16: few_rows}[size]
    for even, divisible in ((True, True), (False, True)):
        found = compiled(_quantized_matmul_kernel, settings, quantized, divisible=divisible, K_IS_EVEN=even)
        instruction = WGMMA[quantized] if size > 16 else r"mma\.sync\.aligned\.m16n8k32" if quantized == INT8 else "mma"
        assert re.search(instruction, found.asm["ptx"]) and "cp.async.cg.shared.global" in found.asm["ptx"]
        assert not re.search(r"ld\.global\.b8", found.asm["ptx"]) and found.metadata.shared <= SHARED_BYTES


@pytest.mark.parametrize("quantized", QUANTIZED)
def test_many_rows_that_are_not_aligned_are_copied_to_such_as_are_with_zeros_behind(quantized: torch.dtype) -> None:
    a, b = torch.randn(513, 37).to(quantized), torch.randn(37, 514).to(quantized).T
    for matrix, read in zip((a, b), _readable(a, b), strict=True):
        assert read.shape == (matrix.shape[0], 48) and tma_reads(read)
        assert torch.equal(read[:, :37].float(), matrix.float()) and not read[:, 37:].float().any()
    few = _readable(a[:511], b)
    assert few[0].data_ptr() == a.data_ptr() and few[1].is_contiguous() and few[1].shape == (514, 37)


# The references


@pytest.mark.parametrize("out_dtype", DTYPES)
def test_int8_reference_is_the_exact_sum_scaled_and_rounded_once(out_dtype: torch.dtype) -> None:
    a, b = (torch.randint(-128, 128, (rows, 70000), dtype=INT8) for rows in (5, 7))
    a_scale, b_scale, bias = torch.rand(5), torch.rand(7), torch.randn(7)
    # Sums above 2²⁴, of which fp32 has not every one.
    sums = torch.tensor([[int((x.long() * y.long()).sum()) for y in b] for x in a], dtype=torch.int64)
    expected = (sums.float() * a_scale[:, None] * b_scale + bias).to(out_dtype)
    assert torch.equal(quantized_matmul_reference(a, b, a_scale, b_scale, bias, out_dtype=out_dtype), expected)


def test_float8_reference_is_the_product_of_the_values() -> None:
    a, b = (torch.randn(rows, 96).to(FLOAT8) for rows in (5, 7))
    a_scale, b_scale = torch.rand(5), torch.rand(7)
    expected = (a.double() @ b.double().T) * a_scale.double()[:, None] * b_scale.double()
    found = quantized_matmul_reference(a, b, a_scale, b_scale, out_dtype=torch.float64)
    torch.testing.assert_close(found, expected)
    assert quantized_matmul_reference(a, b, a_scale, b_scale).dtype == torch.bfloat16


def test_reference_is_differentiable_in_scales_and_bias() -> None:
    a, b = (torch.randint(-9, 9, (rows, 6), dtype=INT8) for rows in (3, 4))
    arguments = [torch.randn(n, dtype=torch.float64, requires_grad=True) for n in (3, 4, 4)]
    assert torch.autograd.gradcheck(
        lambda s, t, c: quantized_matmul_reference(a, b, s, t, c, out_dtype=torch.float64), arguments
    )


def test_one_scale_is_that_of_all_rows() -> None:
    a, b = (torch.randint(-128, 128, (rows, 16), dtype=INT8) for rows in (3, 4))
    expected = quantized_matmul_reference(a, b, torch.full((3,), 0.5), torch.full((4,), 0.25))
    for one in (0.5, torch.tensor(0.5), torch.tensor([0.5])):
        assert torch.equal(quantized_matmul_reference(a, b, one, torch.full((4,), 0.25)), expected)
        assert torch.equal(quantized_matmul(a, b, one, 0.25), expected)


def test_scales_may_have_the_shapes_that_torch_takes() -> None:
    a, b = (torch.randint(-128, 128, (rows, 16), dtype=INT8) for rows in (3, 4))
    a_scale, b_scale = torch.rand(3), torch.rand(4)
    expected = quantized_matmul(a, b, a_scale, b_scale)
    assert torch.equal(quantized_matmul(a, b, a_scale[:, None], b_scale[None]), expected)
    one = torch.tensor([[0.5]])
    assert torch.equal(quantized_matmul(a, b, one, one), quantized_matmul(a, b, 0.5, 0.5))


def test_rows_of_more_dimensions_are_flattened_as_the_example_says() -> None:
    x, linear = torch.randn(2, 3, 64), torch.nn.Linear(64, 5).requires_grad_(False)
    a, a_scale = quantize_rows(x.flatten(0, -2))
    b, b_scale = quantize_rows(linear.weight)
    y = quantized_matmul(a, b, a_scale, b_scale, linear.bias).unflatten(0, x.shape[:-1])
    assert y.shape == (2, 3, 5)
    torch.testing.assert_close(y.float(), linear(x), atol=0.05, rtol=0.05)


def test_meta_tensors_have_the_shape_that_torch_gives_them() -> None:
    a, b = (torch.empty(rows, 16, dtype=INT8, device="meta") for rows in (3, 4))
    y = quantized_matmul(a, b, 1.0, 1.0)
    assert y.is_meta and y.shape == (3, 4) and y.dtype == torch.bfloat16


def test_scales_of_infinity_are_scales() -> None:
    given = arguments(a_scale=float("inf"), bias=None)
    assert quantized_matmul(**given).isinf().all()


@pytest.mark.parametrize(("dtype", "largest"), [(INT8, 127.0), (FLOAT8, 448.0)])
def test_quantizing_takes_the_largest_magnitude_of_a_row_to_the_largest_value(
    dtype: torch.dtype, largest: float
) -> None:
    x = torch.randn(2, 3, 50)
    q, scale = quantize_rows_reference(x, dtype)
    assert q.dtype == dtype and q.shape == x.shape and scale.shape == (6,)
    assert (q.float().abs().amax(dim=-1) == largest).all()
    dequantized = q.float().view(6, 50) * scale[:, None]
    # Half a step of int8; of float8 half a unit of four bits of significand, or half the least subnormal, 2⁻⁹.
    error = 0.5 * scale[:, None] if dtype == INT8 else x.view(6, 50).abs() / 16 + 2**-10 * scale[:, None]
    assert ((dequantized - x.view(6, 50)).abs() <= 1.001 * error).all()


def test_int8_is_rounded_half_to_even_as_torch_rounds() -> None:
    x = torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5]])
    q, scale = quantize_rows(x)
    assert scale.tolist() == [1.0]
    assert q.tolist() == [[127, 0, 2, 2, 0, -2, -2, 126]]


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_rows_that_cannot_be_quantized(dtype: torch.dtype) -> None:
    x = torch.ones(5, 8)
    x[0], x[1, 3], x[2, 3], x[3, 3], x[4] = 0.0, torch.nan, torch.inf, -torch.inf, 1e-45
    q, scale = quantize_rows(x, dtype)
    assert (q.float() == 0).all()
    assert scale.isnan().tolist() == [False, True, True, True, False]
    assert scale[0] == scale[4] == 1.0
    assert quantize_rows(torch.empty(3, 0), dtype)[1].tolist() == [1.0] * 3
    assert quantize_rows(torch.empty(0, 3), dtype)[1].shape == (0,)


def test_cpu_tensors_are_computed_by_the_reference_and_announced_once() -> None:
    x = torch.randn(4, 32)
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="quantize_rows: Triton cannot run on cpu tensors"):
        q, scale = quantize_rows(x)
    with pytest.warns(UserWarning, match="quantized_matmul: Triton cannot run on cpu tensors"):
        y = quantized_matmul(q, q, scale, scale)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(quantized_matmul(q, q, scale, scale), y)
    assert torch.equal(y, quantized_matmul_reference(q, q, scale, scale))


def test_autocast_leaves_the_reference_as_it_is() -> None:
    given = arguments(a=torch.randn(2, 8).to(FLOAT8), b=torch.randn(3, 8).to(FLOAT8), out_dtype=torch.float32)
    outside = quantized_matmul(**given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(quantized_matmul(**given), outside)


def test_the_library_has_it() -> None:
    assert exported is quantized_matmul


# Errors


def arguments(**changes: Any) -> dict[str, Any]:
    """What fits, (2, 8) times (3, 8), but for the changes."""
    matrices = {"a": torch.ones(2, 8, dtype=INT8), "b": torch.ones(3, 8, dtype=INT8)}
    return {**matrices, "a_scale": torch.ones(2), "b_scale": torch.ones(3), "bias": torch.ones(3), **changes}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"a": [[1]]}, TypeError, "a must be a tensor, found list"),
        ({"b": None}, TypeError, "b must be a tensor, found NoneType"),
        ({"a_scale": "1"}, TypeError, "a_scale must be a number, found str"),
        ({"a": torch.ones(2, 8)}, TypeError, "a must be int8 or float8_e4m3fn, found torch.float32"),
        ({"b": torch.ones(3, 8).to(FLOAT8)}, TypeError, "the dtype of a, torch.int8, found torch.float8_e4m3fn"),
        ({"a_scale": torch.ones(2).half()}, TypeError, "a_scale must be float32, found torch.float16"),
        ({"bias": torch.ones(3).double()}, TypeError, "bias must be float32.*float64"),
        ({"out_dtype": torch.int8}, TypeError, "out_dtype must be float32, float16 or bfloat16, found torch.int8"),
        ({"a": torch.ones(2, 1, 8, dtype=INT8)}, ValueError, r"a must have shape \(M, K\), found \(2, 1, 8\)"),
        ({"b": torch.ones(8, 3, dtype=INT8)}, ValueError, r"b must have shape \(N, 8\), found \(8, 3\)"),
        ({"a_scale": torch.ones(3)}, ValueError, r"a_scale must have shape \(2,\), found \(3,\)"),
        ({"b_scale": torch.ones(3, 1)}, ValueError, r"b_scale must have shape \(3,\), found \(3, 1\)"),
        ({"bias": torch.ones(2)}, ValueError, r"bias must have shape \(3,\), found \(2,\)"),
        ({"bias": torch.ones(3, device="meta")}, ValueError, "bias is on meta, a on cpu"),
        ({"bias": torch.ones(3, requires_grad=True)}, ValueError, "bias requires a gradient.*torch.no_grad"),
        ({"b_scale": torch.ones(3, requires_grad=True)}, ValueError, "b_scale requires a gradient"),
        ({"a_scale": torch.ones(1, 2)}, ValueError, r"a_scale must have shape \(2,\), found \(1, 2\)"),
        ({"a_scale": 1e300}, ValueError, r"a_scale must be a number that float32 has, found 1e\+300"),
        ({"a": torch.ones(2, 8, dtype=INT8).to_sparse()}, TypeError, "a must be a dense tensor"),
        ({"b_scale": torch.ones(3).to_sparse()}, TypeError, "b_scale must be a dense tensor"),
    ],
)
def test_wrong_arguments_are_named(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        quantized_matmul(**arguments(**changes))


@pytest.mark.parametrize("name", ["a", "b"])
def test_float8_that_requires_a_gradient_is_refused(name: str) -> None:
    given = arguments(a=torch.ones(2, 8).to(FLOAT8), b=torch.ones(3, 8).to(FLOAT8))
    given[name].requires_grad_()
    with pytest.raises(ValueError, match=f"{name} requires a gradient"):
        quantized_matmul(**given)


def test_a_parameter_fits_where_no_gradient_is_recorded() -> None:
    with torch.no_grad():
        quantized_matmul(**arguments(bias=torch.ones(3, requires_grad=True)))


def test_int8_sums_that_could_overflow_are_refused() -> None:
    deep = torch.ones(1, MAX_INT8_K + 1, dtype=INT8)
    with pytest.raises(ValueError, match="K is 131072; int8 sums of at most 131071 products"):
        quantized_matmul(deep, deep, 1.0, 1.0)


@pytest.mark.parametrize(
    ("x", "dtype", "error", "message"),
    [
        (torch.ones(2, 4).double(), INT8, TypeError, "x must be float32.*float64"),
        (torch.ones(2, 4), torch.uint8, TypeError, "dtype must be int8 or float8_e4m3fn, found torch.uint8"),
        (torch.ones(()), INT8, ValueError, "x must have a last dimension"),
        (torch.ones(2, 4, requires_grad=True), INT8, ValueError, "x requires a gradient"),
    ],
)
def test_what_cannot_be_quantized_is_named(x: Tensor, dtype: torch.dtype, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        quantize_rows(x, dtype)


def test_float8_is_refused_on_a_gpu_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    on: Any = SimpleNamespace(is_cuda=True, device="cuda:0")
    gpu = SimpleNamespace(major=8, minor=6, name="NVIDIA A10")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    with pytest.raises(RuntimeError, match=r"compute capability 8.9 or above; this one, NVIDIA A10, has 8.6"):
        expect_float8_hardware("quantized_matmul", FLOAT8, on)
    expect_float8_hardware("quantized_matmul", INT8, on)
    gpu.minor = 9
    expect_float8_hardware("quantized_matmul", FLOAT8, on)
