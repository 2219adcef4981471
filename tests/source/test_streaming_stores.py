"""Stores of what is written once: which they are, which stay as they are, and what the compiler makes of them."""

from __future__ import annotations

import difflib
import importlib.util
from pathlib import Path

import pytest
import triton
from source.row_kernels import IN_PLACE, MOVED_POINTERS
from source.tiled_kernels import BLOCK_POINTERS
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.admit import admit
from warpsmith.source.rewrites import NotApplicable, add_eviction_policy, stream_stores
from warpsmith.source.scan import scan

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
#: A row in pieces, its mean beside it, and sums that the host adds up.
PIECES = f"""{HEAD}def _kernel(x_ptr, y_ptr, mean_ptr, sums_ptr, n_rows, n_cols, ONE, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(pid, n_rows, tl.num_programs(0)):
        for start in range(0, n_cols, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
            total += x
            tl.store(y_ptr + row * n_cols + cols, x * 2, cols < n_cols)
        tl.store(mean_ptr + row, tl.sum(total, 0))
    tl.store(sums_ptr + pid * BLOCK + tl.arange(0, BLOCK), total)


def host(x, y, mean, sums):
    _kernel[(8,)](x, y, mean, sums, x.shape[0], x.shape[1], ONE=1, BLOCK=64)
"""
STORE = "            tl.store(y_ptr + row * n_cols + cols, x * 2, cols < n_cols)\n"


def places(source: str, kind: OpportunityKind = OpportunityKind.STORED_ONCE) -> list[Opportunity]:
    return [o for o in scan(source).opportunities if o.kind is kind]


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        (PIECES, ['+            tl.store(y_ptr + row * n_cols + cols, x * 2, cols < n_cols, cache_modifier=".cs")']),
        (MOVED_POINTERS, ['+    tl.store(Y_ptr + col_offsets, Y_row, mask=mask, cache_modifier=".cs")']),
        (BLOCK_POINTERS, ['+    tl.store(c_block, acc, boundary_check=(0, 1), cache_modifier=".cs")']),
        (
            PIECES.replace(STORE, f"            if ONE:\n    {STORE}            else:\n    {STORE}"),
            2 * ['+                tl.store(y_ptr + row * n_cols + cols, x * 2, cols < n_cols, cache_modifier=".cs")'],
        ),
    ],
    ids=["pieces of a row", "a row and its scalar", "a tile of a product", "in either branch"],
)
def test_blocks_that_are_written_once_are_marked_and_nothing_else(source: str, changed: list[str]) -> None:
    (place,) = places(source)
    after = stream_stores(source, place)
    diff = difflib.unified_diff(source.splitlines(), after.splitlines(), lineterm="", n=0)

    assert [line for line in diff if line.startswith("+ ")] == changed
    assert admit(source, after) == ()
    assert places(after) == []
    with pytest.raises(NotApplicable, match="has no store without a policy of what it writes once"):
        stream_stores(after, place)


LEFT_ALONE = {
    "it has a policy": (STORE, STORE.replace(", cols <", ', eviction_policy="evict_first", mask=cols <')),
    "it has a modifier by its place": (STORE, STORE.replace("cols < n_cols)", 'cols < n_cols, (), ".wb")')),
    "what it is given is not seen": (STORE, STORE.replace("cols < n_cols)", "cols < n_cols, **OPTIONS)")),
    "it is read back": ("total += x", "total += x + tl.load(y_ptr + row)"),
    "it is added to": ("total += x", "tl.atomic_add(y_ptr + cols, x)"),
    "it is stored again": (STORE, STORE + STORE),
    "it stays in place through a loop": (STORE, STORE.replace("row * n_cols + cols", "pid + tl.arange(0, 64)")),
    "its place is loaded": (STORE, STORE.replace("row *", "tl.load(mean_ptr + row).to(tl.int32) *")),
    "all programs store to it": (STORE, STORE.replace("row * n_cols + ", "")),
    "a later launch reads it": ("BLOCK=64)\n", "BLOCK=64)\n    _kernel[(8,)](y, x, mean, sums, 1, 1, 1, 64)\n"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_a_store_stays_as_it_is(old: str, new: str) -> None:
    (place,) = places(PIECES)
    assert PIECES.count(old) == 1
    source = PIECES.replace(old, new)

    assert places(source) == []
    with pytest.raises(NotApplicable, match="has no store without a policy"):
        stream_stores(source, place)


def test_what_is_overwritten_in_place_is_no_stream() -> None:
    assert places(IN_PLACE) == []


def test_another_kind_of_opportunity_is_not_taken_up() -> None:
    (place,) = places(PIECES, OpportunityKind.STREAM_ONCE)

    with pytest.raises(NotApplicable, match="stream_once is no data that is stored once"):
        stream_stores(PIECES, place)
    with pytest.raises(NotApplicable, match="stored_once is no data that is loaded once"):
        add_eviction_policy(PIECES, places(PIECES)[0])


def test_on_hopper_marked_stores_stream_beside_loads_with_a_policy(tmp_path: Path) -> None:
    """ptxas would refuse a store with both."""
    source = stream_stores(PIECES, places(PIECES)[0])
    source = add_eviction_policy(source, places(source, OpportunityKind.STREAM_ONCE)[0])
    ptx = compiled(tmp_path, source)

    assert stores_of(ptx) == {"st.global", "st.global.cs"}
    assert "ld.global.L1::evict_first" in ptx


def stores_of(ptx: str) -> set[str]:
    """The instructions that store to global memory, without widths."""
    found = (word for line in ptx.splitlines() for word in line.split() if word.startswith("st.global"))
    return {word.partition(".v")[0].partition(".b")[0] for word in found}


def compiled(folder: Path, source: str) -> str:
    path = folder / "kernel.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("streaming_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = module._kernel
    kinds = ("*fp32", "*fp32", "*fp32", "*fp32", "i32", "i32", "i32", "constexpr")
    given = ASTSource(kernel, dict(zip(kernel.arg_names, kinds, strict=True)), {"BLOCK": 64})
    return str(triton.compile(given, target=GPUTarget("cuda", 90, 32)).asm["ptx"])
