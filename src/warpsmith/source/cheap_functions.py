"""Arithmetic that a kernel could do in fewer instructions: reciprocal roots, exponentials, divisions in a loop.

Only where the types are certain: Triton takes roots and exponentials of float32 and float64 alone, and a product has
another type than a quotient where the operand is of 16 bits. Seen in what Triton 3.7.1 compiles for sm_90.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.jit import Jit
from warpsmith.source.launches import Reading
from warpsmith.source.loops import Loop, loops_around
from warpsmith.source.syntax import assigns, dotted, lines_told, walk_scope
from warpsmith.source.values import Values, language_call, reads


class Form(str, Enum):
    """By the words with which an opportunity begins."""

    ROOT = "a square root is taken only to divide by it"
    EXPONENTIAL = "exp is taken where exp2 would do"
    DIVISION = "each pass of a loop divides by what does not change in it"


_WHY = {
    Form.ROOT: "rsqrt is one instruction, a root and a division by it are about ten",
    Form.EXPONENTIAL: "exp multiplies by log2(e), takes exp2 and mends subnormal results: exp2 of a scaled argument "
    "leaves the last out, and folds into the scale that is there",
    Form.DIVISION: "a division is about eight instructions for each element, a product with the reciprocal is one",
}


@dataclass(frozen=True)
class Root:
    """A call of sqrt, and the divisions by it. `statement` gives it the name that they use, None where it is direct."""

    call: ast.Call
    divisions: tuple[ast.BinOp, ...]
    statement: ast.Assign | None = None


@dataclass(frozen=True)
class Division:
    """A division by a name in a loop; `before` is the outermost loop in which the name stays as it is."""

    node: ast.BinOp
    divisor: str
    before: Loop


def launched_kernels(reading: Reading) -> list[Jit]:
    """The jit functions whose launches are seen: their parameters are pointers and numbers."""
    launched = {launch.jit_name for launch in reading.launches}
    return [jit for jit in reading.jits.values() if jit.name in launched and not _computes_doubles(jit)]


def cheap_functions(reading: Reading) -> Iterator[Opportunity]:
    """One opportunity for each form in each launched kernel."""
    for jit in launched_kernels(reading):
        values = Values(reading, jit)
        nodes: dict[Form, list[ast.expr]] = {
            Form.ROOT: [root.call for root in roots(reading, jit, values)],
            Form.EXPONENTIAL: [*exponentials(jit)],
            Form.DIVISION: [division.node for division in divisions(reading, jit, values)],
        }
        for form, found in nodes.items():
            if found:
                lines = sorted(node.lineno for node in found)
                yield Opportunity(
                    kind=OpportunityKind.COSTLY_FUNCTION,
                    function=jit.name,
                    line=lines[0],
                    what=f"{form.value} ({lines_told(lines)})",
                    why=_WHY[form],
                )


def roots(reading: Reading, jit: Jit, values: Values) -> list[Root]:
    """Square roots of which nothing but a quotient is made, none of them inside another."""
    found: list[Root] = []
    for node in walk_scope(jit.node):
        if not isinstance(node, ast.Call) or not language_call(node, "sqrt"):
            continue
        parent = reading.source.parents[node]
        if _divides(parent, node, values):
            assert isinstance(parent, ast.BinOp)
            found.append(Root(node, (parent,)))
        elif isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
            by = _divided_by(reading, jit, values, parent.targets[0].id)
            if by:
                found.append(Root(node, by, parent))
    return found


def _divided_by(reading: Reading, jit: Jit, values: Values, name: str) -> tuple[ast.BinOp, ...]:
    """The divisions by a name that is set once and used for nothing else."""
    if len(values.assigned.get(name, ())) != 1 or name in jit.parameters:
        return ()
    by: list[ast.BinOp] = []
    for read in reads(jit.node, name):
        parent = reading.source.parents[read]
        divisor: ast.AST = read
        if isinstance(parent, ast.Subscript) and parent.value is read:
            divisor, parent = parent, reading.source.parents[parent]
        if not _divides(parent, divisor, values):
            return ()
        assert isinstance(parent, ast.BinOp)
        by.append(parent)
    nested = any(one is not other and one in ast.walk(other) for one in by for other in by)
    return () if nested else tuple(by)


def _divides(node: ast.AST, divisor: ast.AST, values: Values) -> bool:
    """Whether a node divides by it what a product would give the same type."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or node.right is not divisor:
        return False
    return is_one(node.left) or values.is_float32(node.left)


def is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == 1


def exponentials(jit: Jit) -> Iterator[ast.Call]:
    """Calls of `tl.exp`, the outer one first."""
    for node in walk_scope(jit.node):
        if isinstance(node, ast.Call) and language_call(node, "exp"):
            yield node


def divisions(reading: Reading, jit: Jit, values: Values) -> list[Division]:
    """Divisions of float32 blocks in a loop by a number, or by a float32 value that was set before it."""
    found: list[Division] = []
    for node in walk_scope(jit.node):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or not isinstance(node.right, ast.Name):
            continue
        if not values.is_float32(node.left) or not values.is_block(node.left):
            continue
        before = _outermost(reading, jit, values, node)
        if before is not None:
            found.append(Division(node, node.right.id, before))
    return found


def _outermost(reading: Reading, jit: Jit, values: Values, node: ast.BinOp) -> Loop | None:
    """The outermost loop before which the divisor has the value that it has in the loop."""
    assert isinstance(node.right, ast.Name)
    name, outermost = node.right.id, None
    given = values.assigned.get(name, [])
    if not values.is_number(node.right) and not values.is_float32(node.right):
        return None
    if len(given) > 1 or any(not isinstance(each.node, ast.stmt) for each in given):
        return None
    set_by = next((each.node for each in given if isinstance(each.node, ast.stmt)), None)
    for loop in loops_around(reading.source, node, jit):
        if assigns(loop, name) or (set_by is not None and not _stands_before(reading, jit, set_by, loop)):
            break
        outermost = loop
    return outermost


def _stands_before(reading: Reading, jit: Jit, statement: ast.stmt, loop: Loop) -> bool:
    """Whether a statement has run whenever a loop begins."""
    return any(statement in block[:at] for block, at in reading.source.blocks_above(loop, jit.node))


def _computes_doubles(jit: Jit) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "float64" and dotted(n) for n in ast.walk(jit.node))
