"""Where in host code an override takes effect: after an assignment, at a function's entry, or in place.

A value that the grid, a buffer or another argument derives from must be overridden before any of them is
computed, so the place is the assignment that reaches the launch and not the launch. Must not know the values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from warpsmith.source.branches import exclusive
from warpsmith.source.launches import Launch
from warpsmith.source.syntax import (
    FunctionNode,
    Scope,
    Source,
    assignments,
    assigns,
    names_read,
    parameters_of,
    walk_scope,
)


class Place(Enum):
    AFTER = "after a statement"
    ENTRY = "at a function's entry"
    IN_PLACE = "where it is read"
    KEYWORD = "as a further keyword of the launch"
    CONFIGS = "in the configs of the autotune decorator"
    HEURISTIC = "in what a heuristics decorator computes"


@dataclass(frozen=True)
class Spot:
    """Where to override. `statement` is what to insert after (for ENTRY the function), `reads` what to replace.

    `is_copied`: the target is an entry of a dictionary that others may hold, so a copy of it is changed.
    """

    place: Place
    line: int
    target: str | None = None
    statement: ast.stmt | None = None
    reads: tuple[ast.expr, ...] = ()
    refused: str | None = None
    is_copied: bool = False


def spot_of_name(source: Source, launch: Launch, name: str, *, sizes_things: bool) -> Spot:
    """Where to override the variable `name` so that `launch` and all that derives from it see the override.

    `sizes_things`: a grid, a buffer or an argument may derive from it (a block, a count), so no read may precede.
    """
    scope = launch.scope
    statement = reaching_assignment(source, launch, name)
    if statement is not None:
        refused = _not_after(source, name, statement) if sizes_things else None
        return Spot(Place.AFTER, statement.lineno, name, statement, refused=refused or _in_loop(source, launch, name))
    if name in parameters_of(scope):
        assert isinstance(scope, FunctionNode)
        return Spot(Place.ENTRY, scope.lineno, name, scope, refused=_in_loop(source, launch, name))
    refused = _in_loop(source, launch, name)
    if refused is None and assigns(scope, name):
        refused = f"{name} is assigned where it may not reach the launch"
    reads = tuple(
        node
        for node in _host_nodes(scope)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    )
    return Spot(Place.IN_PLACE, launch.line, reads=reads, refused=refused)


def spot_of_expression(launch: Launch, expression: ast.expr, *, sizes_things: bool) -> Spot:
    """Where to override an expression that stands in the launch: there, and where the same is read again."""
    if not sizes_things:
        return Spot(Place.IN_PLACE, launch.line, reads=(expression,))
    same = ast.dump(expression)
    reads = tuple(n for n in _host_nodes(launch.scope) if isinstance(n, ast.expr) and ast.dump(n) == same)
    return Spot(Place.IN_PLACE, launch.line, reads=reads)


def spot_of_literal(source: Source, launch: Launch, literal: ast.Constant, *, sizes_things: bool) -> Spot:
    """A literal in the launch, and its repetitions in the grid. Elsewhere in the function the same number refuses."""
    if not sizes_things:
        return Spot(Place.IN_PLACE, launch.line, reads=(literal,))
    same = [n for n in _host_nodes(launch.scope) if isinstance(n, ast.Constant) and n.value == literal.value]
    same = [n for n in same if type(n.value) is int]
    in_grid = set(grid_nodes(launch))
    strangers = [n for n in same if n is not literal and n not in in_grid and not exclusive(source, n, launch.call)]
    refused = None
    if strangers:
        refused = f"the number {ast.unparse(literal)} also stands in line {strangers[0].lineno}, and may depend on it"
    reads = tuple(n for n in same if n is literal or n in in_grid)
    return Spot(Place.IN_PLACE, launch.line, reads=reads, refused=refused)


def reaching_assignment(source: Source, launch: Launch, name: str) -> ast.stmt | None:
    """The last statement before the launch, in a block that the launch is in, that assigns `name` in or under it."""
    for block, index in source.blocks_above(launch.call, launch.scope):
        for statement in reversed(block[:index]):
            if assigns(statement, name):
                return statement
    return None


def _host_nodes(scope: Scope) -> Iterator[ast.AST]:
    """Nodes of the host function and its grid functions; kernels and classes inside it are left out."""
    waiting: list[ast.AST] = list(scope.body)
    while waiting:
        node = waiting.pop(0)
        inner_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.ClassDef) or (inner_function and isinstance(scope, ast.Module)):
            continue
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            continue
        yield node
        waiting[:0] = list(ast.iter_child_nodes(node))


def _not_after(source: Source, name: str, statement: ast.stmt) -> str | None:
    """Why an override after `statement` would come too late: something inside it reads the value already."""
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return None
    setting = {id(inner) for found in assignments(statement) if found.name == name for inner in ast.walk(found.node)}
    for node in walk_scope(statement):
        if (
            isinstance(node, ast.Name)
            and node.id == name
            and isinstance(node.ctx, ast.Load)
            and id(node) not in setting
        ):
            parent = source.parents[node]
            if not _is_test(source, node):
                return f"{name} is read in line {parent.__dict__.get('lineno', node.lineno)}, inside what sets it"
    return None


def _is_test(source: Source, node: ast.AST) -> bool:
    child = node
    for parent in source.ancestors(node):
        if isinstance(parent, ast.If) and parent.test is child:
            return True
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False


def _in_loop(source: Source, launch: Launch, name: str) -> str | None:
    """Why a loop around the launch may bring back a value from after it, if one does."""
    for parent in source.ancestors(launch.call):
        if parent is launch.scope:
            return None
        if isinstance(parent, ast.For | ast.While):
            if isinstance(parent, ast.For) and name in {
                n.id for n in ast.walk(parent.target) if isinstance(n, ast.Name)
            }:
                return f"{name} is a loop's variable"
            after = [s for s in _after(parent, launch.line) if assigns(s, name)]
            if after:
                return f"{name} is changed in line {after[0].lineno}, after the launch in its loop"
    return None


def _after(loop: ast.For | ast.While, line: int) -> Iterator[ast.stmt]:
    return (statement for statement in loop.body if statement.lineno > line)


def grid_nodes(launch: Launch) -> Iterator[ast.AST]:
    """The grid's nodes, through the names it is made of."""
    waiting: list[ast.AST] = [launch.grid]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        yield from ast.walk(node)
        for name in names_read(node) - seen:
            seen.add(name)
            waiting += [f.value for f in assignments(launch.scope) if f.name == name and f.value is not None]
            waiting += [n for n in launch.scope.body if isinstance(n, FunctionNode) and n.name == name]


def grid_names(launch: Launch) -> frozenset[str]:
    """Every name that the grid is computed from, directly or through other names of the function."""
    return frozenset(n.id for n in grid_nodes(launch) if isinstance(n, ast.Name))
