"""What passes hand to each other: what is saved for backward, what backward computes again, what shares memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.contracts.audit import Pattern, PatternKind
from warpsmith.source.call_paths import CallPaths
from warpsmith.source.jit import DOTS, Jit, operation
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.syntax import assignments, walk_scope

#: What is worth naming where it is computed twice. Sums and maxima only where they are written alike.
_COSTLY = DOTS | {
    "exp", "exp2", "expm1", "log", "log2", "log1p", "rsqrt", "sqrt", "tanh", "sigmoid", "erf", "sin", "cos", "softmax",
}  # fmt: skip
_REDUCTIONS = frozenset({"sum", "max", "min"})


def saved_for_backward(paths: CallPaths) -> Iterator[Pattern]:
    """What autograd functions save, one pattern for all methods of a name."""
    told: dict[str, list[str]] = {}
    lines: dict[str, list[int]] = {}
    for method in (*paths.passes("forward"), *paths.passes("setup_context")):
        saved: list[str] = []
        for node in walk_scope(method):
            if isinstance(node, ast.Call) and operation(node) == "save_for_backward":
                saved += [ast.unparse(argument) for argument in node.args]
                lines.setdefault(method.name, []).append(node.lineno)
        if saved:
            told.setdefault(method.name, []).append(
                f"{paths.class_of(method)} saves {', '.join(dict.fromkeys(saved))}{_kept(method)}"
            )
    for name, parts in told.items():
        kind = PatternKind.SAVED_FOR_BACKWARD
        yield Pattern(kind=kind, function=name, lines=tuple(sorted(lines[name])), what="; ".join(parts))


def _kept(method: ast.AST) -> str:
    """What a pass keeps on ctx beside its tensors."""
    names = [
        target.attr
        for node in walk_scope(method)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "ctx"
    ]
    return f" and keeps {', '.join(dict.fromkeys(names))} on ctx" if names else ""


def recomputed(reading: Reading, paths: CallPaths) -> Iterator[Pattern]:
    """What a kernel of the backward pass computes from the same tensors as one of the forward pass does."""
    forward, backward = _kernels_of_passes(reading, paths)
    first: dict[tuple[str, ...], str] = {}
    for jit in forward:
        for key in _computed(reading, jit):
            first.setdefault(key, jit.name)
    for jit in backward:
        again = {key: line for key, line in _computed(reading, jit).items() if key in first}
        if again:
            told = [f"{key[0]} of {', '.join(key[1].split())} (line {line})" for key, line in again.items()]
            kernels = " and ".join(dict.fromkeys(first[key] for key in again))
            yield Pattern(
                kind=PatternKind.RECOMPUTED,
                function=jit.name,
                lines=tuple(sorted(set(again.values()))),
                what=f"{', '.join(told)}, as in {kernels}",
            )


def _kernels_of_passes(reading: Reading, paths: CallPaths) -> tuple[list[Jit], list[Jit]]:
    """The kernels of the forward pass alone and of the backward pass alone: by who launches them, else by name."""
    forward, backward = (
        {
            launch.jit_name
            for function in paths.below(paths.passes(name))
            for launch in reading.launches
            if launch.scope is function
        }
        for name in ("forward", "backward")
    )
    if not forward or not backward:
        forward = {name for name in reading.jits if "fwd" in name or "forward" in name}
        backward = {name for name in reading.jits if "bwd" in name or "backward" in name}
    jits = reading.jits
    return (
        [jits[name] for name in jits if name in forward - backward],
        [jits[name] for name in jits if name in backward - forward],
    )


def _computed(reading: Reading, jit: Jit) -> dict[tuple[str, ...], int]:
    """(operation, what it is computed from[, how it is written]) of costly operations, with the first line of each."""
    addresses = reading.addresses(jit)
    found: dict[tuple[str, ...], int] = {}
    for node in walk_scope(jit.node):
        name = operation(node)
        if not isinstance(node, ast.Call) or name is None:
            continue
        sources = " ".join(sorted({_plain(pointer) for pointer in addresses.trait(node).loaded}))
        if not sources:
            continue
        if name in _COSTLY:
            found.setdefault((name, sources), node.lineno)
        elif name in _REDUCTIONS and isinstance(node.func, ast.Attribute):
            written = ", ".join(ast.unparse(argument).lower() for argument in node.args)
            found.setdefault((name, sources, written), node.lineno)
        elif name in reading.jits and name != jit.name:
            for inner in _costly_inside(reading, name, frozenset({jit.name})):
                found.setdefault((inner, sources), node.lineno)
    return found


def _costly_inside(reading: Reading, name: str, seen: frozenset[str]) -> list[str]:
    """The costly operations of a jit function that a kernel calls, and of those that it calls."""
    found: list[str] = []
    for node in walk_scope(reading.jits[name].node):
        called = operation(node) or ""
        if called in _COSTLY:
            found.append(called)
        elif called in reading.jits and called not in seen | {name}:
            found += _costly_inside(reading, called, seen | {name})
    return list(dict.fromkeys(found))


def _plain(pointer: str) -> str:
    return pointer.lower().removesuffix("_ptr").removesuffix("_ptrs").strip("_")


def shared_memory(reading: Reading) -> Iterator[Pattern]:
    """Launches that hand one tensor to a kernel twice, or under a second name, where the kernel stores to it."""
    told: dict[str, list[str]] = {}
    lines: dict[str, list[int]] = {}
    for launch in reading.launches:
        for line, what in _aliases(reading, launch):
            if what not in told.setdefault(launch.host_function, []):
                told[launch.host_function].append(what)
            lines.setdefault(launch.host_function, []).append(line)
    for function, parts in told.items():
        if parts:
            found = tuple(sorted(set(lines[function])))
            yield Pattern(kind=PatternKind.IN_PLACE, function=function, lines=found, what="; ".join(parts))


def _aliases(reading: Reading, launch: Launch) -> Iterator[tuple[int, str]]:
    if launch.jit is None:
        return
    stored = {access.pointer for access in reading.addresses(launch.jit).accesses() if access.is_store}
    passed = launch.tensors
    twice = {name: parameters for name, parameters in passed.items() if len(parameters) > 1}
    for name, parameters in twice.items():
        if stored & set(parameters):
            yield launch.line, f"{name} is handed to {launch.jit_name} as {' and '.join(parameters)}"
    for found in assignments(launch.scope):
        if not (isinstance(found.node, ast.Assign) and isinstance(found.value, ast.Name)):
            continue
        source = found.value.id
        if source in passed and source != found.name and stored & set(passed.get(found.name, ())):
            yield found.value.lineno, f"{found.name} may be {source}, which {launch.jit_name} then overwrites"
