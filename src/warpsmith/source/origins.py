"""How a source sets a value today: by a literal, a formula, a helper, a parameter. Judges nothing."""

from __future__ import annotations

import ast

from warpsmith.contracts.audit import KnobOrigin
from warpsmith.source.syntax import assignments, last_name

#: Calls that compute a size from a shape.
FORMULAS = frozenset({"next_power_of_2", "cdiv", "min", "max", "prev_power_of_2", "ceil", "int", "log2", "round_up"})


def origin_of(node: ast.AST, name: str | None = None) -> KnobOrigin:
    """The origin of an expression, or of the variable `name` in a statement that assigns it."""
    if isinstance(node, ast.stmt):
        values = [f.value for f in assignments(node) if f.name == name]
        if len(values) != 1:
            return KnobOrigin.FORMULA if values else KnobOrigin.OTHER
        (value,) = values
        return origin_of(value) if value is not None else KnobOrigin.OTHER
    if isinstance(node, ast.Constant):
        return KnobOrigin.LITERAL
    if isinstance(node, ast.Call):
        return KnobOrigin.FORMULA if last_name(node.func) in FORMULAS else KnobOrigin.HELPER
    if isinstance(node, ast.BinOp | ast.IfExp | ast.UnaryOp | ast.BoolOp):
        return KnobOrigin.FORMULA
    return KnobOrigin.OTHER
