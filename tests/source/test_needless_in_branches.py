"""A gradient that is zeroed in one branch and aliased in the other, and kernels of which only one is launched."""

from __future__ import annotations

import pytest

from warpsmith.contracts.audit import Opportunity, OpportunityKind, PatternKind
from warpsmith.source.rewrites import allocate_empty
from warpsmith.source.scan import scan

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _narrow_kernel(dy_ptr, dx_ptr, keep_ptr, row_stride, n_cols, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    dx_row = dx_ptr + row * row_stride
    dy = tl.load(dy_ptr + row * row_stride + cols, mask=cols < n_cols)
    if SAVE:
        tl.store(dx_row + cols, 2 * dy, mask=cols < n_cols)


@triton.jit
def _wide_kernel(dy_ptr, dx_ptr, keep_ptr, row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        dy = tl.load(dy_ptr + row * row_stride + cols, mask=cols < n_cols)
        tl.store(dx_ptr + row * row_stride + cols, 2 * dy, mask=cols < n_cols)


def backward(dy, keep, in_place):
    n_rows, n_cols = dy.shape
    if in_place:
        dx = dy
    else:
        dx = torch.zeros_like(dy)
    if n_cols <= 1024:
        _narrow_kernel[(n_rows,)](dy, dx, keep, dy.stride(0), n_cols, SAVE=True, BLOCK=1024)
    else:
        _wide_kernel[(n_rows,)](dy, dx, keep, dy.stride(0), n_cols, BLOCK=1024)
    return dx.view(dy.shape)
"""


def needless(source: str) -> list[Opportunity]:
    return [o for o in scan(source).opportunities if o.kind is OpportunityKind.NEEDLESS_INITIALISATION]


def test_zeroing_in_one_branch_is_found_where_one_of_two_kernels_overwrites_the_tensor() -> None:
    (found,) = needless(SOURCE)

    assert (found.function, found.line) == ("backward", 30)
    assert found.what == "dx is zeroed in line 30 and _narrow_kernel or _wide_kernel only stores to it (lines 13, 22)"


def test_the_branches_may_stand_the_other_way_round() -> None:
    old = "    if in_place:\n        dx = dy\n    else:\n        dx = torch.zeros_like(dy)\n"
    new = "    if not in_place:\n        dx = torch.zeros_like(dy)\n    else:\n        dx = dy\n"
    assert old in SOURCE

    assert [o.line for o in needless(SOURCE.replace(old, new))] == [28]


def test_zeroing_is_found_in_a_conditional_expression() -> None:
    old = "    if in_place:\n        dx = dy\n    else:\n        dx = torch.zeros_like(dy)\n"
    new = "    dx = dy if in_place else dy.new_zeros(dy.shape)\n"
    source = SOURCE.replace(old, new)

    (found,) = needless(source)

    assert "dx = dy if in_place else dy.new_empty(dy.shape)" in allocate_empty(source, found)


def test_the_rewrite_allocates_empty_in_the_branch_and_leaves_the_alias() -> None:
    (found,) = needless(SOURCE)

    changed = allocate_empty(SOURCE, found)

    assert "        dx = dy\n" in changed
    assert "        dx = torch.empty_like(dy)\n" in changed
    assert needless(changed) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    else:\n        _wide_kernel[", "    elif n_cols < 4096:\n        _wide_kernel["),
        ("tl.store(dx_ptr + row * row_stride + cols, 2 * dy", "tl.atomic_add(dx_ptr + row * row_stride + cols, 2 * dy"),
        ("    row = tl.program_id(0).to(tl.int64)\n    for", "    row = tl.load(keep_ptr + tl.program_id(0))\n    for"),
        ("    for start", "    if tl.load(keep_ptr + row) == 0:\n        return\n    for start"),
        ("    for start in range(0, n_cols", "    for start in range(0, tl.load(keep_ptr + row)"),
        ("2 * dy, mask=cols < n_cols)\n\n\n@", "2 * dy, mask=cols < tl.load(keep_ptr))\n\n\n@"),
        ("    if SAVE:", "    if row == 0:"),
        ("dx_row + cols, 2", "dx_row + cols * row_stride, 2"),
        ("    if n_cols <= 1024:\n", "    keep.add_(dx)\n    if n_cols <= 1024:\n"),
    ],
    ids=[
        "no kernel may run",
        "one adds to it",
        "rows are scattered",
        "some rows are left out by their data",
        "rows end where their data say",
        "masked by data",
        "one program alone stores",
        "elements lie apart",
        "it is read before",
    ],
)
def test_zeroing_that_may_show_is_left_alone(old: str, new: str) -> None:
    assert old in SOURCE

    assert needless(SOURCE.replace(old, new)) == []


def test_a_program_beyond_the_last_row_may_leave_early() -> None:
    guarded = SOURCE.replace("    for start", "    if row >= n_cols:\n        return\n    for start")

    assert len(needless(guarded)) == 1


def test_the_alias_is_told_as_in_place() -> None:
    (found,) = [p for p in scan(SOURCE).patterns if p.kind is PatternKind.IN_PLACE and p.function == "backward"]

    assert found.lines == (28,)
    assert found.what == (
        "dx may be dy, which _narrow_kernel then overwrites; dx may be dy, which _wide_kernel then overwrites"
    )
