"""The parameters that a value may be as it is: through variables, an object's attributes and enclosing functions.

A formula of a parameter is no choice of the caller's. Must not know of knobs, nor who calls.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from warpsmith.source.syntax import (
    FunctionNode,
    Scope,
    Source,
    assignments,
    defaults_of,
    mentions,
    parameters_of,
    walk_scope,
)

_PICKS = frozenset({"min", "max", "int"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef
Given = tuple[_Function, str]


def given_as(source: Source, scope: Scope, value: ast.expr, wanted: Collection[str]) -> Iterator[Given]:
    """Every parameter that `value` may be, with the function that is given it.

    One without a default counts where it is called as one of `wanted`: any other, such as a row's width, is what the
    kernel works on.
    """
    return _given(source, scope, value, frozenset(each.lower() for each in wanted), frozenset())


def _given(
    source: Source, scope: Scope, value: ast.expr, wanted: frozenset[str], seen: frozenset[tuple[int, str]]
) -> Iterator[Given]:
    if isinstance(scope, FunctionNode):
        yield from ((scope, name) for name in _stars(scope) if mentions(value, name))
    held = _held_in(value)
    ends = [held] if held is not None else list(_ends(value))
    for end in ends:
        key = (id(scope), ast.unparse(end))
        if key in seen:
            continue
        if isinstance(end, ast.Attribute):
            for function, kept in _kept(source, scope, end):
                yield from _given(source, function, kept, wanted, seen | {key})
            continue
        yield from _given_by_name(source, scope, end, frozenset({end.id.lower()}) if held else wanted, seen | {key})


def _given_by_name(
    source: Source, scope: Scope, name: ast.Name, wanted: frozenset[str], seen: frozenset[tuple[int, str]]
) -> Iterator[Given]:
    """The parameter of this name, what the variable of this name is set to, or one of the function around."""
    set_to = [found.value for found in assignments(scope) if found.name == name.id and found.value is not None]
    for value in set_to if isinstance(scope, FunctionNode) else []:
        yield from _given(source, scope, value, wanted, seen)
    if isinstance(scope, FunctionNode) and name.id in parameters_of(scope):
        if name.id in defaults_of(scope) or name.id.lower() in wanted:
            yield scope, name.id
    elif isinstance(scope, FunctionNode) and not set_to:
        yield from _given_by_name(source, source.scope_of(scope), name, wanted, seen)


def _stars(function: _Function) -> list[str]:
    return [each.arg for each in (function.args.vararg, function.args.kwarg) if each is not None]


def _kept(source: Source, scope: Scope, attribute: ast.Attribute) -> Iterator[tuple[_Function, ast.expr]]:
    """What the methods of the class set `self.name`, or `ctx.name`, to."""
    holder = source.parents.get(scope)
    if not isinstance(holder, ast.ClassDef) or parameters_of(scope)[:1] != (ast.unparse(attribute.value),):
        return
    for method in holder.body:
        if not isinstance(method, FunctionNode):
            continue
        for node in walk_scope(method):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            own = f"{next(iter(parameters_of(method)), '')}.{attribute.attr}"
            if any(target is not None and ast.unparse(target) == own for target in targets):
                yield method, node.value


def _ends(value: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    """The variables and attributes that a value may be, as it is."""
    if isinstance(value, ast.Name | ast.Attribute):
        yield value
        return
    parts: list[ast.expr] = []
    if isinstance(value, ast.IfExp):
        parts = [value.body, value.orelse]
    elif isinstance(value, ast.BoolOp):
        parts = value.values
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _PICKS:
        parts = value.args
    for part in parts:
        yield from _ends(part)


def _held_in(value: ast.expr) -> ast.Name | None:
    """The dictionary in `given["num_warps"]` and `given.get("num_warps", 4)`."""
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and _is_text(value.slice):
        return value.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("get", "pop"):
        receiver = value.func.value
        if isinstance(receiver, ast.Name) and value.args and _is_text(value.args[0]):
            return receiver
    return None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
