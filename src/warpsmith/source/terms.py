"""The terms that a kernel's address is a sum of: which vector each moves along, and what that is multiplied by.

Flow-insensitive: a name that is assigned twice has the terms of both. Must not know what a launch passes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from warpsmith.source.access import LANGUAGE
from warpsmith.source.jit import LOADS, Jit, operation
from warpsmith.source.syntax import assignments, dotted

#: Chosen: an address of more terms than this is not followed.
_MOST_TERMS = 64
#: Operations that give their first argument back.
_TRANSPARENT = frozenset({"to", "cast", "multiple_of", "max_contiguous", "max_constancy", "assume", "broadcast_to"})


@dataclass(frozen=True)
class Term:
    """One product. `vectors`: the ranges in it, each with the axis it lies along. `factors`: parameters in it.

    `program`: it depends on which program runs, or on a loop. `known` is False where the value was loaded, or is the
    result of something that is no sum or product.
    """

    vectors: frozenset[str] = frozenset()
    factors: frozenset[str] = frozenset()
    program: bool = False
    known: bool = True

    def __mul__(self, other: Term) -> Term:
        return Term(
            self.vectors | other.vectors,
            self.factors | other.factors,
            self.program or other.program,
            self.known and other.known,
        )


def in_order(terms: Iterable[Term]) -> list[Term]:
    """The same order in every run: what no vector is in first, then by the parameters."""
    return sorted(terms, key=lambda term: (bool(term.vectors), sorted(term.factors), sorted(term.vectors)))


class Terms:
    """The addresses of one jit function as sums."""

    def __init__(self, jit: Jit) -> None:
        self._parameters = frozenset(jit.parameters)
        self._values: dict[str, list[ast.expr | None]] = {}
        for found in assignments(jit.node):
            self._values.setdefault(found.name, []).append(found.value)
        self._known: dict[str, frozenset[Term]] = {}

    def of(self, node: ast.expr) -> frozenset[Term]:
        """The terms of an expression."""
        found = self._of(node)
        return found if len(found) <= _MOST_TERMS else frozenset({Term(known=False)})

    def _of(self, node: ast.expr) -> frozenset[Term]:
        if isinstance(node, ast.Constant):
            return frozenset({Term()})
        if isinstance(node, ast.Name):
            return self._of_name(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            return self.of(node.left) | self.of(node.right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return frozenset(a * b for a in self.of(node.left) for b in self.of(node.right))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return self.of(node.left)
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand)
        if isinstance(node, ast.IfExp):
            return self.of(node.body) | self.of(node.orelse)
        if isinstance(node, ast.Subscript) and _is_reshaping(node.slice):
            return frozenset(_along(term, ast.unparse(node.slice)) for term in self.of(node.value))
        if isinstance(node, ast.Call):
            return self._of_call(node)
        return self._opaque(node)

    def _of_name(self, name: str) -> frozenset[Term]:
        if name in self._known:
            return self._known[name]
        self._known[name] = frozenset({Term(factors=frozenset({name}))} if name in self._parameters else ())
        for value in self._values.get(name, []):
            found = frozenset({Term(program=True)}) if value is None else self.of(value)
            self._known[name] |= found
        self._known[name] = self._known[name] or frozenset({Term()})
        return self._known[name]

    def _of_call(self, call: ast.Call) -> frozenset[Term]:
        name = operation(call)
        if name == "arange":
            return frozenset({Term(vectors=frozenset({ast.unparse(call)}))})
        if name in ("program_id", "num_programs"):
            return frozenset({Term(program=True)})
        if name in _TRANSPARENT and (given := _first(call)) is not None:
            return self.of(given)
        if name in ("where", "minimum", "maximum", "min", "max") and len(call.args) >= 2:
            return frozenset().union(*(self.of(argument) for argument in call.args[-2:]))
        return self._opaque(call)

    def _opaque(self, node: ast.AST) -> frozenset[Term]:
        """Something that is neither a sum nor a product: its vectors count, and nothing is known of their steps."""
        vectors: frozenset[str] = frozenset()
        program = operation(node) in LOADS
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                for term in self.of(child):
                    vectors |= term.vectors
                    program = program or term.program
        return frozenset({Term(vectors=vectors, program=program, known=False)})


def _first(call: ast.Call) -> ast.expr | None:
    """What an operation is applied to: the receiver of `x.to(...)`, the first argument of `tl.cast(x, ...)`."""
    if isinstance(call.func, ast.Attribute) and dotted(call.func.value) not in LANGUAGE:
        return call.func.value
    return call.args[0] if call.args else None


def _is_reshaping(index: ast.expr) -> bool:
    """`[:, None]` and the like."""
    elements = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(e, ast.Slice) or (isinstance(e, ast.Constant) and e.value is None) for e in elements)


def _along(term: Term, index: str) -> Term:
    return Term(frozenset(f"{each}[{index}]" for each in term.vectors), term.factors, term.program, term.known)
