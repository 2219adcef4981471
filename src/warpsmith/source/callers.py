"""Knobs that the caller of a host function chooses: what he passes holds.

A parameter's default is the author's choice, and so is what the file's own code passes. Must not know how an override
is written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.given import Given, given_as
from warpsmith.source.passed import FILE, chosen_by, gives_entries
from warpsmith.source.places import Place
from warpsmith.source.sites import Site
from warpsmith.source.syntax import (
    FunctionNode,
    Source,
    assignments,
    assigns,
    defaults_of,
    is_name,
    mentions,
    parameters_of,
    walk_scope,
)

_OPTIONS = frozenset({KnobKind.NUM_WARPS, KnobKind.NUM_STAGES, KnobKind.MAXNREG})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def left_to_callers(source: Source, site: Site) -> Site:
    """The site as it may be changed: where the caller did not choose, or not at all."""
    scope, spot = site.launch.scope, site.spot
    in_host_code = spot.place in (Place.AFTER, Place.ENTRY, Place.IN_PLACE)
    is_count = site.origin is KnobOrigin.SM_COUNT
    if site.why_not is not None or is_count or not in_host_code or not isinstance(scope, FunctionNode):
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
        return replace(site, spot=replace(spot, line=inner.lineno, statement=inner))
    for function, name in _givers(source, site, scope):
        if chosen_by(source, function, name) is not FILE:
            return _refused(site, f"it comes from {name}, which {function.name} is given")
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
    if name in parameters_of(scope) and not _is_replaced(source, site, name):
        if (inner := _where_none_was_given(site, scope)) is not None and site.launch.chosen_as is None:
            return replace(site, spot=replace(site.spot, line=inner.lineno, statement=inner))
        if not gives_entries(source, scope, name, site.name):
            return _refused(site, f"{scope.name} may be given it in {name}")
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


def _is_replaced(source: Source, site: Site, name: str) -> bool:
    """Whether a variable is set before the launch whatever the function was given."""
    return any(
        isinstance(statement, ast.Assign | ast.AnnAssign) and assigns(statement, name)
        for block, index in source.blocks_above(site.launch.call, site.launch.scope)
        for statement in block[:index]
    )


def _where_none_was_given(site: Site, scope: _Function) -> ast.stmt | None:
    """The statement under `if name is None:` that sets a parameter which the caller left out."""
    name, statement = (site.spot.target or "").partition("[")[0], site.spot.statement
    if not isinstance(statement, ast.If) or statement.orelse or name not in parameters_of(scope):
        return None
    test = statement.test
    asks = isinstance(test, ast.Compare) and is_name(test.left, name) and isinstance(test.ops[0], ast.Is)
    if not asks or not (isinstance(test, ast.Compare) and ast.unparse(test.comparators[0]) == "None"):
        return None
    setting = [s for s in statement.body if any(found.name == name for found in assignments(s))]
    return setting[-1] if len(setting) == 1 and isinstance(setting[0], ast.Assign) else None


def _givers(source: Source, site: Site, scope: _Function) -> Iterator[Given]:
    """The parameters that the knob's value may be as it is."""
    spot, target = site.spot, site.spot.target
    values = list(spot.reads[:1])
    if spot.place is Place.AFTER and spot.statement is not None and target is not None:
        values = [f.value for f in assignments(spot.statement) if f.name == target and f.value is not None]
        is_asked = target in defaults_of(scope) or target.lower() == site.name.lower()
        if target in parameters_of(scope) and (
            not isinstance(spot.statement, ast.Assign | ast.AnnAssign)
            or (is_asked and any(mentions(value, target) for value in values))
        ):
            yield scope, target
    for value in values:
        yield from given_as(source, scope, value, (site.name, target or site.name))
