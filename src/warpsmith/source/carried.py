"""A block that the forward pass keeps on `ctx`: whether a buffer that it saves depends on it.

If none does, the backward pass may take another one. Must not know what is tried.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from warpsmith.source.syntax import (
    Assignment,
    FunctionNode,
    Scope,
    Source,
    assignments,
    is_name,
    names_read,
    walk_scope,
)

_SETTING = re.compile(r"warps|stages|block", re.IGNORECASE)


def why_it_binds(source: Source, carried: str) -> str | None:
    """Why the backward pass must take `ctx.name` as it was kept, None where it may take another."""
    attribute = carried.rpartition(".")[2]
    kept = list(_kept(source, attribute))
    if not kept:
        return f"{carried} is carried from the forward pass, and where it is kept is not seen"
    for scope, value in kept:
        for saved, line in _saved(scope, attribute):
            if _depends(source, scope, saved, frozenset(names_read(value)), frozenset()):
                return (
                    f"{carried} is carried from the forward pass, and {saved}, saved in line {line}, may depend on it"
                )
    return None


def _kept(source: Source, attribute: str) -> Iterator[tuple[Scope, ast.expr]]:
    """Every value that a function keeps under this name on its `ctx`."""
    for function in source.functions:
        for node in walk_scope(function):
            if isinstance(node, ast.Assign):
                yield from ((function, value) for target, value in _pairs(node) if _is_kept(target, attribute))


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        elif isinstance(target, ast.Tuple):
            yield from ((element, node.value) for element in target.elts)
        else:
            yield target, node.value


def _is_kept(target: ast.expr, attribute: str | None = None) -> bool:
    if not (isinstance(target, ast.Attribute) and is_name(target.value, "ctx")):
        return False
    return attribute is None or target.attr == attribute


def _is_setting(target: ast.expr) -> bool:
    """Whether an attribute of `ctx` is named like a launch setting, which is no buffer."""
    return isinstance(target, ast.Attribute) and _SETTING.search(target.attr) is not None


def _saved(scope: Scope, attribute: str) -> Iterator[tuple[str, int]]:
    """The names of what is kept besides: arguments of save_for_backward, other attributes of `ctx`."""
    for node in walk_scope(scope):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "save_for_backward"
        ):
            yield from ((name, node.lineno) for argument in node.args for name in sorted(names_read(argument)))
        elif isinstance(node, ast.Assign):
            others = [v for t, v in _pairs(node) if _is_kept(t) and not _is_kept(t, attribute) and not _is_setting(t)]
            yield from ((value.id, node.lineno) for value in others if isinstance(value, ast.Name))


def _depends(source: Source, scope: Scope, name: str, on: frozenset[str], seen: frozenset[str]) -> bool:
    """Whether a variable is computed from one of the names `on`, directly or not."""
    if name in seen or name in on:
        return False
    for found in assignments(scope):
        if found.name != name or found.value is None:
            continue
        together = {other.name for other in assignments(scope) if other.node is found.node} & on
        if together and isinstance(found.value, ast.Call):
            if _returned_together(source, found, name, together):
                return True
            continue
        read = names_read(found.value)
        if read & on or any(_depends(source, scope, each, on, seen | {name}) for each in sorted(read)):
            return True
    return False


def _returned_together(source: Source, found: Assignment, name: str, together: set[str]) -> bool:
    """Whether, in the function that returns both, one depends on the other; unknown functions may."""
    assert isinstance(found.value, ast.Call)
    called = found.value.func
    functions = [f for f in source.tree.body if isinstance(f, FunctionNode) and is_name(called, f.name)]
    target = found.node.targets[0] if isinstance(found.node, ast.Assign) else None
    if len(functions) != 1 or not isinstance(target, ast.Tuple):
        return True
    places = [element.id if isinstance(element, ast.Name) else "" for element in target.elts]
    function = functions[0]
    for returned in (n.value for n in walk_scope(function) if isinstance(n, ast.Return)):
        if not isinstance(returned, ast.Tuple) or len(returned.elts) != len(places):
            return True
        mine = names_read(returned.elts[places.index(name)])
        others = frozenset(n for each in together for n in names_read(returned.elts[places.index(each)]))
        if mine & others or any(_depends(source, function, each, others, frozenset()) for each in sorted(mine)):
            return True
    return False
