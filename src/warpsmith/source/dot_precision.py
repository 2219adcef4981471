"""Matrix products of operands that were loaded and converted to float32 only to be multiplied.

Products of 16-bit values are exact in float32, and in TF32 too, so that the product of what was loaded is the same sum.
Where what was loaded is float32 the conversion does nothing, and leaving it out changes nothing: the product keeps the
precision that it asks for. Left alone: kernels that name a type of 8 bits, or whose launching functions do, as such
products are summed otherwise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.jit import LOADS, Jit, operation
from warpsmith.source.launches import Reading
from warpsmith.source.syntax import lines_told, walk_scope
from warpsmith.source.values import Values, converted, reads

#: Operations that only move elements.
_MOVES = frozenset({"trans", "permute"})
_OTHER_TYPES = re.compile(r"float8|fp8|e4m3|e5m2|int8")


@dataclass(frozen=True)
class Widened:
    """`dots` whose operands are all widened; `casts` are the conversions to leave out, `statements` those that do
    nothing else."""

    dots: tuple[ast.Call, ...]
    casts: tuple[ast.Call, ...]
    statements: tuple[ast.Assign, ...]


def dot_precision(reading: Reading, jit: Jit) -> Iterator[Opportunity]:
    """One opportunity a kernel."""
    found = widened_dots(reading, jit)
    if found.dots and other_types(reading, jit) is None:
        lines = lines_told(dot.lineno for dot in found.dots)
        yield Opportunity(
            kind=OpportunityKind.WIDENED_DOT,
            function=jit.name,
            line=found.dots[0].lineno,
            what=f"the matrix product in {lines} is of operands that are converted to float32 after they are loaded",
            why="16-bit operands have exact products in the float32 sums, twice the rate of TF32 and half the shared "
            "memory; operands that are float32 as loaded stay as they are",
        )


def other_types(reading: Reading, jit: Jit) -> str | None:
    """A type of 8 bits that the kernel names, or a function that launches it; None where there is none."""
    scopes = dict.fromkeys(launch.scope for launch in reading.launches if launch.jit is jit)
    names = (n.attr if isinstance(n, ast.Attribute) else n.id for scope in (jit.node, *scopes) for n in _named(scope))
    return next((name for name in names if _OTHER_TYPES.search(name.lower())), None)


def _named(tree: ast.AST) -> Iterator[ast.Attribute | ast.Name]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name))


def widened_dots(reading: Reading, jit: Jit) -> Widened:
    """The products of which both operands are converted, and used for nothing else."""
    operands = _Operands(reading, jit)
    dots = [node for node in walk_scope(jit.node) if isinstance(node, ast.Call) and operands.both(node)]
    before = -1
    while before != (before := len(dots)):
        dots = [dot for dot in dots if all(operands.only_in(dots, each) for each in dot.args[:2])]
    used = [operands.source_of(each) for dot in dots for each in dot.args[:2]]
    casts = [cast for name_or_cast in used for cast in operands.casts(name_or_cast)]
    statements = [s for each in used if isinstance(each, ast.Name) for s in operands.renewals(each.id)]
    return Widened(tuple(dots), tuple(dict.fromkeys(casts)), tuple(dict.fromkeys(statements)))


class _Operands:
    """Where the operands of a kernel's products come from."""

    def __init__(self, reading: Reading, jit: Jit) -> None:
        self._source, self._jit = reading.source, jit
        self._values = Values(reading, jit)

    def both(self, node: ast.Call) -> bool:
        """Whether it is a product of two widened operands into float32."""
        if operation(node) != "dot" or not isinstance(node.func, ast.Attribute) or len(node.args) < 2:
            return False
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return False
        types = [k.value for k in node.keywords if k.arg == "out_dtype"] + node.args[6:]
        if any(not (isinstance(each, ast.Attribute) and each.attr == "float32") for each in types):
            return False
        return all(bool(self.casts(self.source_of(each))) for each in node.args[:2])

    def source_of(self, operand: ast.expr) -> ast.expr:
        """An operand without what only moves its elements."""
        while True:
            if isinstance(operand, ast.Attribute) and operand.attr == "T":
                operand = operand.value
            elif isinstance(operand, ast.Call) and operation(operand) in _MOVES and operand.args:
                operand = operand.args[0]
            else:
                return operand

    def casts(self, node: ast.expr) -> list[ast.Call]:
        """The conversions of what was loaded that make it, all of them; none where it is anything else."""
        inner = converted(node)
        if inner is not None:
            return [node] if isinstance(node, ast.Call) and self._is_loaded(inner) else []
        if not isinstance(node, ast.Name):
            return []
        renewals = self.renewals(node.id)
        found: list[ast.Call] = []
        for each in self._values.assigned.get(node.id, ()):
            if not isinstance(each.node, ast.Assign) or len(each.node.targets) != 1 or each.value is None:
                return []
            if each.value is not each.node.value:
                return []
            if each.node in renewals or (renewals and self._is_loaded(each.value)):
                continue
            cast = self.source_of(each.value)
            inner = converted(cast)
            if inner is None or not isinstance(cast, ast.Call) or not self._is_loaded(inner):
                return []
            found.append(cast)
        return found + [s.value for s in renewals if isinstance(s.value, ast.Call)]

    def renewals(self, name: str) -> list[ast.Assign]:
        """`x = x.to(tl.float32)`, beside other statements."""
        return [
            each.node
            for each in self._values.assigned.get(name, ())
            if isinstance(each.node, ast.Assign) and _converts(each.value, name) and self._has_company(each.node)
        ]

    def _has_company(self, statement: ast.stmt) -> bool:
        block, _ = next(self._source.blocks_above(statement, self._jit.node))
        return len(block) > 1

    def only_in(self, dots: list[ast.Call], operand: ast.expr) -> bool:
        """Whether a name is read by these products alone."""
        held = self.source_of(operand)
        if not isinstance(held, ast.Name):
            return True
        used = {self.source_of(each) for dot in dots for each in dot.args[:2]}
        own = {read for statement in self.renewals(held.id) for read in reads(statement.value, held.id)}
        return all(read in used | own for read in reads(self._jit.node, held.id))

    def _is_loaded(self, node: ast.expr, met: frozenset[str] = frozenset()) -> bool:
        node = self.source_of(node)
        if not isinstance(node, ast.Name):
            return operation(node) in LOADS
        found = self._values.assigned.get(node.id, [])
        if node.id in self._jit.parameters or node.id in met or not found:
            return False
        met |= {node.id}
        return all(
            f.value is not None and (_converts(f.value, node.id) or self._is_loaded(f.value, met)) for f in found
        )


def _converts(value: ast.expr | None, name: str) -> bool:
    inner = converted(value) if value is not None else None
    return isinstance(inner, ast.Name) and inner.id == name
