"""The matrix product without a GPU: the kernels interpreted and compiled, the reference, the errors."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from torch import Tensor
from torch.nn import functional
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.kernels.arguments import _announce_reference
from warpsmith.kernels.matmul import (
    ACTIVATIONS,
    LARGEST_TILES_BYTES,
    _matmul_kernel,
    _matmul_tma_kernel,
    _tile_settings,
    matmul,
    matmul_reference,
)

#: What a program may have on an H200.
SHARED_BYTES = 232448

pytestmark = pytest.mark.filterwarnings("ignore:matmul. Triton cannot run on")


# The kernels, interpreted on the CPU


# fp16: c is rounded, z and dz too.
@pytest.mark.usefixtures("interpreter_loops")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float16", 2e-3)])
def test_interpreted_kernels_match_float64(
    interpreted_errors: dict[str, dict[str, float]], dtype: str, tolerance: float
) -> None:
    errors = {name: largest for name, largest in interpreted_errors.items() if f"-{dtype}-" in name}
    assert len(errors) == 48
    # Written so that a NaN is a failure.
    assert {name: e for name, e in errors.items() if not all(value <= tolerance for value in e.values())} == {}


# The kernels, compiled for an H200


def compiled(kernel: Any, constants: dict[str, object], num_stages: int, num_warps: int, dtype: str) -> Any:
    """With everything aligned, without a bias, forward alone; constants say which strides are 1."""
    constants = {"bias_ptr": None, "z_ptr": None, "ACTIVATION": "none", "GROUP_ROWS": 8, **constants}
    block_m, block_n, block_k = (constants[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    a_block = (block_k, block_m) if constants.get("A_TRANSPOSED") else (block_m, block_k)
    descriptors = {
        "a_rows": f"tensordesc<{dtype}[{a_block[0]}, {a_block[1]}]>",
        "b_rows": f"tensordesc<{dtype}[{block_n}, {block_k}]>",
    }
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[object]]] = {}
    for index, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name in descriptors:
            signature[name] = descriptors[name]
        else:
            signature[name] = f"*{dtype}" if name.endswith("_ptr") else "i32"
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_stages": num_stages, "num_warps": num_warps}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def settings(m: int, n: int, dtype: torch.dtype, precision: str = "ieee") -> tuple[dict[str, object], int, int]:
    """The tile, num_stages and num_warps."""
    *tile, num_stages, num_warps = _tile_settings(torch.empty(m, 1, dtype=dtype), n, precision)
    return dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True)), num_stages, num_warps


@pytest.mark.parametrize("activation", ["none", "gelu"])
def test_large_products_of_linear_layers_use_tma_and_wgmma(
    activation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    tile, num_stages, num_warps = settings(8192, 8192, torch.bfloat16)
    constants = {**tile, "A_TRANSPOSED": False, "B_TRANSPOSED": True, "ACTIVATION": activation}
    assert tuple(tile.values()) == (128, 256, 64)
    found = compiled(_matmul_tma_kernel, constants, num_stages, num_warps, "bf16")
    assert "wgmma.mma_async" in found.asm["ptx"] and "cp.async.bulk.tensor" in found.asm["ptx"]
    assert found.metadata.shared <= SHARED_BYTES
    # One product is still at work when the next begins.
    assert "pendings = 1" in found.asm["ttgir"]
    assert "st.global.v4.b32" in found.asm["ptx"]


def test_a_gpu_is_asked_for_the_shared_memory_that_the_largest_tiles_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    tile, num_stages, num_warps = settings(8192, 8192, torch.bfloat16)
    constants = {**tile, "A_TRANSPOSED": True, "B_TRANSPOSED": True}
    found = compiled(_matmul_tma_kernel, constants, num_stages, num_warps, "bf16")
    assert found.metadata.shared <= LARGEST_TILES_BYTES <= SHARED_BYTES


@pytest.mark.parametrize("b_stride_of_1", ["b_row_stride", "b_col_stride"])
@pytest.mark.parametrize(
    ("dtype", "precision", "instruction"),
    [("bf16", "ieee", "wgmma.mma_async"), ("fp32", "tf32", "wgmma.mma_async"), ("fp32", "ieee", "fma.rn")],
)
def test_large_products_through_pointers_load_ahead(
    dtype: str, precision: str, instruction: str, b_stride_of_1: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    tile, num_stages, num_warps = settings(4096, 4096, torch.bfloat16 if dtype == "bf16" else torch.float32, precision)
    constants = {**tile, "a_col_stride": 1, b_stride_of_1: 1, "PRECISION": precision, "K_IS_EVEN": True}
    found = compiled(_matmul_kernel, constants, num_stages, num_warps, dtype)
    assert instruction in found.asm["ptx"] and "cp.async.c" in found.asm["ptx"]
    assert ("wgmma" in found.asm["ptx"]) == ("wgmma" in instruction)
    assert found.metadata.shared <= SHARED_BYTES
    assert "ld.global" not in found.asm["ptx"]


def test_few_rows_have_small_tiles() -> None:
    assert [settings(m, 4096, torch.bfloat16)[0]["BLOCK_M"] for m in (1, 16, 17, 64, 65)] == [16, 16, 32, 64, 64]
    assert [settings(8192, n, torch.bfloat16)[0]["BLOCK_N"] for n in (1, 64)] == [16, 64]


# The reference


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reference_is_torch_where_nothing_is_rounded(dtype: torch.dtype, activation: str) -> None:
    a, weight, bias = torch.randn(2, 7, 33, dtype=dtype), torch.randn(5, 33, dtype=dtype), torch.randn(5, dtype=dtype)
    z = functional.linear(a, weight, bias)
    act = {
        "none": z,
        "silu": functional.silu(z),
        "gelu": functional.gelu(z),
        "gelu_tanh": functional.gelu(z, approximate="tanh"),
    }
    torch.testing.assert_close(matmul_reference(a, weight.T, bias, activation), act[activation])


def test_reference_rounds_once() -> None:
    a, b, bias = (torch.randn(*shape).bfloat16() for shape in ((40, 96), (96, 30), (30,)))
    expected = functional.silu(a.float() @ b.float() + bias.float()).bfloat16()
    assert torch.equal(matmul_reference(a, b, bias, "silu"), expected)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_reference_is_differentiable(activation: str) -> None:
    a, b, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 5), (5, 4), (4,)))
    assert torch.autograd.gradcheck(lambda a, b, bias: matmul_reference(a, b, bias, activation), (a, b, bias))


def test_cpu_tensors_are_computed_by_the_reference_and_announced_once() -> None:
    a, b = torch.randn(4, 16, dtype=torch.bfloat16), torch.randn(16, 8, dtype=torch.bfloat16)
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="matmul: Triton cannot run on cpu tensors"):
        c = matmul(a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = matmul(a, b)
    expected = matmul_reference(a, b)
    assert torch.equal(c, expected) and torch.equal(again, expected)


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float32), (torch.bfloat16, torch.float32)])
def test_autocast_casts_what_is_multiplied_as_torch_does(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    a, b = (torch.randn(*shape).to(dtype) for shape, dtype in zip(((4, 16), (16, 8)), dtypes, strict=True))
    bias = torch.randn(8)
    b.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        c = matmul(a, b, bias, activation="silu")
        assert c.dtype == (a @ b).dtype == torch.bfloat16
    assert torch.equal(c, matmul(a.bfloat16(), b.bfloat16(), bias, activation="silu"))
    assert torch.autograd.grad(c.sum(), b)[0].dtype == torch.float32


def test_meta_tensors_have_the_shape_that_torch_gives_them() -> None:
    c = matmul(torch.empty(2, 6, 8, device="meta"), torch.empty(8, 3, device="meta"), activation="silu")
    assert c.is_meta and c.shape == (2, 6, 3)


# Errors


@pytest.mark.parametrize(
    ("a", "b", "bias", "error", "message"),
    [
        (torch.ones(2, 3, dtype=torch.int64), torch.ones(3, 4), None, TypeError, "a must be float32.*int64"),
        (torch.ones(2, 3), torch.ones(3, 4, dtype=torch.float64), None, TypeError, "b must be float32.*float64"),
        (torch.ones(2, 3), torch.ones(3, 4), torch.ones(4).int(), TypeError, "bias must be float32.*int32"),
        (torch.ones(2, 3), torch.ones(3, 4).half(), None, TypeError, "the dtype of a, torch.float32, found torch.fl"),
        (torch.ones(2, 3), torch.ones(4, 3), None, ValueError, r"\(\.\.\., K\) and b \(K, N\), found \(2, 3\) and \(4"),
        (torch.ones(2, 3), torch.ones(1, 3, 4), None, ValueError, r"found \(2, 3\) and \(1, 3, 4\)"),
        (torch.ones(()), torch.ones(3, 4), None, ValueError, r"found \(\) and \(3, 4\)"),
        (torch.ones(2, 3), torch.ones(3, 4), torch.ones(3), ValueError, r"bias must have shape \(4,\), found \(3,\)"),
        (torch.ones(2, 3), torch.ones(3, 4, device="meta"), None, ValueError, "b is on meta, a on cpu"),
    ],
)
def test_wrong_arguments_are_named(
    a: Tensor, b: Tensor, bias: Tensor | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        matmul(a, b, bias)


def test_wrong_options_are_named() -> None:
    with pytest.raises(ValueError, match=r"activation must be one of .*found 'relu'"):
        matmul(torch.ones(2, 3), torch.ones(3, 4), activation="relu")
    with pytest.raises(ValueError, match=r"precision must be one of .*found 'high'"):
        matmul(torch.ones(2, 3), torch.ones(3, 4), precision="high")
