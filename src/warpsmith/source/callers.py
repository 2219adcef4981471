"""Knobs that the caller of a host function chooses: what he passes holds.

A parameter's default is the author's choice, and so is what the file's own code passes. Must not know how an override
is written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.passed import FILE, chosen_by, gives_entries
from warpsmith.source.places import Place, Spot
from warpsmith.source.sites import Site
from warpsmith.source.syntax import (
    FunctionNode,
    Source,
    assignments,
    defaults_of,
    is_name,
    mentions,
    parameters_of,
    walk_scope,
)

_OPTIONS = frozenset({KnobKind.NUM_WARPS, KnobKind.NUM_STAGES, KnobKind.MAXNREG})
_PICKS = frozenset({"min", "max", "int"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def left_to_callers(source: Source, site: Site) -> Site:
    """The site as it may be changed: where the caller did not choose, or not at all."""
    scope, spot = site.launch.scope, site.spot
    in_host_code = spot.place in (Place.AFTER, Place.ENTRY, Place.IN_PLACE)
    carried = site.origin in (KnobOrigin.CONTEXT, KnobOrigin.SM_COUNT)
    if site.why_not is not None or carried or not in_host_code or not isinstance(scope, FunctionNode):
        return site
    dictionary, bracket, _ = (spot.target or "").partition("[")
    if bracket:
        return _in_dictionary(source, site, scope, dictionary)
    if spot.place is Place.ENTRY:
        assert spot.target is not None
        return _of_parameter(source, site, scope, spot.target)
    if spot.place is Place.AFTER and (inner := _where_none_was_given(site, scope)) is not None:
        if site.launch.chosen_as is not None:
            return _refused(site, f"it is a parameter of {scope.name}")
        return replace(site, spot=Spot(Place.AFTER, inner.lineno, spot.target, inner))
    for name in _callers_names(site, scope):
        if chosen_by(source, scope, name) is not FILE:
            return _refused(site, f"it comes from {name}, which {scope.name} is given")
    return site


def _refused(site: Site, why: str) -> Site:
    return replace(site, refused=f"the caller chooses it: {why}")


def _of_parameter(source: Source, site: Site, scope: _Function, name: str) -> Site:
    """A parameter may be replaced while it has its default, or where the file's own code passes it."""
    chosen = chosen_by(source, scope, name)
    if chosen is FILE:
        return site
    if isinstance(chosen, ast.Constant):
        return replace(site, only_if=ast.unparse(chosen))
    default = defaults_of(scope).get(name)
    why = f"it is the parameter {name} of {scope.name}"
    if default is None:
        return _refused(site, f"{why}, which has no default")
    if isinstance(default, ast.Constant) and type(default.value) is int:
        return _refused(site, f"{why}, and a call in this file passes another than its default {ast.unparse(default)}")
    return _refused(site, f"{why}, whose default is {ast.unparse(default)}")


def _in_dictionary(source: Source, site: Site, scope: _Function, name: str) -> Site:
    """An entry of a dictionary: the function's own, one that it is given, or one that takes up what it is given."""
    if site.spot.place is Place.ENTRY:
        if gives_entries(source, scope, name, site.name):
            return site
        if site.kind in _OPTIONS:
            return replace(site, yields=True)
        return _refused(site, f"{scope.name} is given it in {name}")
    for given in _given_dictionaries(scope):
        for node in _takings(scope, name):
            if mentions(node, given) and not gives_entries(source, scope, given, site.name):
                return _refused(site, f"{name} takes up {given} in line {getattr(node, 'lineno', site.line)}")
    if site.origin is KnobOrigin.PARAMETER and site.expression in parameters_of(scope):
        return _of_parameter(source, site, scope, site.expression)
    return site


def _given_dictionaries(scope: _Function) -> list[str]:
    """The function's keywords, and its parameters that it unpacks or hands to `update`."""
    kwarg = [scope.args.kwarg.arg] if scope.args.kwarg is not None else []
    unpacked: set[str] = set()
    for node in walk_scope(scope):
        if isinstance(node, ast.Dict):
            parts = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
        elif isinstance(node, ast.Call):
            parts = [k.value for k in node.keywords if k.arg is None]
            parts += node.args if isinstance(node.func, ast.Attribute) and node.func.attr == "update" else []
        else:
            continue
        unpacked |= {part.id for part in parts if isinstance(part, ast.Name)}
    return [*kwarg, *(name for name in parameters_of(scope) if name in unpacked)]


def _takings(scope: _Function, name: str) -> Iterator[ast.AST]:
    """Where a dictionary is made, or takes up another."""
    for node in walk_scope(scope):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if (
                    is_name(target.value if isinstance(target, ast.Subscript) else target, name)
                    and node.value is not None
                ):
                    yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_name(node.func.value, name):
            yield node


def _where_none_was_given(site: Site, scope: _Function) -> ast.stmt | None:
    """The statement under `if name is None:` that sets a parameter which the caller left out."""
    name, statement = site.spot.target, site.spot.statement
    if not isinstance(statement, ast.If) or statement.orelse or name is None or name not in parameters_of(scope):
        return None
    test = statement.test
    asks = isinstance(test, ast.Compare) and is_name(test.left, name) and isinstance(test.ops[0], ast.Is)
    if not asks or not (isinstance(test, ast.Compare) and ast.unparse(test.comparators[0]) == "None"):
        return None
    setting = [s for s in statement.body if any(found.name == name for found in assignments(s))]
    return setting[-1] if len(setting) == 1 and isinstance(setting[0], ast.Assign) else None


def _callers_names(site: Site, scope: _Function) -> Iterator[str]:
    """Names that the function is given and that the knob's value may come from as it is."""
    spot, target = site.spot, site.spot.target
    values = list(spot.reads[:1])
    if spot.place is Place.AFTER and spot.statement is not None and target is not None:
        values = [f.value for f in assignments(spot.statement) if f.name == target and f.value is not None]
        if target in parameters_of(scope) and not isinstance(spot.statement, ast.Assign | ast.AnnAssign):
            yield target
    kwarg = scope.args.kwarg.arg if scope.args.kwarg is not None else None
    own_names = {site.name.lower(), (target or "").lower()}
    defaults = defaults_of(scope)
    for value in values:
        if kwarg is not None and mentions(value, kwarg):
            yield kwarg
        for name in _ends(value):
            if name in parameters_of(scope) and (name in defaults or name.lower() in own_names):
                yield name
        if (held := _held_in(value)) is not None and held in parameters_of(scope):
            yield held


def _ends(value: ast.expr) -> Iterator[str]:
    """The names that a value may be, as it is."""
    if isinstance(value, ast.Name):
        yield value.id
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


def _held_in(value: ast.expr) -> str | None:
    """The dictionary in `given["num_warps"]` and `given.get("num_warps", 4)`."""
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and _is_text(value.slice):
        return value.value.id
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("get", "pop"):
        receiver = value.func.value
        if isinstance(receiver, ast.Name) and value.args and _is_text(value.args[0]):
            return receiver.id
    return None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
