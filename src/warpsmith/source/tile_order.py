"""How a kernel finds the tile that its program works on, where another order of the same tiles could take its place.

A kernel takes its tile from two axes of the grid, or from one that it divides. Any bijection of these tiles is right
only if nothing else in the kernel knows where a program stands, and no program waits for another. Must not know how
the order is written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.grid_products import is_factor_of_grid
from warpsmith.source.jit import DOTS, Jit, operation, operations
from warpsmith.source.launches import Reading
from warpsmith.source.program_ids import axis_of, uncast
from warpsmith.source.program_places import NoTileOrder, refuse_other_places
from warpsmith.source.syntax import Assignment, assignments, is_name, names_read, walk_scope

#: How kernels call the number of tiles in a group.
_GROUPS = re.compile(r"^_*(GROUP(_SIZE)?_?(M|N|ROWS|COLS|TILES)|SWIZZLE\w*|SUPER_?(GROUP|BLOCK)\w*)$", re.IGNORECASE)
#: The two operands of a product, by place and by name.
_OPERANDS = {"dot": ((0, "input"), (1, "other")), "dot_scaled": ((0, "lhs"), (3, "rhs"))}


@dataclass(frozen=True)
class TileOrder:
    """Tiles are started one after the other along `fast`, then the next of `slow`: the kernel's variables.

    `n_slow` and `n_fast` are their numbers, as code. A number of None is that of the programs along the axis, counted
    in `axis`. `last` is the statement after which both variables are known, `dot` the product whose operands they
    share.
    """

    slow: str
    fast: str
    slow_axis: int
    fast_axis: int
    n_fast: ast.expr | None
    last: ast.stmt
    dot: ast.Call


def tile_order(reading: Reading, jit: Jit) -> TileOrder:
    """Raises NoTileOrder, with the reason, where a kernel's tiles cannot be seen to be free to change places."""
    named = next((p for p in jit.parameters if _GROUPS.match(p)), None)
    if named is not None or any("swizzle" in (operation(n) or "") for n in walk_scope(jit.node)):
        raise NoTileOrder(f"{jit.name} groups its tiles already")
    ids = _program_ids(jit)
    found = _divided(jit, ids) or _two_axes(jit, ids)
    if found is None:
        raise NoTileOrder(f"{jit.name} has no product whose operands depend on one of two program ids each")
    _refuse_early_reads(jit, found)
    refuse_other_places(reading, jit)
    if found.n_fast is not None:
        _refuse_other_grids(reading, jit, found)
    return found


def ungrouped_tiles(reading: Reading, jit: Jit) -> Iterator[Opportunity]:
    """That tiles which share operands are started far from each other."""
    try:
        order = tile_order(reading, jit)
    except NoTileOrder:
        return
    yield Opportunity(
        kind=OpportunityKind.UNGROUPED_TILES,
        function=jit.name,
        line=order.last.lineno,
        what=f"programs walk all {order.fast} for one {order.slow}, and the product in line {order.dot.lineno} has one "
        "operand for each of them",
        why="programs that run together share one operand and read every part of the other; in groups they share both, "
        "so that L2 answers more of their loads",
    )


def _program_ids(jit: Jit) -> dict[int, Assignment]:
    """By axis: the one assignment of its program id, at the top of the kernel. Axes that are read otherwise raise."""
    calls = [n for n in walk_scope(jit.node) if isinstance(n, ast.Call) and operation(n) == "program_id"]
    given = {id(uncast(a.value)): a for a in assignments(jit.node) if a.value is not None}
    found: dict[int, Assignment] = {}
    for call in calls:
        axis, assigned = axis_of(call), given.get(id(call))
        if axis is None or axis in found or assigned is None or assigned.node not in jit.node.body:
            raise NoTileOrder(f"line {call.lineno}: {jit.name} reads program_id elsewhere than into one variable")
        found[axis] = assigned
    return found


def _two_axes(jit: Jit, ids: dict[int, Assignment]) -> TileOrder | None:
    """By neighbouring axes: the lower one is counted first."""
    for axis in (0, 1):
        if axis in ids and axis + 1 in ids:
            fast, slow = ids[axis], ids[axis + 1]
            if (dot := _shared_by(jit, slow, fast)) is not None:
                last = _last(jit, slow, fast)
                return TileOrder(slow.name, fast.name, axis + 1, axis, None, last, dot)
    return None


def _divided(jit: Jit, ids: dict[int, Assignment]) -> TileOrder | None:
    """By one axis that is divided by the tiles along one side, where it serves nothing else."""
    for axis, program in ids.items():
        pair = _quotient_and_rest(jit, program.name)
        if pair is None or (dot := _shared_by(jit, *pair[:2])) is None:
            continue
        slow, fast, count = pair
        used = [n for n in walk_scope(jit.node) if isinstance(n, ast.Name) and n.id == program.name]
        inside = [n for each in (slow, fast) if each.value is not None for n in ast.walk(each.value)]
        reads = [n for n in used if isinstance(n.ctx, ast.Load)]
        if any(n not in inside for n in reads) or len(used) != len(reads) + 1:
            raise NoTileOrder(f"{jit.name} reads {program.name} for more than its tile")
        return TileOrder(slow.name, fast.name, axis, axis, count, _last(jit, slow, fast), dot)
    return None


def _quotient_and_rest(jit: Jit, program: str) -> tuple[Assignment, Assignment, ast.expr] | None:
    """`a = program // n` and `b = program % n`, or `b = program - a * n`."""
    given = list(assignments(jit.node))
    quotients = [(a, count) for a in given if (count := _right_of(a.value, ast.FloorDiv, program)) is not None]
    if len(quotients) != 1:
        return None
    slow, count = quotients[0]
    told = ast.unparse(count)
    for rest in given:
        divisor, taken = _right_of(rest.value, ast.Mod, program), _right_of(rest.value, ast.Sub, program)
        if divisor is not None and ast.unparse(divisor) == told:
            return slow, rest, count
        product = isinstance(taken, ast.BinOp) and isinstance(taken.op, ast.Mult)
        if (
            isinstance(taken, ast.BinOp)
            and product
            and {*map(ast.unparse, (taken.left, taken.right))} == {slow.name, told}
        ):
            return slow, rest, count
    return None


def _right_of(value: ast.expr | None, operator: type[ast.operator], left: str) -> ast.expr | None:
    """`b` of `left operator b`."""
    is_it = isinstance(value, ast.BinOp) and isinstance(value.op, operator) and is_name(value.left, left)
    return value.right if is_it and isinstance(value, ast.BinOp) else None


def _last(jit: Jit, *given: Assignment) -> ast.stmt:
    """The later of the statements that give these variables, which nothing else does."""
    for each in given:
        if sum(a.name == each.name for a in assignments(jit.node)) > 1 or each.node not in jit.node.body:
            raise NoTileOrder(f"{jit.name} gives {each.name} a value in more than one place, or under a condition")
    return max((s for s in jit.node.body if any(s is each.node for each in given)), key=lambda s: s.lineno)


def _refuse_early_reads(jit: Jit, order: TileOrder) -> None:
    """Nothing may read either variable before both are known."""
    wanted = {order.slow, order.fast}
    for statement in jit.node.body[: jit.node.body.index(order.last)]:
        if found := sorted(names_read(statement) & wanted):
            raise NoTileOrder(f"line {statement.lineno}: {found[0]} is read before both places of the tile are known")
    counted = names_read(order.n_fast) if order.n_fast is not None else set()
    changing = {a.name for a in assignments(jit.node)} & counted
    if any(sum(a.name == name for a in assignments(jit.node)) > 1 for name in changing):
        raise NoTileOrder(f"{jit.name} changes the number of tiles that it divides by")


def _refuse_other_grids(reading: Reading, jit: Jit, order: TileOrder) -> None:
    """A remainder would leave a last, short row of tiles, so the grid must be seen to be a multiple."""
    launches = [launch for launch in reading.launches if launch.jit_name == jit.name]
    assert order.n_fast is not None
    if not launches or not all(is_factor_of_grid(launch, order.fast_axis, order.n_fast) for launch in launches):
        told = ast.unparse(order.n_fast)
        raise NoTileOrder(f"the grid of {jit.name} is not seen to be a multiple of {told}, by which it divides")


def _shared_by(jit: Jit, slow: Assignment, fast: Assignment) -> ast.Call | None:
    """A product of which one operand depends on the one variable alone, and the other on the other alone."""
    depends = _dependences(jit, {slow.name, fast.name}, {id(slow.node), id(fast.node)})
    for dot in operations(jit.node, DOTS):
        named = {k.arg: k.value for k in dot.keywords}
        sides: list[frozenset[str]] = []
        for place, name in _OPERANDS[operation(dot) or ""]:
            operand = dot.args[place] if len(dot.args) > place else named.get(name)
            read = names_read(operand) if operand is not None else set()
            sides.append(frozenset[str]().union(*(depends.get(each, frozenset()) for each in read)))
        if sorted(map(sorted, sides)) == sorted([[slow.name], [fast.name]]):
            return dot
    return None


def _dependences(jit: Jit, roots: set[str], given: set[int]) -> dict[str, frozenset[str]]:
    """By name: which of the roots its value depends on, through loads too. `given` are the roots' own statements."""
    flows: list[tuple[str, set[str]]] = []
    for found in assignments(jit.node):
        if id(found.node) in given and found.name in roots:
            continue
        value = found.node.iter if isinstance(found.node, ast.For) else found.value
        if value is not None:
            flows.append((found.name, names_read(value)))
    depends = {root: frozenset({root}) for root in roots}
    before: dict[str, frozenset[str]] | None = None
    while before != depends:
        before = dict(depends)
        for name, read in flows:
            sources = (depends.get(each, frozenset()) for each in (*read, name))
            depends[name] = frozenset[str]().union(*sources)
    return depends
