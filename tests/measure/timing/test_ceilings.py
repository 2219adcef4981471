from __future__ import annotations

import re
from importlib import metadata

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.measure.timing import copies
from warpsmith.measure.timing.ceilings import FOOTPRINTS_BYTES, KERNEL_PACKAGES, installed_versions


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert installed_versions(["pydantic", "no-such-distribution"]) == {"pydantic": metadata.version("pydantic")}


def test_the_packages_that_baselines_take_their_kernels_from_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: f"{name} 1")
    assert installed_versions(KERNEL_PACKAGES)["liger-kernel"] == "liger-kernel 1"


def ptx(kernel: triton.JITFunction, block: int, warps: int, *, integers: tuple[str, ...]) -> str:
    """Of a copy kernel for an H100, with aligned pointers and a length that 16 divides, as all footprints have."""
    signature = {"source_ptr": "*bf16", "target_ptr": "*bf16", **dict.fromkeys(integers, "i32"), "BLOCK": "constexpr"}
    divisible = {(index,): [["tt.divisibility", 16]] for index in range(3)}
    source = ASTSource(kernel, signature, {"BLOCK": block}, divisible)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    return str(compiled.asm["ptx"])


@pytest.mark.parametrize(("block", "warps"), copies.BLOCKS)
def test_a_copy_of_one_block_moves_16_bytes_at_a_time(block: int, warps: int) -> None:
    assert_wide(ptx(copies._copy_kernel, block, warps, integers=("elements",)))


@pytest.mark.parametrize(("block", "warps", "a_sm"), copies.LOOPS)
def test_a_looping_copy_moves_16_bytes_at_a_time(block: int, warps: int, a_sm: int) -> None:
    assert_wide(ptx(copies._looping_copy_kernel, block, warps, integers=("elements", "blocks")))


def assert_wide(code: str) -> None:
    accesses = set(re.findall(r"\b(?:ld|st)\.global\S*", code))
    assert accesses == {"ld.global.v4.b32", "st.global.v4.b32"}


def test_every_footprint_is_a_length_that_16_divides() -> None:
    assert all(footprint // 4 % 16 == 0 for footprint in FOOTPRINTS_BYTES)
    assert sorted(set(FOOTPRINTS_BYTES)) == list(FOOTPRINTS_BYTES)
