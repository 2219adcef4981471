"""How a kernel asks for a program's place along an axis of the grid, and casts the answer."""

from __future__ import annotations

import ast

from warpsmith.source.access import LANGUAGE
from warpsmith.source.jit import operation
from warpsmith.source.syntax import dotted


def axis_of(call: ast.Call) -> int | None:
    """The axis that `tl.program_id` or `tl.num_programs` is asked for; None where no constant alone says it."""
    match call:
        case ast.Call(args=[ast.Constant(value=axis)], keywords=[]):
            pass
        case ast.Call(args=[], keywords=[ast.keyword(arg="axis", value=ast.Constant(value=axis))]):
            pass
        case _:
            return None
    return axis if type(axis) is int else None


def uncast(value: ast.expr) -> ast.expr:
    """What a value is before `x.to(dtype)` or `tl.cast(x, dtype)`; any other is given back."""
    if not (isinstance(value, ast.Call) and operation(value) in ("to", "cast")):
        return value
    if isinstance(value.func, ast.Attribute) and dotted(value.func.value) not in LANGUAGE:
        return value.func.value
    return value.args[0] if value.args else value
