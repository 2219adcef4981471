"""Whole tensors that host code copies or converts before a launch. Must not know how large they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.call_paths import CallPaths, Function
from warpsmith.source.syntax import Source, dotted, last_name, lines_told, parameters_of, walk_scope

_CONVERSIONS = frozenset({"float", "half", "bfloat16", "double", "type", "type_as"})
_DTYPE = re.compile(r"dtype|float|half|\bint\d")
#: Views: what they are called on is still the whole tensor.
_VIEWS = frozenset({"view", "reshape", "flatten", "unsqueeze", "squeeze", "transpose", "permute", "t", "detach", "mT"})


def host_copies(source: Source, paths: CallPaths) -> Iterator[Opportunity]:
    """In each function that launches, or that calls one that does: contiguous copies, clones, conversions."""
    for function in paths.launching():
        for decorator in function.decorator_list:
            name = last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if "contiguous" in name:
                yield _opportunity(
                    function,
                    [decorator.lineno],
                    f"@{name} makes every tensor argument of {function.name} contiguous before the launch",
                    "it is free only where they are contiguous already; else each is a launch and a pass of its own, "
                    "which strides handed to the kernel would save",
                )
    for function in sorted(paths.on_the_way(), key=lambda each: each.lineno):
        yield from _contiguous(source, function)
    for function in paths.launching():
        yield from _clones(function)
        yield from _conversions(source, function, paths)


def _contiguous(source: Source, function: Function) -> Iterator[Opportunity]:
    calls = [c for c in _methods(function, frozenset({"contiguous"})) if not _is_guarded(source, c)]
    if calls:
        yield _opportunity(
            function,
            [c.lineno for c in calls],
            f"{_listed(calls)} made contiguous before the launch",
            "it is free only where the tensor is contiguous already; else it is a launch and a pass of its own, which "
            "strides handed to the kernel would save",
        )


def _clones(function: Function) -> Iterator[Opportunity]:
    calls = [c for c in _methods(function, frozenset({"clone"})) if _root(c) is not None]
    if calls:
        yield _opportunity(
            function,
            [c.lineno for c in calls],
            f"{_listed(calls)} cloned",
            "it is a launch and a pass of its own, which a kernel that writes elsewhere would save",
        )


def _conversions(source: Source, function: Function, paths: CallPaths) -> Iterator[Opportunity]:
    """Conversions of whole arguments before the last call that leads to a launch; later ones are of results."""
    launching = {each.name for each in paths.launching()}
    last = max(
        (
            node.lineno
            for node in walk_scope(function)
            if isinstance(node, ast.Call)
            if isinstance(node.func, ast.Subscript) or last_name(node.func) in launching
        ),
        default=0,
    )
    given = {*parameters_of(function), *_unpacked_from_ctx(function)}
    calls = [
        call
        for call in _methods(function, _CONVERSIONS | {"to"})
        if call.lineno < last and _root(call) in given and _converts(call) and not _is_guarded(source, call)
    ]
    if calls:
        yield _opportunity(
            function,
            [c.lineno for c in calls],
            f"{_listed(calls)} converted to another dtype before the launch",
            "it is a launch and a pass of its own, where the kernel can convert what it has loaded",
        )


def _converts(call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    passed = [*call.args, *(k.value for k in call.keywords)]
    return call.func.attr != "to" or any(_DTYPE.search(ast.unparse(each)) for each in passed)


def _unpacked_from_ctx(function: Function) -> set[str]:
    return {
        name.id
        for node in walk_scope(function)
        if isinstance(node, ast.Assign) and "saved_tensors" in ast.unparse(node.value)
        for name in ast.walk(node.targets[0])
        if isinstance(name, ast.Name)
    }


def _methods(function: Function, names: frozenset[str]) -> list[ast.Call]:
    """Calls of these methods in a function, in source order."""
    found = [
        node
        for node in walk_scope(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names
    ]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _root(call: ast.Call) -> str | None:
    """The name of the tensor that a method is called on, itself or a view of it."""
    assert isinstance(call.func, ast.Attribute)
    node = call.func.value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
        node = node.func.value
    return dotted(node)


def _is_guarded(source: Source, call: ast.Call) -> bool:
    """Whether the copy is made only where a test of strides or dtype asks for it."""
    for parent in source.ancestors(call):
        if isinstance(parent, ast.If | ast.IfExp):
            told = ast.unparse(parent.test)
            if ".stride(" in told or "dtype" in told:
                return True
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            break
    return False


def _listed(calls: Sequence[ast.Call]) -> str:
    """`x and w are`, by name and once each."""
    names = list(dict.fromkeys(_root(c) or _short(c) for c in calls))
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"


def _short(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    told = ast.unparse(call.func.value)
    return told if len(told) <= 50 else f"{told[:47]}..."


def _opportunity(function: Function, lines: Sequence[int], what: str, why: str) -> Opportunity:
    also = f" ({lines_told(lines)})" if len(set(lines)) > 1 else ""
    return Opportunity(
        kind=OpportunityKind.CONTIGUOUS_COPY, function=function.name, line=lines[0], what=what + also, why=why
    )
