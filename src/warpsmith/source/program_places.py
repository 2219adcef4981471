"""Whether a kernel, or what it calls, learns of a program's place elsewhere, or lets one program wait for another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.source.imports import imports
from warpsmith.source.jit import Jit, operation
from warpsmith.source.launches import Reading
from warpsmith.source.syntax import dotted, walk_scope

#: What one program can wait on another by, or learn its place from.
_LOCKS = frozenset({"atomic_cas", "atomic_xchg"})
_PLACES = frozenset({"program_id", "num_programs", "inline_asm_elementwise"})
#: Python's own functions that kernels call.
_PLAIN = frozenset({"range", "min", "max", "abs", "float", "int", "bool", "len", "tuple", "print", "zip", "getattr"})


class NoTileOrder(Exception):
    """The tiles of a kernel are not free to change places. The message says why."""


@dataclass(frozen=True)
class _Names:
    """What imports bind: Triton's names, those of them that are called otherwise there, and what may be any code."""

    tritons: frozenset[str]
    renamed: frozenset[str]
    foreign: frozenset[str]

    @classmethod
    def of(cls, tree: ast.Module) -> _Names:
        found = list(imports(tree))
        tritons = [each for each in found if each.package == "triton"]
        return cls(
            tritons=frozenset(each.name for each in tritons),
            renamed=frozenset(each.name for each in tritons if each.name != each.own_name),
            foreign=frozenset(each.name for each in found if each.package not in ("triton", "math")),
        )


def refuse_other_places(reading: Reading, jit: Jit) -> None:
    """Raises NoTileOrder where the order of programs may matter, beyond the program ids that it reads."""
    imported = _Names.of(reading.source.tree)
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
        _refuse_called(reading, call, jit, imported)


def _refuse_called(reading: Reading, call: ast.Call, jit: Jit, imported: _Names) -> None:
    """What it calls must be Triton's or in this file, and must not ask where the program stands."""
    root = (dotted(call.func) or "").partition(".")[0]
    name = _called(call)
    if name is not None and name in reading.jits:
        inside = _all_calls(reading, name, set())
        asking = next((c for c in inside if operation(c) in _PLACES | _LOCKS or _called(c) in imported.renamed), None)
        if asking is not None:
            raise NoTileOrder(f"line {asking.lineno}: {name}, which {jit.name} calls, asks for the program's place")
    elif name in imported.renamed or (root in imported.foreign and operation(call) != "program_id"):
        raise NoTileOrder(
            f"line {call.lineno}: {dotted(call.func)} is not in this file and may know the program's place"
        )
    elif name is not None and root not in imported.tritons and name not in _PLAIN:
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
