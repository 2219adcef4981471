"""Several rows a program: the tile of a row kernel gets a first axis of ROWS rows, one where a row is wide."""

from __future__ import annotations

import ast

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.editing import Edits
from warpsmith.source.launches import read
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.row_launches import RowLaunch
from warpsmith.source.row_programs import N_ROWS, ROWS, ROWS_PER_PROGRAM, RowPrograms, row_programs
from warpsmith.source.syntax import Source

#: Elements of a tile for each warp. Chosen: 16 a thread, which keep loads in flight and leave registers.
WARP_TILE = 16 * 32
#: What Triton takes by default.
WARPS = 4
WHY = "# Short rows share a program: one alone keeps few bytes in flight."
ONE_A_PROGRAM = f"# With one row a program, as where a launch does not give {ROWS}, each has its row."


def tile_rows(source: str, opportunity: Opportunity) -> str:
    """One program a row as one for ROWS rows, a last constexpr parameter that is 1 by default.

    With one row a program no row is masked, whatever a launch elsewhere passes for the parameter that counts them here.
    Raises NotApplicable where the kernel is no row kernel any more, or not understood.
    """
    if opportunity.kind is not OpportunityKind.ROW_A_PROGRAM:
        raise NotApplicable(f"{opportunity.kind.value} is no row a program")
    reading = read(source)
    if opportunity.function not in reading.jits:
        raise NotApplicable(f"{opportunity.function} is no jit function of this source")
    found = row_programs(reading, reading.jits[opportunity.function])
    edits = Edits(source, fits=True, leads=True)
    _kernel(edits, reading.source, found)
    for launch in found.launches:
        _launch(edits, launch, found)
    return edits.apply()


def _kernel(edits: Edits, source: Source, found: RowPrograms) -> None:
    language = edits.text(found.kernel.program_ids[0].func).rpartition(".")[0]
    for call in found.kernel.program_ids:
        rows = f"{edits.text(call)} * {ROWS} + {language}.arange(0, {ROWS})[:, None]"
        whole = isinstance(source.parents[call], ast.Assign | ast.AnnAssign)
        edits.replace(call, rows if whole else f"({rows})")
    for call in found.kernel.ranges:
        edits.replace(call, f"{edits.text(call)}[None, :]")
    for call in found.kernel.reductions:
        given = [*call.args[1:], *(k.value for k in call.keywords)]
        for axis in given:
            edits.replace(axis, "1")
        for code in ([] if given else ["axis=1"]) + ["keep_dims=True"]:
            edits.add_argument(call, code)
    name = found.row.targets[0]
    assert isinstance(name, ast.Name)
    counted = f"({name.id} < {found.counted_by or N_ROWS}) | ({ROWS} == 1)"
    edits.add_after(found.row, f"{ONE_A_PROGRAM}\n{found.row_mask} = {counted}")
    for access, mask in found.kernel.accesses:
        if mask is None:
            edits.add_argument(access, f"mask={found.row_mask}")
        else:
            edits.replace(mask, f"{found.row_mask} & {_operand(edits, mask)}", bare=True)
    if found.counted_by is None:
        edits.add_parameter(found.jit.node, f"{N_ROWS}=0")
    edits.add_parameter(found.jit.node, f"{ROWS}: {language}.constexpr = 1")


def _launch(edits: Edits, at: RowLaunch, found: RowPrograms) -> None:
    rows = edits.text(at.rows)
    tile = str(WARPS * WARP_TILE)
    if isinstance(at.warps, ast.Constant) and isinstance(at.warps.value, int):
        tile = str(at.warps.value * WARP_TILE)
    elif at.warps is not None:
        tile = f"{WARP_TILE} * {_operand(edits, at.warps)}"
    edits.add_before(at.before, f"{WHY}\n{ROWS_PER_PROGRAM} = max(1, {tile} // {_operand(edits, at.block)})")
    edits.replace(at.rows, f"{found.triton}.cdiv({rows}, {ROWS_PER_PROGRAM})", bare=True)
    if found.counted_by is None:
        edits.add_argument(at.launch.call, f"{N_ROWS}={rows}")
    edits.add_argument(at.launch.call, f"{ROWS}={ROWS_PER_PROGRAM}")


def _operand(edits: Edits, node: ast.expr) -> str:
    """An expression as the operand of another one."""
    text = edits.text(node)
    atom = isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.Constant)
    return text if atom else f"({text})"
