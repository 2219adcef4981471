"""Whether a kernel, or what it calls, learns of a program's place elsewhere, or lets one program wait for another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.source.jit import Jit, operation
from warpsmith.source.launches import Reading
from warpsmith.source.syntax import Source, dotted, walk_scope

#: What one program can wait on another by, or learn its place from.
_LOCKS = frozenset({"atomic_cas", "atomic_xchg"})
_PLACES = frozenset({"program_id", "num_programs", "inline_asm_elementwise"})
#: Python's own functions that kernels call.
_PLAIN = frozenset({"range", "min", "max", "abs", "float", "int", "bool", "len", "tuple", "print", "zip", "getattr"})


class NoTileOrder(Exception):
    """The tiles of a kernel are not free to change places. The message says why."""


def refuse_other_places(reading: Reading, jit: Jit) -> None:
    """Raises NoTileOrder where the order of programs may matter, beyond the program ids that it reads."""
    foreign = _foreign_names(reading.source)
    for other in reading.jits.values():
        if other is not jit and any(_called(call) == jit.name for call in _calls(other)):
            raise NoTileOrder(f"{other.name} calls {jit.name}, and may know of the program's place too")
    for call in _calls(jit):
        name = operation(call) or ""
        if name in _PLACES and name != "program_id":
            raise NoTileOrder(f"line {call.lineno}: {jit.name} uses {name}, which may tell the program's place")
        if name in _LOCKS:
            raise NoTileOrder(f"line {call.lineno}: programs may wait for each other by {name}")
        if name.startswith("atomic_") and not isinstance(reading.source.parents[call], ast.Expr):
            raise NoTileOrder(f"line {call.lineno}: {jit.name} reads what {name} returns: the order of programs")
        _refuse_called(reading, call, jit, foreign)


def _refuse_called(reading: Reading, call: ast.Call, jit: Jit, foreign: frozenset[str]) -> None:
    """What it calls must be Triton's or in this file, and must not ask where the program stands."""
    root = (dotted(call.func) or "").partition(".")[0]
    name = _called(call)
    if name is not None and name in reading.jits:
        asking = next((c for c in _all_calls(reading, name, set()) if operation(c) in _PLACES | _LOCKS), None)
        if asking is not None:
            raise NoTileOrder(f"line {asking.lineno}: {name}, which {jit.name} calls, asks for the program's place")
    elif root in foreign and operation(call) != "program_id":
        raise NoTileOrder(
            f"line {call.lineno}: {dotted(call.func)} is not in this file and may know the program's place"
        )
    elif name is not None and root not in _names_of_triton(reading.source) and name not in _PLAIN:
        raise NoTileOrder(f"line {call.lineno}: {name} is not in this file and may know the program's place")


def _all_calls(reading: Reading, name: str, seen: set[str]) -> Iterator[ast.Call]:
    """The calls in a jit function of this file, and in those that it calls."""
    if name in seen:
        return
    seen.add(name)
    for call in _calls(reading.jits[name]):
        yield call
        inner = _called(call)
        if inner is not None and inner in reading.jits:
            yield from _all_calls(reading, inner, seen)


def _calls(jit: Jit) -> Iterator[ast.Call]:
    return (node for node in walk_scope(jit.node) if isinstance(node, ast.Call))


def _called(call: ast.Call) -> str | None:
    return call.func.id if isinstance(call.func, ast.Name) else None


def _foreign_names(source: Source) -> frozenset[str]:
    """What is imported from elsewhere than Triton and the standard library's math."""
    return frozenset(name for name, module in _imported(source) if module not in ("triton", "math"))


def _names_of_triton(source: Source) -> frozenset[str]:
    return frozenset(name for name, module in _imported(source) if module == "triton")


def _imported(source: Source) -> Iterator[tuple[str, str]]:
    """(bound name, top package; "" for a relative import)."""
    for node in source.parents:
        if isinstance(node, ast.Import):
            yield from ((a.asname or a.name.partition(".")[0], a.name.partition(".")[0]) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = (node.module or "").partition(".")[0] if not node.level else ""
            yield from ((a.asname or a.name, package) for a in node.names)
