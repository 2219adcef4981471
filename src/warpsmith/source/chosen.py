"""Kernels that reach a launch by a name of the host function: an alias, one chosen by a condition, a bound launch.

Owns which jit functions such a name may stand for. Must not know of knobs.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from warpsmith.source.syntax import Scope, Source, assignments, last_name, walk_scope

#: How a kernel is handed to PyTorch's tracer; what comes back is launched alike.
WRAPPERS = ("wrap_triton", "capture_triton")


@dataclass(frozen=True)
class Chosen:
    """The jit functions that a local name may be. `told_apart`: whether `name is kernel` says which."""

    kernels: tuple[str, ...]
    told_apart: bool


@dataclass(frozen=True)
class Bound:
    """`run = kernel[grid]` and one of its calls."""

    call: ast.Call
    subscript: ast.Subscript


def unwrapped(kernel: ast.expr) -> ast.expr:
    """The kernel itself in `wrap_triton(kernel)`."""
    if isinstance(kernel, ast.Call) and last_name(kernel.func) in WRAPPERS and kernel.args:
        return kernel.args[0]
    return kernel


def chosen_kernels(scope: Scope, name: str, jits: Collection[str]) -> Chosen | None:
    """What a name may be where the function sets it; None where it may be anything else than kernels of this file."""
    kernels: list[str] = []
    told_apart = True
    for found in assignments(scope):
        if found.name != name:
            continue
        values = list(_alternatives(found.value))
        told_apart = told_apart and all(unwrapped(value) is value for value in values)
        names = [last_name(unwrapped(value)) for value in values]
        if not set(names) <= set(jits):
            return None
        kernels += names
    return Chosen(tuple(dict.fromkeys(kernels)), told_apart) if kernels else None


def _alternatives(value: ast.expr | None) -> Iterator[ast.expr]:
    """The ends of a conditional expression; a missing kernel is None, which nobody launches."""
    if isinstance(value, ast.IfExp):
        yield from _alternatives(value.body)
        yield from _alternatives(value.orelse)
    elif value is not None and not (isinstance(value, ast.Constant) and value.value is None):
        yield value
    elif value is None:
        yield ast.Constant(value=None)


def bound_launches(source: Source, subscript: ast.Subscript) -> list[Bound] | None:
    """The calls of the name that `kernel[grid]` is bound to, None where it goes elsewhere as well."""
    statement = source.parents[subscript]
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.value is subscript):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return None
    scope = source.scope_of(subscript)
    if sum(found.name == target.id for found in assignments(scope)) != 1:
        return None
    reads = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == target.id and n is not target]
    parents = [source.parents[read] for read in reads]
    calls = [p for p, read in zip(parents, reads, strict=True) if isinstance(p, ast.Call) and p.func is read]
    here = set(walk_scope(scope))
    if not calls or len(calls) != len(reads) or not all(call in here for call in calls):
        return None
    return [Bound(call, subscript) for call in calls]
