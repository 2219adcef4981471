"""The axis of a program id, and the casts around it, are read the same for every rewrite."""

from __future__ import annotations

import ast

import pytest
from source.row_kernels import NAMED_POINTERS
from source.tiled_kernels import TWO_AXES

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.source.program_ids import axis_of, uncast
from warpsmith.source.scan import scan


def expression(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


@pytest.mark.parametrize(
    ("call", "axis"),
    [
        ("tl.program_id(1)", 1),
        ("tl.num_programs(axis=2)", 2),
        ("tl.program_id(AXIS)", None),
        ("tl.program_id()", None),
        ("tl.program_id(True)", None),
        ("tl.program_id(0, 1)", None),
        ("tl.program_id(dim=0)", None),
        ("tl.program_id(*axes)", None),
        ("tl.program_id(**axes)", None),
    ],
)
def test_an_axis_is_what_one_constant_says(call: str, axis: int | None) -> None:
    node = expression(call)
    assert isinstance(node, ast.Call)
    assert axis_of(node) == axis


@pytest.mark.parametrize(
    ("code", "inside"),
    [
        ("pid.to(tl.int64)", "pid"),
        ("tl.cast(pid, tl.int64)", "pid"),
        ("cast(pid, tl.int64)", "pid"),
        ("pid + 1", "pid + 1"),
        ("tl.cast(input=pid, dtype=tl.int64)", "tl.cast(input=pid, dtype=tl.int64)"),
    ],
)
def test_a_cast_is_seen_through(code: str, inside: str) -> None:
    assert ast.unparse(uncast(expression(code))) == inside


@pytest.mark.parametrize("wide", ["tl.program_id(axis=0).to(tl.int64)", "tl.cast(tl.program_id(axis=0), tl.int64)"])
@pytest.mark.parametrize(
    ("source", "kind"),
    [(TWO_AXES, OpportunityKind.UNGROUPED_TILES), (NAMED_POINTERS, OpportunityKind.ROW_A_PROGRAM)],
)
def test_ids_of_a_wide_type_are_found_by_whichever_cast(source: str, kind: OpportunityKind, wide: str) -> None:
    assert source.count("tl.program_id(axis=0)\n") == 1
    found = scan(source.replace("tl.program_id(axis=0)\n", f"{wide}\n"))
    assert [o.kind for o in found.opportunities].count(kind) == 1
