"""Blocks that hold a row and are wide whatever the row's width: most of such a block is idle where rows are short.

A block that follows the row, as next_power_of_2 does, and a small floor under it are no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from warpsmith.contracts.audit import KnobKind, Opportunity, OpportunityKind
from warpsmith.source.jit import Jit, operation
from warpsmith.source.knobs import Site
from warpsmith.source.launches import Reading
from warpsmith.source.places import reaching_assignment
from warpsmith.source.syntax import FunctionNode, assignments, is_name, last_name, mentions, parameters_of, walk_scope

#: One element for each thread of the four warps that Triton takes by default: a narrower block idles no thread.
WIDE = 4 * 32


def short_rows(reading: Reading, sites: Sequence[Site]) -> Iterator[Opportunity]:
    """One opportunity a block, at the line that sets it."""
    seen: set[str] = set()
    for site in sites:
        if site.id in seen or not _holds_rows(reading, site):
            continue
        value = site.launch.argument(site.name)
        found = _least(reading, site, value) if value is not None else None
        if found is not None and found[0] > WIDE:
            seen.add(site.id)
            least, how = found
            yield Opportunity(
                kind=OpportunityKind.SHORT_ROWS,
                function=site.launch.host_function,
                line=site.line,
                what=f"{site.name} of {site.launch.jit_name} {how} {least}, however short a row is",
                why="a program takes one row a block, so where rows are much shorter most of its threads load and "
                "compute nothing; a block that follows the row, or several rows a block, would use them",
            )


def _holds_rows(reading: Reading, site: Site) -> bool:
    """Whether each program lays the block over a row: once, or again and again along it."""
    jit = site.launch.jit
    if jit is None:
        return False
    if site.kind is KnobKind.BLOCK_COVERING:
        return _is_masked_range(jit, site.name)
    return site.kind is KnobKind.BLOCK_TILING and _walks_along_a_row(reading, jit, site.name)


def _is_masked_range(jit: Jit, name: str) -> bool:
    """Whether the kernel compares a range of the block with a width: the row may be shorter."""
    ranges = {
        found.name
        for found in assignments(jit.node)
        if found.value is not None and any(_is_range(node, name) for node in ast.walk(found.value))
    }
    return any(
        isinstance(node, ast.Compare)
        and any(_is_range(n, name) or (isinstance(n, ast.Name) and n.id in ranges) for n in ast.walk(node))
        for node in walk_scope(jit.node)
    )


def _is_range(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and operation(node) == "arange" and any(mentions(a, name) for a in node.args)


def _walks_along_a_row(reading: Reading, jit: Jit, name: str) -> bool:
    """Whether a loop from 0 steps by the block, over elements that lie side by side in a row of the program's own."""
    if not any(_steps_by(node, name) for node in walk_scope(jit.node)):
        return False
    for access in reading.addresses(jit).accesses():
        terms = reading.terms(jit).of(access.address)
        vectors = [term for term in terms if term.vectors]
        own_row = any(term.factors & set(jit.parameters) and term.program and not term.vectors for term in terms)
        if own_row and vectors and not any(term.factors for term in vectors) and all(term.known for term in vectors):
            return any(name in vector for term in vectors for vector in term.vectors)
    return False


def _steps_by(node: ast.AST, name: str) -> bool:
    """`for start in range(0, n, BLOCK)`."""
    if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call) or len(node.iter.args) != 3:
        return False
    start, _, step = node.iter.args
    return operation(node.iter) in ("range", "static_range") and isinstance(start, ast.Constant) and is_name(step, name)


def _least(reading: Reading, site: Site, value: ast.expr) -> tuple[int, str] | None:
    """The least that a block can be and how it is that, None where it follows something."""
    if isinstance(value, ast.Name):
        statement = reaching_assignment(reading.source, site.launch, value.id)
        if isinstance(statement, ast.Assign):
            return _from_assignment(reading, statement, value.id)
        own = statement is not None or value.id in parameters_of(site.launch.scope)
        return None if own else _constant(reading, value.id)
    return _of_expression(reading, value)


def _from_assignment(reading: Reading, statement: ast.Assign, name: str) -> tuple[int, str] | None:
    values = [found.value for found in assignments(statement) if found.name == name]
    if len(values) != 1 or values[0] is None:
        return None
    value, target = values[0], statement.targets[0]
    if isinstance(value, ast.Call) and (helper := _helper(reading, value)) is not None:
        index = None
        if isinstance(target, ast.Tuple):
            index = next(i for i, element in enumerate(target.elts) if is_name(element, name))
        return _returned(reading, helper, index)
    return _of_expression(reading, value)


def _helper(reading: Reading, call: ast.Call) -> ast.FunctionDef | None:
    if not isinstance(call.func, ast.Name):
        return None
    functions = (n for n in reading.source.tree.body if isinstance(n, FunctionNode) and n.name == last_name(call.func))
    found = next(functions, None)
    return found if isinstance(found, ast.FunctionDef) else None


def _returned(reading: Reading, helper: ast.FunctionDef, index: int | None) -> tuple[int, str] | None:
    """The least over everything that a helper returns; None where one of its returns follows something."""
    found: list[tuple[int, str]] = []
    for node in walk_scope(helper):
        if not isinstance(node, ast.Return) or node.value is None:
            continue
        value = node.value
        if index is not None:
            if not isinstance(value, ast.Tuple) or index >= len(value.elts):
                return None
            value = value.elts[index]
        if isinstance(value, ast.Name):
            name = value.id
            values = [each.value for each in assignments(helper) if each.name == name]
            value = values[0] if len(values) == 1 and values[0] is not None else value
        least = _of_expression(reading, value)
        if least is None:
            return None
        found.append(least)
    return min(found, default=None)


def _of_expression(reading: Reading, value: ast.expr) -> tuple[int, str] | None:
    """`1024`; `max(1024, ...)`; `next_power_of_2(max(n, 1024))`; a constant of the module."""
    if isinstance(value, ast.Constant):
        return (value.value, "is always") if type(value.value) is int else None
    if isinstance(value, ast.Name):
        return _constant(reading, value.id)
    if isinstance(value, ast.Call) and last_name(value.func) == "max":
        floors = [found[0] for argument in value.args if (found := _of_expression(reading, argument)) is not None]
        return (max(floors), "is never less than") if floors else None
    if isinstance(value, ast.Call) and last_name(value.func) in ("next_power_of_2", "int") and value.args:
        return _of_expression(reading, value.args[0])
    return None


def _constant(reading: Reading, name: str) -> tuple[int, str] | None:
    """A number that the module gives a name, once."""
    values = reading.source.module_values.get(name, [])
    if len(values) == 1 and isinstance(values[0], ast.Constant) and type(values[0].value) is int:
        return values[0].value, "is always"
    return None
