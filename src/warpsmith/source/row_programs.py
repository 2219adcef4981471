"""Kernels with one program a row, and all that is to change where a program takes several rows instead.

A short row gives a program few bytes to wait for at a time. Found only where every statement of the kernel and every
launch of it is understood; why not is what NotApplicable says.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.imports import name_of_import, paths_by_name
from warpsmith.source.jit import Jit
from warpsmith.source.launches import Reading
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.row_launches import RowLaunch, is_free, row_launches, rows_parameter
from warpsmith.source.row_values import RowKernel
from warpsmith.source.row_walk import Walk
from warpsmith.source.syntax import Source, is_name

#: The parameter that says how many rows a program takes.
ROWS = "ROWS"
#: Added where no parameter counts the rows.
N_ROWS = "n_rows"
#: What the mask of the rows is called, the first that is free.
ROW_MASKS = ("row_mask", "in_rows")
#: The host's variable for it.
ROWS_PER_PROGRAM = "rows_per_program"


@dataclass(frozen=True)
class RowPrograms:
    """`counted_by` is the parameter that counts the rows, None where one is to be added."""

    jit: Jit
    kernel: RowKernel
    row: ast.Assign
    launches: tuple[RowLaunch, ...]
    row_mask: str
    counted_by: str | None
    triton: str


def row_programs(reading: Reading, jit: Jit) -> RowPrograms:
    """Raises NotApplicable where the jit function is no row kernel, or one that is not understood."""
    arguments = jit.node.args
    if arguments.vararg or arguments.kwonlyargs or arguments.kwarg or ROWS in jit.parameters:
        raise NotApplicable(f"line {jit.node.lineno}: {jit.name} has no room for a last parameter {ROWS}")
    kernel = Walk(jit, reading.jits, paths_by_name(reading.source.tree)).through()
    row = kernel.row
    if row is None or not kernel.masks_columns or not kernel.stores:
        raise NotApplicable(f"line {jit.node.lineno}: {jit.name} has not one program for each row of columns")
    _check_masks(reading.source, kernel)
    launches = row_launches(reading, jit, kernel.block)
    counted_by = rows_parameter(launches, jit)
    taken = {n.id for n in ast.walk(jit.node) if isinstance(n, ast.Name)} | set(jit.parameters)
    row_mask = next((name for name in ROW_MASKS if name not in taken), None)
    wanted = {ROWS} | ({N_ROWS} if counted_by is None else set())
    if row_mask is None or wanted & taken or not all(is_free(each.launch, ROWS_PER_PROGRAM) for each in launches):
        names = ", ".join((*sorted(wanted), *ROW_MASKS[-1:], ROWS_PER_PROGRAM))
        raise NotApplicable(f"line {jit.node.lineno}: one of {names} means something else already")
    if counted_by is not None and any(
        is_name(n, counted_by) and isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) for n in ast.walk(jit.node)
    ):
        raise NotApplicable(f"line {jit.node.lineno}: {jit.name} changes {counted_by}, the number of its rows")
    return RowPrograms(jit, kernel, row, launches, row_mask, counted_by, _triton(reading.source.tree))


def one_row_a_program(reading: Reading, jit: Jit) -> Iterator[Opportunity]:
    """One opportunity a kernel, at the line that says which row is the program's."""
    try:
        found = row_programs(reading, jit)
    except NotApplicable:
        return
    yield Opportunity(
        kind=OpportunityKind.ROW_A_PROGRAM,
        function=jit.name,
        line=found.row.lineno,
        what=f"each program of {jit.name} takes one row, in a block of {found.kernel.block}",
        why="a short row gives a program few bytes to wait for at a time, and a program for each; several rows in one "
        "tile are loaded together",
    )


def _check_masks(source: Source, kernel: RowKernel) -> None:
    """That nothing inside a mask is to change but the mask itself."""
    masks = [mask for _, mask in kernel.accesses if mask is not None]
    for call in (*kernel.program_ids, *kernel.ranges, *kernel.reductions):
        if any(parent in masks for parent in source.ancestors(call)) or call in masks:
            raise NotApplicable(f"line {call.lineno}: {ast.unparse(call)} stands inside a mask; give it a name first")


def _triton(tree: ast.Module) -> str:
    """The name by which the host code calls triton."""
    name = name_of_import(tree, "triton")
    if name is None:
        raise NotApplicable("the source does not import triton by a name")
    return name
