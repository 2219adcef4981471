"""What the calls in a file pass to a function of the file: its own choice, or what it was given itself."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from warpsmith.source.given import given_as
from warpsmith.source.syntax import FunctionNode, Source, defaults_of, is_name, last_name, parameters_of

FILE: Literal["file"] = "file"
#: FILE where the file's own code says what a parameter is, its default where a caller may choose another, else None.
Chosen = Literal["file"] | ast.Constant | None
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Seen = frozenset[tuple[int, str]]


@dataclass(frozen=True)
class _Call:
    """A call of a function of the file. `bound` is how many parameters come before its first argument."""

    call: ast.Call
    bound: int


def chosen_by(source: Source, function: _Function, name: str, seen: _Seen = frozenset()) -> Chosen:
    """Who chooses a parameter of a function, or its `**keywords`."""
    if (id(function), name) in seen:
        return None
    seen |= {(id(function), name)}
    default = defaults_of(function).get(name)
    passed = [each for call in _calls(source, function) if (each := _passed(call, function, name)) is not None]
    origins = [_origin(source, each, name, seen) for each in passed]
    if default is None:
        return _agreed(origins)
    if all(ast.dump(each) == ast.dump(default) for each in passed):
        return default if isinstance(default, ast.Constant) and type(default.value) is int else None
    return FILE if function.name.startswith("_") and all(each is FILE for each in origins) else None


def gives_entries(source: Source, function: _Function, name: str, key: str) -> bool:
    """Whether the file's own code says what entry `key` of a dictionary is that a function is given."""
    kwarg = function.args.kwarg
    if kwarg is None or kwarg.arg != name:
        return chosen_by(source, function, name) is FILE
    given: list[ast.expr] = []
    for call in _calls(source, function):
        named = [k.value for k in call.call.keywords if k.arg == key]
        given += named or [k.value for k in call.call.keywords if k.arg is None]
    return bool(given) and all(_origin(source, each, key, frozenset()) is FILE for each in given)


def _agreed(origins: list[Chosen]) -> Chosen:
    if origins and all(each is FILE for each in origins):
        return FILE
    defaults = [each for each in origins if isinstance(each, ast.Constant)]
    same = len(defaults) == len(origins) and len({ast.dump(each) for each in defaults}) == 1
    return defaults[0] if same else None


def _origin(source: Source, passed: ast.expr, name: str, seen: _Seen) -> Chosen:
    """Who chose what a call passes as `name`: a parameter of the calling function is its own caller's."""
    scope = source.scope_of(passed)
    if isinstance(passed, ast.Name) and isinstance(scope, FunctionNode) and _is_given(scope, passed.id):
        return chosen_by(source, scope, passed.id, seen)
    givers = given_as(source, scope, passed, (name,))
    return FILE if all(chosen_by(source, *giver, seen) is FILE for giver in givers) else None


def _is_given(scope: _Function, name: str) -> bool:
    return name in parameters_of(scope) or (scope.args.kwarg is not None and scope.args.kwarg.arg == name)


def _calls(source: Source, function: _Function) -> list[_Call]:
    """The calls of a function by its name, as a method, or through `apply` for an autograd function's forward."""
    holder = source.parents[function]
    if not isinstance(holder, ast.ClassDef):
        return [_Call(call, 0) for call in source.calls.get(function.name, [])]
    is_static = any(is_name(each, "staticmethod") for each in function.decorator_list)
    found = [_Call(call, 0 if is_static else 1) for call in source.method_calls.get(function.name, [])]
    if function.name == "forward":
        applied = [call for call in source.method_calls.get("apply", []) if _receiver(call) == holder.name]
        found += [_Call(call, 1) for call in applied]
    return found


def _receiver(call: ast.Call) -> str:
    return last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _passed(call: _Call, function: _Function, name: str) -> ast.expr | None:
    """What a call passes for a parameter; None where it leaves it out, or where that is not seen."""
    for keyword in call.call.keywords:
        if keyword.arg == name:
            return keyword.value
    positional = [a.arg for a in (*function.args.posonlyargs, *function.args.args)][call.bound :]
    args = call.call.args
    starred = any(isinstance(argument, ast.Starred) for argument in args)
    if name in positional and not starred and positional.index(name) < len(args):
        return args[positional.index(name)]
    return next((k.value for k in call.call.keywords if k.arg is None), None)
