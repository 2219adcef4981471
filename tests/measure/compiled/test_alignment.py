"""What briefs say of Triton's PTX: which addresses stay wide by themselves, and where a hint or a run is missed."""

from __future__ import annotations

from collections import Counter

import aligning_kernels
import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.contracts.launch import AccessKind
from warpsmith.measure.compiled.ptx import read_ptx

ALL, NO_STRIDE, NO_WIDTH = (0, 1, 2, 3), (0, 1, 3), (0, 1, 2)
TYPES = ("*bf16", "*bf16", "i32", "i32")


def loads(name: str, aligned: tuple[int, ...] = ALL, types: tuple[str, ...] = TYPES) -> Counter[int | None]:
    """Loads on Hopper, by the bytes that a thread moves at once; `aligned` are the arguments that 16 divides."""
    kernel = getattr(aligning_kernels, name)
    signature = dict(zip(kernel.arg_names, (*types, "constexpr"), strict=True))
    attributes = {(index,): [["tt.divisibility", 16]] for index in aligned}
    source = ASTSource(kernel, signature, {"BLOCK": 1024}, attributes)
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    found: Counter[int | None] = Counter()
    for each in read_ptx(code, with_lines=False).accesses:
        found[each.bytes_a_thread] += each.instructions if each.kind is AccessKind.LOAD else 0
    return +found


def beside_one_number(name: str) -> Counter[int | None]:
    """Loads beside that of the one number of 4 bytes that the kernel reads from memory."""
    return loads(name, types=("*bf16", "*bf16", "*i32", "i32")) - Counter({4: 1})


@pytest.mark.parametrize("name", ["given", "stepped", "wrapped"])
def test_what_the_compiler_follows_to_its_arguments_needs_no_hint(name: str) -> None:
    assert loads(name) == {16: 1}


@pytest.mark.parametrize("aligned", [NO_STRIDE, NO_WIDTH])
def test_an_argument_that_is_not_specialized_costs_the_width(aligned: tuple[int, ...]) -> None:
    assert loads("given", aligned) == {2: 8}


@pytest.mark.parametrize("name", ["offset_from_memory", "width_from_memory"])
def test_what_is_loaded_costs_the_width_until_it_is_told_to_be_a_multiple(name: str) -> None:
    assert (beside_one_number(name), beside_one_number(f"{name}_told")) == ({2: 8}, {16: 1})


def test_a_loaded_row_times_an_aligned_width_needs_no_hint() -> None:
    assert beside_one_number("row_from_memory") == {16: 1}


def test_a_pointer_that_is_loaded_costs_the_width() -> None:
    assert loads("pointer_from_memory", types=("*i64", "*bf16", "i32", "i32")) == {8: 1, 2: 8}


@pytest.mark.parametrize("name", ["divided", "folded"])
def test_a_division_by_no_power_of_two_and_a_chosen_offset_cost_the_width(name: str) -> None:
    assert loads(name) == {2: 8}


def test_pairs_that_are_loaded_as_one_run_are_wide() -> None:
    assert (loads("interleaved"), loads("loaded_as_a_run")) == ({2: 16}, {16: 2})
