"""Tiles that are not seen to be free to change places stay where they are, and the reason is told."""

from __future__ import annotations

import pytest
from source.tiled_kernels import BLOCK_POINTERS, DIVIDED, TWO_AXES

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.source.rewrites import NotApplicable, group_tiles
from warpsmith.source.scan import scan

KERNEL = "_scaled_mm_kernel"
ROW_ID = "    pid_m = tl.program_id(axis=0)\n"
ROWS = "    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)\n"
STORE = "    tl.store(c_ptr + rows"
LAST = "    BLOCK_K: tl.constexpr,\n):"
JIT = "@triton.jit\ndef _sca"
GRID = '(triton.cdiv(M, META["BLOCK_M"]) * triton.cdiv(N, META["BLOCK_N"]),)'
IMPORT = "import triton.language as tl\n"
RENAMED = f"{IMPORT}from triton.language import program_id as where\n"
OUTER = """

@triton.jit
def _outer(a, b, s, c, M, N, K):
    _scaled_mm_kernel(a, b, s, c, M, N, K, 16, 16, 16)
"""
HELPER = """@triton.jit
def _first_row(BLOCK: tl.constexpr):
    return tl.program_id(0) * BLOCK


@triton.jit
def _sca"""


def ungrouped(source: str) -> list[str]:
    return [o.function for o in scan(source).opportunities if o.kind is OpportunityKind.UNGROUPED_TILES]


def replaced(source: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in source
        source = source.replace(old, new)
    return source


def before(line: str, code: str) -> tuple[str, str]:
    return line, code + line


#: What is changed in the kernel of two axes, and why its tiles then stay.
TWO_AXES_REFUSED = {
    "an id is read again": (
        [(ROWS, ROWS.replace("pid_m", "tl.program_id(0)"))],
        "line 23: _scaled_mm_kernel reads program_id elsewhere than into one variable",
    ),
    "an id is read in place": ([(ROW_ID, ""), ("pid_m", "tl.program_id(0)")], "reads program_id elsewhere"),
    "an id is of an axis that is not known": ([("axis=0", "axis=M")], "reads program_id elsewhere"),
    "an id is read under a condition": ([(ROW_ID, f"    if M > 1:\n    {ROW_ID}")], "reads program_id elsewhere"),
    "an id is changed": ([before(ROWS, "    pid_m = pid_m + 0\n")], "gives pid_m a value in more than one place"),
    "the one id is read before the other": (
        [before("    pid_n = tl", "    first = pid_m * BLOCK_M\n")],
        "line 22: pid_m is read before both places of the tile are known",
    ),
    "a called function asks for the id": (
        [(JIT, HELPER), before(ROWS, "    M += 0 * _first_row(BLOCK_M)\n")],
        "_first_row, which _scaled_mm_kernel calls, asks for the program's place",
    ),
    "a called function is not seen": (
        [(IMPORT, f"{IMPORT}from .places import offset\n"), before(ROWS, "    M += offset(M)\n")],
        "offset is not in this file and may know the program's place",
    ),
    "a function of another module is called": (
        [(IMPORT, f"{IMPORT}from . import places\n"), before(ROWS, "    M += places.offset(M)\n")],
        "places.offset is not in this file and may know the program's place",
    ),
    "an id is asked for by another name": (
        [
            (IMPORT, RENAMED),
            before(ROWS, "    M += 0 * where(0)\n"),
        ],
        "where is not in this file and may know the program's place",
    ),
    "a called function asks by another name": (
        [
            (IMPORT, RENAMED),
            (JIT, HELPER.replace("tl.program_id", "where")),
            before(ROWS, "    M += 0 * _first_row(BLOCK_M)\n"),
        ],
        "_first_row, which _scaled_mm_kernel calls, asks for the program's place",
    ),
    "programs loop over tiles": ([("range(0, tl.cdiv(K, BLOCK_K))", "range(0, tl.num_programs(0))")], "num_programs"),
    "assembly could ask": (
        [before(ROWS, '    M += tl.inline_asm_elementwise("mov.u32 $0, %ctaid.x;", "=r", [], tl.int32, True, 1)\n')],
        "uses inline_asm_elementwise",
    ),
    "programs wait for a lock": (
        [before(STORE, "    while tl.atomic_cas(scale_ptr, 0, 1) == 1:\n        pass\n")],
        "programs may wait for each other by atomic_cas",
    ),
    "programs count those before them": (
        [before(STORE, "    done = tl.atomic_add(scale_ptr, 1)\n")],
        "reads what atomic_add returns",
    ),
    "it groups already": ([(LAST, LAST.replace("):", "    GROUP_SIZE_M: tl.constexpr = 8,\n):"))], "groups its tiles"),
    "one operand depends on both": (
        [("b_ptr + inner[:, None]", "b_ptr + pid_m * K * N + inner[:, None]")],
        "no product whose operands depend on one of two program ids each",
    ),
    "there is no product": ([("tl.dot(a, b, acc)", "acc + tl.sum(a) * tl.sum(b)")], "no product"),
    "the parameter has no room": (
        [(LAST, LAST.replace("):", "    *,\n    LAST: tl.constexpr = 0,\n):"))],
        "no room for a last parameter GROUP_TILES",
    ),
    "triton.language has no name": (
        [(IMPORT, "import triton.language\n"), ("tl.", "triton.language.")],
        "does not import triton.language by a name",
    ),
}
#: The same of the kernel that divides one axis.
DIVIDED_REFUSED = {
    "the program is told too": ([before(STORE, "    tl.store(scale_ptr + pid, 1)\n")], "reads pid for more than"),
    "the program is changed first": ([before("    num_n =", "    pid = pid + 0\n")], "reads pid for more than"),
    "the grid is no product": ([(GRID, f"(min(132, {GRID[1:-2]}),)")], "not seen to be a multiple of num_n"),
    "the grid counts other tiles": ([(GRID, GRID.replace("cdiv(N", "cdiv(K"))], "not seen to be a multiple"),
    "the grid counts by another block": ([(GRID, GRID.replace('"BLOCK_N"', '"BLOCK_K"')), ("BLOCK_K=16", "BLOCK_K=32")],
                                         "not seen to be a multiple"),
    "the divisor changes": ([before("    pid_m =", "    num_n += 0\n")], "changes the number of tiles"),
}  # fmt: skip


@pytest.mark.parametrize(("edits", "reason"), TWO_AXES_REFUSED.values(), ids=TWO_AXES_REFUSED.keys())
def test_tiles_of_two_axes_stay(edits: list[tuple[str, str]], reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        group_tiles(replaced(TWO_AXES, *edits), KERNEL)


@pytest.mark.parametrize(("edits", "reason"), DIVIDED_REFUSED.values(), ids=DIVIDED_REFUSED.keys())
def test_tiles_of_a_divided_axis_stay(edits: list[tuple[str, str]], reason: str) -> None:
    source = replaced(DIVIDED, *edits)

    assert ungrouped(source) == []
    with pytest.raises(NotApplicable, match=reason):
        group_tiles(source, KERNEL)


def test_a_kernel_that_another_calls_stays() -> None:
    with pytest.raises(NotApplicable, match="_outer calls _scaled_mm_kernel"):
        group_tiles(TWO_AXES + OUTER, KERNEL)


def test_a_grid_that_no_launch_shows_is_no_multiple() -> None:
    with pytest.raises(NotApplicable, match="not seen to be a multiple"):
        group_tiles(DIVIDED.partition("def host(")[0], KERNEL)


def test_a_number_of_tiles_that_changes_between_grid_and_launch_is_no_factor() -> None:
    changed = replaced(BLOCK_POINTERS, before("    _gemm_kernel[grid]", "    n_tiles = n_tiles + 1\n"))

    with pytest.raises(NotApplicable, match="not seen to be a multiple of n_tiles"):
        group_tiles(changed, "_gemm_kernel")


def test_a_parameter_of_the_host_that_changes_between_grid_and_launch_is_no_factor() -> None:
    given = ("def host(a, b, scale):", "def host(a, b, scale, n_tiles):")
    launch = "    _gemm_kernel[grid]"
    asked = replaced(BLOCK_POINTERS, given, ("    n_tiles = (n + 16 - 1) // 16\n", ""))

    assert ungrouped(asked) == ["_gemm_kernel"]
    with pytest.raises(NotApplicable, match="not seen to be a multiple of n_tiles"):
        group_tiles(replaced(asked, before(launch, "    n_tiles = n_tiles + 1\n")), "_gemm_kernel")


def test_a_tensor_that_changes_between_grid_and_launch_gives_no_factor() -> None:
    by_shape = replaced(DIVIDED, ("(a, b, scale, c, M, N, K,", "(a, b, scale, c, M, b.shape[1], K,"),
                        (GRID, GRID.replace("cdiv(N", "cdiv(b.shape[1]")))  # fmt: skip
    launch = "    _scaled_mm_kernel[grid]"

    assert ungrouped(by_shape) == [KERNEL]
    assert ungrouped(replaced(by_shape, before(launch, "    b = b[:, ::2]\n"))) == []


TUTORIAL = replaced(
    DIVIDED,
    (
        "    pid_m = pid // num_n\n    pid_n = pid % num_n\n",
        "    first = (pid // (8 * num_n)) * 8\n    rows_here = min(tl.cdiv(M, BLOCK_M) - first, 8)\n"
        "    pid_m = first + (pid % (8 * num_n)) % rows_here\n    pid_n = (pid % (8 * num_n)) // rows_here\n",
    ),
)
#: Queries of a block and a head; keys of that head, whatever the block.
ATTENTION = replaced(TWO_AXES, ("a_ptrs = a_ptr +", "a_ptrs = a_ptr + pid_n * M * K +"))


@pytest.mark.parametrize("source", [TUTORIAL, ATTENTION], ids=["the tutorial's groups", "keys of a head"])
def test_kernels_that_group_already_or_share_nothing_are_left_alone(source: str) -> None:
    assert ungrouped(source) == []
    with pytest.raises(NotApplicable):
        group_tiles(source, KERNEL)


def test_sums_into_memory_may_change_their_order_as_they_do_anyway() -> None:
    split = TWO_AXES.replace(STORE, STORE.replace("tl.store", "tl.atomic_add"))

    assert ungrouped(split) == ungrouped(TWO_AXES)


@pytest.mark.parametrize(
    "grid",
    [
        "((triton.cdiv(M, 16)) * triton.cdiv(N, 16),)",
        "(triton.cdiv(N, 16) * triton.cdiv(M, 16), 1)",
        "(2 * ((N + 16 - 1) // 16) * 8,)",
    ],
)
def test_a_grid_is_a_multiple_however_its_product_is_written(grid: str) -> None:
    assert ungrouped(replaced(DIVIDED, (f"lambda META: {GRID}", grid))) != []
