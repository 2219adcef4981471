"""How the host code launches a row kernel: which expression counts its rows, and where several a program are said.

Must not know what the kernel does with a row.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.source.jit import Jit
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.places import reaching_assignment
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.syntax import assignments, is_name, names_read, parameters_of, walk_scope

#: Calls that an expression may make to be written a second time: they only ask.
_ASKING = frozenset(
    {"size", "numel", "stride", "dim", "len", "int", "max", "min", "prod", "cdiv", "next_power_of_2", "element_size"}
)


@dataclass(frozen=True)
class RowLaunch:
    """`rows` counts the rows, in the grid; `meta` is the grid function's own parameter, where there is one.

    `before` is the statement that the number of rows a program is to be set before. `warps` is None where the launch
    leaves them to Triton, or what it says cannot be said again there.
    """

    launch: Launch
    rows: ast.expr
    block: ast.expr
    warps: ast.expr | None
    meta: str | None
    before: ast.stmt


def row_launches(reading: Reading, jit: Jit, block: str) -> tuple[RowLaunch, ...]:
    """Every launch of the kernel. Raises NotApplicable where one of them, or another use of it, is not understood."""
    launches = [launch for launch in reading.launches if launch.jit_name == jit.name]
    if not launches:
        raise NotApplicable(f"{jit.name} is not launched in this source")
    if jit.heuristics or jit.unread_heuristics or jit.other_decorators:
        raise NotApplicable(f"line {jit.node.lineno}: {jit.name} has decorators that may count its rows too")
    funcs = {id(node) for launch in launches for node in ast.walk(launch.call.func)}
    for node in ast.walk(reading.source.tree):
        if is_name(node, jit.name) and id(node) not in funcs:
            assert isinstance(node, ast.Name)
            raise NotApplicable(f"line {node.lineno}: {jit.name} is used there other than in a launch")
    return tuple(_row_launch(reading, launch, block) for launch in launches)


def rows_parameter(launches: Sequence[RowLaunch], jit: Jit) -> str | None:
    """The kernel's own parameter that every launch passes its number of rows for."""
    for parameter in jit.parameters:
        passed = [found.launch.argument(parameter) for found in launches]
        counts = [each is not None and _same(each, found.rows) for each, found in zip(passed, launches, strict=True)]
        if parameter not in jit.constexprs and all(counts):
            return parameter
    return None


def is_free(launch: Launch, name: str) -> bool:
    """Whether a name means nothing yet where the kernel is launched."""
    return not any(is_name(node, name) for node in walk_scope(launch.scope)) and name not in parameters_of(launch.scope)


def _row_launch(reading: Reading, launch: Launch, block: str) -> RowLaunch:
    if launch.chosen_as is not None or launch.has_star:
        raise NotApplicable(f"line {launch.line}: which arguments {launch.jit_name} is launched with is not seen there")
    width = launch.argument(block)
    if width is None:
        raise NotApplicable(f"line {launch.line}: the launch does not give {block} itself")
    statement: ast.stmt = reading.source.statement_of(launch.call)
    grid, before = launch.grid, statement
    if isinstance(grid, ast.Name):
        before = assignment = _only_assignment(reading, launch, grid)
        grid = assignment.value
    meta = None
    if isinstance(grid, ast.Lambda) and len(grid.args.args) == 1:
        meta, grid, before = grid.args.args[0].arg, grid.body, statement
    if not (isinstance(grid, ast.Tuple | ast.List) and len(grid.elts) == 1) or isinstance(grid.elts[0], ast.Starred):
        raise NotApplicable(f"line {launch.line}: the grid of {launch.jit_name} is not seen to count its rows alone")
    rows, warps = grid.elts[0], launch.argument("num_warps")
    for expression in (rows, width):
        if (why := _why_not_again(launch, expression, before)) is not None:
            raise NotApplicable(why)
    if meta is not None and meta in names_read(rows):
        raise NotApplicable(f"line {rows.lineno}: the grid follows the launch's own arguments")
    if warps is not None and _why_not_again(launch, warps, before) is not None:
        warps = None
    return RowLaunch(launch, rows, width, warps, meta, before)


def _only_assignment(reading: Reading, launch: Launch, grid: ast.Name) -> ast.Assign:
    """Where the grid is made, for this launch alone."""
    statement = reaching_assignment(reading.source, launch, grid.id)
    uses = [node for node in ast.walk(launch.scope) if is_name(node, grid.id)]
    if not isinstance(statement, ast.Assign) or len(uses) != 2 or not is_name(statement.targets[0], grid.id):
        raise NotApplicable(f"line {launch.line}: {grid.id} is not the grid of this launch alone")
    return statement


def _why_not_again(launch: Launch, expression: ast.expr, before: ast.stmt) -> str | None:
    """Why an expression cannot be written again before that statement, None where it can."""
    nodes = list(ast.walk(expression))
    if any(isinstance(node, ast.Call) and _last(node) not in _ASKING for node in nodes) or any(
        isinstance(node, ast.Lambda | ast.NamedExpr | ast.Await) for node in nodes
    ):
        return f"line {expression.lineno}: {ast.unparse(expression)} may do more than it says"
    for each in assignments(launch.scope):
        late = getattr(each.node, "lineno", 0) >= before.lineno
        if late and each.node is not before and each.name in names_read(expression):
            return f"line {before.lineno}: {each.name} is set again after it"
    return None


def _last(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) == ast.dump(other)
