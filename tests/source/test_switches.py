"""Switches that a table turns on for one GPU: where they fit, what they write, and that off they change nothing."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, OpportunityKind
from warpsmith.source.admit import admit
from warpsmith.source.rewrites import NotApplicable, load_past_l1, parametrise_warp_specialization
from warpsmith.source.scan import scan
from warpsmith.source.table import Band, Basis, SettingsTable, write_table
from warpsmith.source.tunable import make_tunable

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n\n\n"

#: As Triton's tutorials write a product: pointers that are stepped along.
TUTORIAL = f'''{IMPORTS}@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    K,
    stride_am,
    stride_bk,
    BLOCK_SIZE_M: tl.constexpr,  # rows of a tile
    BLOCK_SIZE_K: tl.constexpr,
):
    """c = a @ b."""
    offs_m = tl.program_id(0) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_m[None, :]
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_M), dtype=tl.float32)
    # Steps along K.
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_SIZE_K
        b_ptrs += BLOCK_SIZE_K * stride_bk
    tl.store(c_ptr + offs_m[:, None] * stride_am + offs_m[None, :], accumulator)


def host(a, b, c):
    matmul_kernel[(4,)](a, b, c, a.shape[1], a.stride(0), b.stride(0), BLOCK_SIZE_M=64, BLOCK_SIZE_K=32)
    return c
'''
#: As flash-linear-attention and vLLM write one over descriptors.
DESCRIPTORS = f"""{IMPORTS}@triton.jit
def _gemm(a_desc, b_desc, c_ptr, K, BM: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM
    acc = tl.zeros((BM, BM), tl.float32)
    for k in tl.range(0, K, BK):
        acc += tl.dot(a_desc.load([row, k]), b_desc.load([row, k]).T)
    tl.store(c_ptr + tl.arange(0, BM)[:, None] * BM + tl.arange(0, BM)[None, :], acc)


def host(a, b, c):
    _gemm[(1,)](a, b, c, 64, BM=64, BK=32)
    return c
"""
#: As Liger-Kernel and unsloth write a kernel of rows.
ROWS = f"""{IMPORTS}@triton.jit
def _scale_kernel(
    Y_ptr,
    X_ptr,
    W_ptr,
    row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0)
    X_row = tl.load(X_ptr + row_idx * row_stride + col_offsets, mask=mask, other=0)
    tl.store(Y_ptr + row_idx * row_stride + col_offsets, X_row * W_row, mask=mask)


def host(y, x, w):
    n_rows, n_cols = x.shape
    _scale_kernel[(n_rows,)](y, x, w, n_cols, n_cols, BLOCK_SIZE=triton.next_power_of_2(n_cols))
    return y
"""
#: As TorchInductor writes a pointwise kernel: one flat index.
POINTWISE = f"""{IMPORTS}@triton.jit
def triton_poi_fused_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + (xindex), xmask)
    tl.store(out_ptr0 + (xindex), tmp0 + 1.0, xmask)


def host(x, y):
    triton_poi_fused_0[(4,)](x, y, 1000, XBLOCK=256)
    return y
"""
any_load = partial(parametrise_warp_specialization, by_descriptor_alone=False)
by_descriptor = partial(parametrise_warp_specialization, by_descriptor_alone=True)

Rewrite = Callable[[str, str], str]
WRITTEN: dict[str, tuple[Rewrite, str, str, list[str]]] = {
    "product of pointers": (
        any_load,
        TUTORIAL,
        "matmul_kernel",
        [
            "+    WARP_SPECIALIZE: tl.constexpr = 0,",
            "-    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):",
            "+    for k in tl.range(0, tl.cdiv(K, BLOCK_SIZE_K), warp_specialize=WARP_SPECIALIZE):",
        ],
    ),
    "product of descriptors": (
        by_descriptor,
        DESCRIPTORS,
        "_gemm",
        [
            "-def _gemm(a_desc, b_desc, c_ptr, K, BM: tl.constexpr, BK: tl.constexpr):",
            "+def _gemm(a_desc, b_desc, c_ptr, K, BM: tl.constexpr, BK: tl.constexpr, "
            "WARP_SPECIALIZE: tl.constexpr = 0):",
            "-    for k in tl.range(0, K, BK):",
            "+    for k in tl.range(0, K, BK, warp_specialize=WARP_SPECIALIZE):",
        ],
    ),
    "rows": (
        load_past_l1,
        ROWS,
        "_scale_kernel",
        [
            "+    PAST_L1: tl.constexpr = 0,",
            "-    X_row = tl.load(X_ptr + row_idx * row_stride + col_offsets, mask=mask, other=0)",
            "+    # Streamed once: it need not pass through L1.",
            "+    X_row = tl.load(",
            "+        X_ptr + row_idx * row_stride + col_offsets,",
            "+        mask=mask,",
            "+        other=0,",
            '+        cache_modifier=".cg" if PAST_L1 else "",',
            "+    )",
        ],
    ),
    "pointwise": (
        load_past_l1,
        POINTWISE,
        "triton_poi_fused_0",
        [
            "-def triton_poi_fused_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):",
            "+def triton_poi_fused_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr, PAST_L1: tl.constexpr = 0):",
            "-    tmp0 = tl.load(in_ptr0 + (xindex), xmask)",
            "+    # Streamed once: it need not pass through L1.",
            '+    tmp0 = tl.load(in_ptr0 + (xindex), xmask, cache_modifier=".cg" if PAST_L1 else "")',
        ],
    ),
}


@pytest.mark.parametrize(("rewrite", "source", "kernel", "changed"), WRITTEN.values(), ids=WRITTEN.keys())
def test_a_switch_changes_these_lines_and_no_others_is_admitted_and_is_added_once(
    rewrite: Rewrite, source: str, kernel: str, changed: list[str]
) -> None:
    after = rewrite(source, kernel)
    diff = difflib.unified_diff(source.splitlines(), after.splitlines(), lineterm="", n=0)

    assert [line for line in diff if not line.startswith(("---", "+++", "@@"))] == changed
    assert admit(source, after) == ()
    with pytest.raises(NotApplicable):
        rewrite(after, kernel)


@pytest.mark.parametrize(
    ("rewrite", "source", "kernel", "kind"),
    [
        (any_load, TUTORIAL, "matmul_kernel", KnobKind.WARP_SPECIALIZE),
        (load_past_l1, ROWS, "_scale_kernel", KnobKind.PAST_L1),
    ],
)
def test_a_switch_is_a_knob_that_is_off_where_no_settings_say_otherwise(
    rewrite: Rewrite, source: str, kernel: str, kind: KnobKind, machine: Any, tensor: Any
) -> None:
    switched = rewrite(source, kernel)
    (knob,) = [k for k in scan(switched).knobs if k.kind is kind]
    names = [argument.arg for argument in function(switched, "host").args.args]
    arguments = {name: tensor((8, 64)) for name in names} | ({"w": None} if "w" in names else {})
    for given in arguments.values():
        if given is not None:
            given.stride = lambda axis: 1

    (on,) = machine.run(make_tunable(switched, [knob]), settings={knob.id: 1}, **arguments)
    (off,) = machine.run(make_tunable(switched, [knob]), **arguments)

    assert knob.tunable
    assert (on.arguments[knob.name], off.arguments[knob.name]) == (1, 0)


def test_a_table_turns_a_switch_on_for_its_own_gpu_alone(machine: Any, tensor: Any) -> None:
    switched = load_past_l1(ROWS, "_scale_kernel")
    table = SettingsTable(
        jit_function="_scale_kernel",
        host_function="host",
        capability=(8, 0),
        sm_count=108,
        itemsize=2,
        tensor="x",
        axes=(),
        bands=(Band(ranges=(), settings={"PAST_L1": 1}),),
        basis=Basis(tuned=((),), products=(), covered_up_to=()),
    )
    written = write_table(switched, scan(switched), [table])
    arguments = {"y": tensor((8, 64)), "x": tensor((8, 64)), "w": None}

    def ran(capability: tuple[int, int], sm_count: int) -> int:
        machine.capability, machine.sm_count = capability, sm_count
        machine.launched.clear()
        (launch,) = machine.run(written, **arguments)
        return int(launch.arguments["PAST_L1"])

    assert admit(ROWS, written) == ()
    assert [ran((8, 0), 108), ran((8, 6), 84), ran((9, 0), 132)] == [1, 0, 0]


def test_a_constexpr_that_the_author_switches_on_is_no_knob() -> None:
    authors = by_descriptor(DESCRIPTORS, "_gemm").replace(
        "WARP_SPECIALIZE: tl.constexpr = 0", "WARP_SPECIALIZE: tl.constexpr = True"
    )

    assert not [k for k in scan(authors).knobs if k.kind is KnobKind.WARP_SPECIALIZE]


def test_the_audit_tells_a_loop_that_descriptors_load_from_one_that_pointers_do() -> None:
    (pointers,) = loops_of(TUTORIAL)
    (descriptors,) = loops_of(DESCRIPTORS)

    assert pointers == (OpportunityKind.UNSPECIALIZED_LOOP, "matmul_kernel", 24)
    assert descriptors == (OpportunityKind.UNSPECIALIZED_TMA_LOOP, "_gemm", 10)


FLAT = DESCRIPTORS.replace(
    "    for k in tl.range(0, K, BK):\n        acc",
    "    for tile in tl.range(0, 4, flatten=True):\n        for k in tl.range(0, K, BK):\n            acc",
)


@pytest.mark.parametrize(
    "source",
    [
        FLAT,
        DESCRIPTORS.replace("b_desc.load([row, k])", "tl.load(c_ptr + tl.arange(0, BM)[:, None] + k)"),
        DESCRIPTORS.replace("        acc +=", "        acc *= tl.dot(acc, acc)\n        acc +="),
    ],
    ids=["flattened", "a pointer among them", "two products"],
)
def test_what_only_blackwell_takes_apart_is_left_out_where_descriptors_alone_will_do(source: str) -> None:
    assert [kind for kind, _, _ in loops_of(source)] == [OpportunityKind.UNSPECIALIZED_LOOP]
    assert "warp_specialize=" in any_load(source, "_gemm")
    with pytest.raises(NotApplicable, match="no loop over products of tiles that descriptors load"):
        by_descriptor(source, "_gemm")


@pytest.mark.parametrize(
    "source",
    [
        DESCRIPTORS.replace("tl.range(0, K, BK)", "tl.range(0, K, BK, warp_specialize=True)"),
        DESCRIPTORS.replace("tl.range(0, K, BK)", "tl.static_range(0, K, BK)"),
        DESCRIPTORS.replace("tl.dot(", "_product("),
        ROWS,
    ],
    ids=["says so already", "unrolled", "no product", "no loop"],
)
def test_other_loops_are_no_opportunity_and_are_refused(source: str) -> None:
    kernel = "_scale_kernel" if source is ROWS else "_gemm"

    assert loops_of(source) == []
    with pytest.raises(NotApplicable, match="whose warps are not specialized"):
        any_load(source, kernel)


def test_loads_with_a_policy_stay_as_they_are() -> None:
    hinted = ROWS.replace(
        "col_offsets, mask=mask, other=0)\n    tl.store",
        'col_offsets, mask=mask, other=0, eviction_policy="evict_first")\n    tl.store',
    )

    assert hinted != ROWS
    with pytest.raises(NotApplicable, match="no load of row data without a policy"):
        load_past_l1(hinted, "_scale_kernel")


def test_a_kernel_that_a_decorator_tunes_is_refused_with_its_line() -> None:
    tuned = ROWS.replace(
        "@triton.jit", '@triton.autotune(configs=[triton.Config({}, num_warps=4)], key=["n_cols"])\n@triton.jit'
    )

    with pytest.raises(NotApplicable, match="tuned by a decorator in line 6, which no table can add to"):
        load_past_l1(tuned, "_scale_kernel")


def loops_of(source: str) -> list[tuple[OpportunityKind, str, int]]:
    kinds = (OpportunityKind.UNSPECIALIZED_LOOP, OpportunityKind.UNSPECIALIZED_TMA_LOOP)
    return [(o.kind, o.function, o.line) for o in scan(source).opportunities if o.kind in kinds]


def function(source: str, name: str) -> ast.FunctionDef:
    return next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == name)
