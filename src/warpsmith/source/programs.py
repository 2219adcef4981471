"""The number of programs that loop over the rows, where the host code says it as a number of its own.

Owns how a kernel shares its rows out (by the number of programs, or so many rows each) and which part of the grid
that number is. What is derived from the SM count is `sm_count`'s.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import KnobKind
from warpsmith.source.jit import LOADS, Jit, operation
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.places import reaching_assignment
from warpsmith.source.program_ids import axis_of, uncast
from warpsmith.source.sites import Site, given
from warpsmith.source.syntax import assignments, is_name, last_name, mentions, names_read, walk_scope

_NAME = "programs"
#: Chosen: no program's number is cast more often.
_MOST_CASTS = 8
#: Python's own, which read no memory.
_PLAIN = frozenset({"min", "max", "range", "int", "float", "len"})
#: Functions that give the size of a tensor.
_SIZES = frozenset({"size", "numel", "len", "stride", "dim", "nelement"})


@dataclass(frozen=True)
class _Sharing:
    """How programs share rows. `counted_by`: the parameter that the host passes the count, or what follows from it, by.

    `bounds` are the parameters that say how many rows there are, `rows` the names that hold a row's number.
    """

    axis: int
    counted_by: str | None
    is_the_count: bool
    bounds: frozenset[str]
    rows: frozenset[str]


def programs_site(reading: Reading, launch: Launch) -> Site | None:
    """The site of the number of programs, None where the grid does not say one that could be another."""
    if launch.jit is None or launch.has_star or launch.dictionaries:
        return None
    for sharing in _sharings(launch.jit):
        if _reads_by_program(launch.jit, sharing):
            continue
        part = _grid_part(reading, launch, sharing.axis)
        expression = _to_override(launch, part, sharing) if part is not None else None
        if expression is not None and _is_a_count(launch, expression, sharing):
            return given(reading.source, launch, _NAME, KnobKind.PROGRAMS, expression)
    return None


def _sharings(jit: Jit) -> Iterator[_Sharing]:
    """Every way in which a loop of the kernel goes over rows by program."""
    for node in walk_scope(jit.node):
        if isinstance(node, ast.For) and operation(node.iter) in ("range", "static_range"):
            assert isinstance(node.iter, ast.Call)
            arguments = node.iter.args
            rows = _names(node.target)
            if len(arguments) == 3:
                yield from _strided(jit, arguments, rows)
            if len(arguments) >= 2:
                yield from _in_runs(jit, arguments[0], arguments[1], rows)
        elif isinstance(node, ast.While):
            for inner in walk_scope(node):
                if isinstance(inner, ast.AugAssign) and isinstance(inner.op, ast.Add):
                    yield from _strided(jit, [inner.target, node.test, inner.value], _names(inner.target))


def _names(node: ast.expr) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def _strided(jit: Jit, arguments: Sequence[ast.expr], rows: frozenset[str]) -> Iterator[_Sharing]:
    """Rows from the program's number on, in steps of the number of programs: (start, stop, step)."""
    start, stop, step = arguments
    axis = _axis(jit, start, "program_id")
    if axis is None:
        return
    bounds = _parameters(jit, stop)
    if _axis(jit, step, "num_programs") == axis:
        yield _Sharing(axis, None, True, bounds, rows)
    elif isinstance(step, ast.Name) and step.id in jit.parameters:
        yield _Sharing(axis, step.id, True, bounds, rows)


def _in_runs(jit: Jit, start: ast.expr, stop: ast.expr, rows: frozenset[str]) -> Iterator[_Sharing]:
    """So many rows each, one after the other: `program * rows_per_program`."""
    for value in _values(jit, start):
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
            for program, each in ((value.left, value.right), (value.right, value.left)):
                axis = _axis(jit, program, "program_id")
                if axis is not None and isinstance(each, ast.Name) and each.id in jit.parameters:
                    held = rows | (_names(start) if isinstance(start, ast.Name) else frozenset())
                    yield _Sharing(axis, each.id, False, _parameters(jit, stop) - {each.id}, held)


def _reads_by_program(jit: Jit, sharing: _Sharing) -> bool:
    """Whether a program reads something by its number and not by the row: then there must be as many as there are.

    What it stores by its number, a partial sum, the host sizes by the same count.
    """
    own: set[str] = set()
    before = -1
    while before != (before := len(own)):
        for found in assignments(jit.node):
            if (
                found.value is not None
                and found.name not in sharing.rows
                and _is_by_program(jit, found.value, sharing, own)
            ):
                own.add(found.name)
    calls = [node for node in ast.walk(jit.node) if isinstance(node, ast.Call)]
    reads = [c for c in calls if operation(c) in LOADS or (isinstance(c.func, ast.Name) and c.func.id not in _PLAIN)]
    return any(_is_by_program(jit, part, sharing, own) for call in reads for part in (*call.args, *_named(call)))


def _named(call: ast.Call) -> list[ast.expr]:
    return [keyword.value for keyword in call.keywords]


def _is_by_program(jit: Jit, value: ast.expr, sharing: _Sharing, own: set[str]) -> bool:
    """Whether a value is computed from the program's number along the axis."""
    if names_read(value) & own:
        return True
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call) and operation(node) == "program_id"]
    return any(_axis(jit, call, "program_id") == sharing.axis for call in calls)


def _axis(jit: Jit, node: ast.expr, asked: str) -> int | None:
    """The axis where an expression is `tl.program_id(axis)`, directly, by a name or cast; None for anything else."""
    for value in _values(jit, node):
        call = value
        for _ in range(_MOST_CASTS):
            inner = uncast(call)
            if inner is call:
                break
            call = next(iter(_values(jit, inner)), inner)
        if isinstance(call, ast.Call) and operation(call) == asked:
            return axis_of(call)
    return None


def _values(jit: Jit, node: ast.expr, seen: frozenset[str] = frozenset()) -> list[ast.expr]:
    """What an expression is; a name, what it is first set to and not changed by steps."""
    if not isinstance(node, ast.Name):
        return [node]
    found = [f for f in assignments(jit.node) if f.name == node.id and not isinstance(f.node, ast.AugAssign)]
    values = [f.value for f in found if f.value is not None]
    if len(values) == 1 and isinstance(values[0], ast.Name) and values[0].id not in seen:
        return _values(jit, values[0], seen | {node.id, values[0].id})
    return values


def _parameters(jit: Jit, node: ast.AST) -> frozenset[str]:
    """The parameters that an expression is computed from."""
    found: set[str] = set()
    waiting = list(names_read(node))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        waiting += [
            n for f in assignments(jit.node) if f.name == name and f.value is not None for n in names_read(f.value)
        ]
    return frozenset(found & set(jit.parameters))


def _grid_part(reading: Reading, launch: Launch, axis: int) -> ast.expr | None:
    """The expression of one axis of the grid, through a name and a lambda."""
    grid: ast.expr | None = launch.grid
    if isinstance(grid, ast.Name):
        statement = reaching_assignment(reading.source, launch, grid.id)
        functions = [n for n in walk_scope(launch.scope) if isinstance(n, ast.FunctionDef) and is_name(grid, n.name)]
        if statement is None and functions and isinstance(last := functions[-1].body[-1], ast.Return):
            grid = last.value
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            grid = statement.value
    if isinstance(grid, ast.Lambda):
        grid = grid.body
    if isinstance(grid, ast.Tuple | ast.List):
        return grid.elts[axis] if axis < len(grid.elts) else None
    return grid if axis == 0 and isinstance(launch.grid, ast.Name | ast.Constant) and grid is not launch.grid else None


def _is_a_count(launch: Launch, part: ast.expr, sharing: _Sharing) -> bool:
    """Whether a part of the grid is a number of programs, and not the size of something."""
    if isinstance(part, ast.Constant):
        return type(part.value) is int and part.value > 1
    bounds = [argument for name in sharing.bounds if (argument := launch.argument(name)) is not None]
    if any(ast.dump(part) == ast.dump(bound) for bound in bounds):
        return False
    if isinstance(part, ast.Name):
        set_to = [f.value for f in assignments(launch.scope) if f.name == part.id]
        if not set_to:
            return True
        return all(value is not None and not _is_a_size(value) for value in set_to)
    return not _is_a_size(part)


def _is_a_size(value: ast.expr) -> bool:
    """Whether a value is read from a tensor: `x.shape`, `x.shape[0]`, `x.numel()`."""
    if isinstance(value, ast.Subscript):
        return _is_a_size(value.value)
    if isinstance(value, ast.Attribute):
        return value.attr == "shape"
    return isinstance(value, ast.Call) and (
        (isinstance(value.func, ast.Attribute) and value.func.attr in _SIZES) or last_name(value.func) in _SIZES
    )


def _to_override(launch: Launch, part: ast.expr, sharing: _Sharing) -> ast.expr | None:
    """The expression that both the grid and the kernel's count follow, None where there is none."""
    if sharing.counted_by is None:
        return part
    argument = launch.argument(sharing.counted_by)
    if argument is None:
        return None
    if sharing.is_the_count:
        shared = mentions(part, argument.id) if isinstance(argument, ast.Name) else ast.dump(part) == ast.dump(argument)
        return argument if shared else None
    return part if isinstance(part, ast.Name) and _computed_from(launch, argument, part.id) else None


def _computed_from(launch: Launch, argument: ast.expr, name: str) -> bool:
    """Whether an expression is computed from a variable, directly or through others."""
    waiting, seen = list(names_read(argument)), set[str]()
    while waiting:
        each = waiting.pop()
        if each == name:
            return True
        if each not in seen:
            seen.add(each)
            values = [f.value for f in assignments(launch.scope) if f.name == each and f.value is not None]
            waiting += [read for value in values for read in names_read(value)]
    return False
