"""What one launch of a host function leaves in memory for a later one: tensors that are read again in the same call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.contracts.audit import Pattern, PatternKind
from warpsmith.source.branches import exclusive
from warpsmith.source.jit import Jit
from warpsmith.source.launches import Launch, Reading


def read_again(reading: Reading, jit: Jit) -> frozenset[str]:
    """The parameters of a jit function for which some launch passes a tensor that a later launch of its call loads."""
    return frozenset(
        parameter
        for launch in reading.launches
        if launch.jit is jit
        for later in _later(reading, launch)
        for variable in _loaded(reading, later)
        for parameter in launch.tensors.get(variable, ())
    )


def intermediates(reading: Reading) -> Iterator[Pattern]:
    """Tensors that one launch of a host function stores and a later one loads, one pattern a host function."""
    told: dict[str, list[str]] = {}
    lines: dict[str, set[int]] = {}
    for launch in reading.launches:
        for later in _later(reading, launch):
            shared = [name for name in launch.tensors if name in _stored(reading, launch) & _loaded(reading, later)]
            for name in shared:
                what = f"{name} goes through memory from {launch.jit_name} to {later.jit_name}"
                if what not in told.setdefault(launch.host_function, []):
                    told[launch.host_function].append(what)
                lines.setdefault(launch.host_function, set()).update((launch.line, later.line))
    for function, parts in told.items():
        found = tuple(sorted(lines[function]))
        yield Pattern(kind=PatternKind.INTERMEDIATE, function=function, lines=found, what="; ".join(parts))


def _later(reading: Reading, launch: Launch) -> Iterator[Launch]:
    """The launches of the same host function that may run after it in the same call."""
    for other in reading.launches:
        apart = other is launch or other.scope is not launch.scope
        if apart or exclusive(reading.source, launch.call, other.call):
            continue
        if other.line > launch.line or _loops(reading, launch) & _loops(reading, other):
            yield other


def _loops(reading: Reading, launch: Launch) -> frozenset[ast.AST]:
    """The loops of its host function that a launch is in."""
    found: list[ast.AST] = []
    for parent in reading.source.ancestors(launch.call):
        if parent is launch.scope:
            break
        found += [parent] if isinstance(parent, ast.For | ast.While) else []
    return frozenset(found)


def _loaded(reading: Reading, launch: Launch) -> frozenset[str]:
    """The variables whose tensors a launch's kernel loads from."""
    return _accessed(reading, launch, loads=True)


def _stored(reading: Reading, launch: Launch) -> frozenset[str]:
    return _accessed(reading, launch, loads=False)


def _accessed(reading: Reading, launch: Launch, *, loads: bool) -> frozenset[str]:
    if launch.jit is None:
        return frozenset()
    accesses = reading.addresses(launch.jit).accesses()
    pointers = {access.pointer for access in accesses if (access.is_load if loads else access.is_store)}
    return frozenset(name for name, parameters in launch.tensors.items() if pointers & set(parameters))
