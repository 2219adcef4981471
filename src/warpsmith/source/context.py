"""Settings that the forward pass keeps on an autograd function's `ctx` and the backward pass takes from there."""

from __future__ import annotations

import ast

from warpsmith.source.launches import Launch
from warpsmith.source.places import reaching_assignment
from warpsmith.source.syntax import FunctionNode, Scope, Source, assignments, parameters_of, walk_scope

_PASSES = frozenset({"forward", "backward", "setup_context", "jvp", "vjp"})


def kept_on_context(source: Source, launch: Launch, value: ast.expr) -> str | None:
    """`ctx.num_warps` where a launch's argument comes from there, in this function or through its callers; else None.

    A parameter counts where every call of the function in this file passes it so.
    """
    scope = launch.scope
    if isinstance(value, ast.Name) and (statement := reaching_assignment(source, launch, value.id)) is not None:
        values = [found.value for found in assignments(statement) if found.name == value.id]
        return _attribute(source, scope, values[0]) if len(values) == 1 else None
    if isinstance(value, ast.Name) and isinstance(scope, FunctionNode) and value.id in parameters_of(scope):
        passed = [_passed(call, scope, value.id) for call in source.calls.get(scope.name, [])]
        told = {_told_by_caller(source, each) for each in passed if each is not None}
        return told.pop() if len(told) == 1 and None not in passed else None
    return _attribute(source, scope, value)


def _attribute(source: Source, scope: Scope, value: ast.expr | None) -> str | None:
    """The text of `ctx.name`, where `ctx` is the first parameter of one of the passes."""
    if not (isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name)):
        return None
    first, name = parameters_of(scope)[:1], value.value.id
    in_class = isinstance(source.parents.get(scope), ast.ClassDef)
    is_context = name == "ctx" or (in_class and isinstance(scope, FunctionNode) and scope.name in _PASSES)
    return ast.unparse(value) if is_context and first == (name,) and name not in ("self", "cls") else None


def _passed(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, parameter: str) -> ast.expr | None:
    """What a call passes for a parameter, None where that cannot be told."""
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    index = parameters_of(function).index(parameter)
    if index < len(call.args) and not any(isinstance(argument, ast.Starred) for argument in call.args):
        return call.args[index]
    return None


def _told_by_caller(source: Source, passed: ast.expr) -> str | None:
    scope = source.scope_of(passed)
    if isinstance(passed, ast.Name):
        values = [found.value for node in walk_scope(scope) if isinstance(node, ast.Assign)
                  for found in assignments(node) if found.name == passed.id]  # fmt: skip
        return _attribute(source, scope, values[0]) if len(values) == 1 else None
    return _attribute(source, scope, passed)
