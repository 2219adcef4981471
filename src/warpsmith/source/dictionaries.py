"""Launch options that travel in a dictionary: `options = {"num_warps": 4}` and `kernel[grid](..., **options)`.

The entry is overridden after the last statement that changes the dictionary. Must not know what a knob is.
"""

from __future__ import annotations

import ast

from warpsmith.source.launches import Launch
from warpsmith.source.places import Place, Spot
from warpsmith.source.syntax import FunctionNode, Source, assignments, is_name, parameters_of, walk_scope


def dictionary_spot(source: Source, launch: Launch, key: str) -> tuple[Spot, ast.expr | None] | None:
    """Where to override `key` in the dictionary the launch unpacks, and its present value, None for no entry yet.

    None where the launch unpacks no dictionary that may have the entry. One whose making is not seen is copied.
    """
    unpacked = [each for each in launch.dictionaries if not _is_constant_without(source, launch, each, key)]
    if not unpacked:
        return None
    names = [d.id for d in unpacked if isinstance(d, ast.Name)]
    if len(names) != len(unpacked):
        inline = next(each for each in unpacked if not isinstance(each, ast.Name))
        return Spot(Place.IN_PLACE, launch.line, refused=f"it may be inside **{ast.unparse(inline)}"), None
    values = {name: _entries(launch, name, key) for name in names}
    opaque = [name for name in names if not _is_built_here(launch, name)]
    name = next((n for n in names if values[n]), (opaque or names)[0])
    if name in opaque:
        refused = f"it may be inside **{opaque[0]} or **{opaque[1]}" if len(opaque) > 1 else None
        return _spot_of_opaque(source, launch, name, key, refused), None
    last = _last_change(source, launch, name)
    if last is None:
        return Spot(Place.IN_PLACE, launch.line, refused=f"{name} is not built where it reaches the launch"), None
    return Spot(Place.AFTER, last.lineno, f'{name}["{key}"]', last), next(iter(values[name]), None)


def _spot_of_opaque(source: Source, launch: Launch, name: str, key: str, refused: str | None) -> Spot:
    """Where to override an entry of a dictionary that a call returns, or that the function is given by `**`."""
    target = f'{name}["{key}"]'
    last = _last_change(source, launch, name)
    if last is not None and any(found.name == name for found in assignments(launch.scope)):
        return Spot(Place.AFTER, last.lineno, target, last, refused=refused, is_copied=True)
    scope = launch.scope
    if isinstance(scope, FunctionNode) and (name in parameters_of(scope) or _takes_by_stars(scope, name)):
        return Spot(Place.ENTRY, scope.lineno, target, scope, refused=refused, is_copied=True)
    return Spot(Place.IN_PLACE, launch.line, refused=f"it may be inside **{name}, which is made outside the function")


def _takes_by_stars(scope: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return scope.args.kwarg is not None and scope.args.kwarg.arg == name


def _is_constant_without(source: Source, launch: Launch, unpacked: ast.expr, key: str) -> bool:
    """Whether what is unpacked is a dictionary that the module writes out, never changes, and has no such entry."""
    if not isinstance(unpacked, ast.Name) or any(f.name == unpacked.id for f in assignments(launch.scope)):
        return False
    scope = launch.scope
    if isinstance(scope, FunctionNode) and (unpacked.id in parameters_of(scope) or _takes_by_stars(scope, unpacked.id)):
        return False
    built = [found.value for found in assignments(source.tree) if found.name == unpacked.id]
    if len(built) != 1 or not isinstance(built[0], ast.Dict):
        return False
    keys = [entry.value if isinstance(entry, ast.Constant) else None for entry in built[0].keys]
    changed = any(_changes_entries(node, unpacked.id) for node in ast.walk(source.tree))
    return key not in keys and None not in keys and not changed


def _changes_entries(node: ast.AST, name: str) -> bool:
    """Whether a node sets an entry of the dictionary, or calls a method of it."""
    if isinstance(node, ast.Subscript):
        return is_name(node.value, name) and not isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_name(node.func.value, name)


def only_entry(launch: Launch, key: str) -> ast.expr | None:
    """The one expression that sets `key` in a dictionary that the launch unpacks and this function builds."""
    for unpacked in launch.dictionaries:
        if isinstance(unpacked, ast.Name) and _is_built_here(launch, unpacked.id):
            entries = _entries(launch, unpacked.id, key)
            before = [value for value in entries if value.lineno < launch.line]
            if before and len({ast.dump(value) for value in before}) == 1:
                return before[-1]
    return None


def _is_built_here(launch: Launch, name: str) -> bool:
    """Whether every value of the dictionary is a display of it in this function."""
    built = [f.value for f in assignments(launch.scope) if f.name == name]
    return bool(built) and all(isinstance(v, ast.Dict) or _is_dict_call(v) for v in built)


def _is_dict_call(value: ast.expr | None) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict" and not value.args
    )


def _entries(launch: Launch, name: str, key: str) -> list[ast.expr]:
    """Every expression that the function sets the entry to."""
    found: list[ast.expr] = []
    for built in assignments(launch.scope):
        if built.name == name and isinstance(built.value, ast.Dict):
            pairs = zip(built.value.keys, built.value.values, strict=True)
            found += [value for entry, value in pairs if isinstance(entry, ast.Constant) and entry.value == key]
        elif built.name == name and isinstance(built.value, ast.Call) and _is_dict_call(built.value):
            found += [keyword.value for keyword in built.value.keywords if keyword.arg == key]
    found += [
        node.value
        for node in walk_scope(launch.scope)
        if isinstance(node, ast.Assign) and _is_item(node.targets[0], name, key)
    ]
    return found


def _is_item(target: ast.expr, name: str, key: str | None = None) -> bool:
    if not (isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == name):
        return False
    return key is None or (isinstance(target.slice, ast.Constant) and target.slice.value == key)


def _last_change(source: Source, launch: Launch, name: str) -> ast.stmt | None:
    for block, index in source.blocks_above(launch.call, launch.scope):
        for statement in reversed(block[:index]):
            if any(_changes(node, name) for node in (statement, *walk_scope(statement))):
                return statement
    return None


def _changes(node: ast.AST, name: str) -> bool:
    """Whether a node rebinds the dictionary, sets an entry, or hands it to a call that may."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any((isinstance(t, ast.Name) and t.id == name) or _is_item(t, name) for t in targets)
    if isinstance(node, ast.Call):
        handed = any(isinstance(a, ast.Name) and a.id == name for a in node.args)
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        return handed or (isinstance(receiver, ast.Name) and receiver.id == name)
    return False
