"""Which names of a kernel change from one pass of a loop to the next. Must not know what follows from it."""

from __future__ import annotations

import ast

from warpsmith.source.access import Addresses
from warpsmith.source.jit import STORES, Jit, operation
from warpsmith.source.syntax import Assignment, Source, assignments, names_read, walk_scope

Loop = ast.For | ast.While
#: What gives another value each time it is asked.
_NEVER_THE_SAME = frozenset({"inline_asm_elementwise", "globaltimer", "clock"})


def loops_around(source: Source, node: ast.AST, jit: Jit) -> list[Loop]:
    """The loops of the kernel that a node is in, innermost first. What stands in the head of a loop is not in it."""
    found: list[Loop] = []
    child = node
    for parent in source.ancestors(node):
        if parent is jit.node:
            break
        if isinstance(parent, Loop) and isinstance(child, ast.stmt):
            found.append(parent)
        child = parent
    return found


def writes_memory(loop: Loop) -> bool:
    """Whether a loop stores or orders memory itself."""
    names = {operation(node) or "" for node in walk_scope(loop)}
    return any(name in STORES or name.startswith("atomic_") or name == "debug_barrier" for name in names)


def changing(addresses: Addresses, loop: Loop) -> set[str]:
    """The names whose values may differ between two passes of a loop."""
    inside = [found for statement in loop.body for found in assignments(statement)]
    tests = _tests(loop)
    stored = _stored_through(addresses, loop)
    times = [found.name for found in inside]
    names = {found.name for found in inside if times.count(found.name) > 1 or _carries(found, inside)}
    if isinstance(loop, ast.For):
        names |= {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    before = -1
    while before != (before := len(names)):
        names |= {found.name for found in inside if _changes(found, names, tests.get(found.node, set()))}
        names |= {found.name for found in inside if found.value and addresses.trait(found.value).loaded & stored}
    return names


def _changes(found: Assignment, names: set[str], tests: set[str]) -> bool:
    """Whether an assignment gives another value because of names that change, or because nothing is known of it."""
    return found.value is None or bool((names_read(found.value) | tests) & names) or differs(found.value)


def differs(value: ast.AST) -> bool:
    """Whether an expression gives another value each time whatever it reads."""
    called = (operation(node) or "" for node in ast.walk(value))
    return any(name in _NEVER_THE_SAME or name.startswith("atomic_") for name in called)


def _carries(found: Assignment, inside: list[Assignment]) -> bool:
    """Whether a value is made from what the pass before left: from a name that is set only here or further on."""
    if found.value is None or isinstance(found.node, ast.AugAssign):
        return True
    read = names_read(found.value)
    return any(other.name in read and _line(other.node) >= _line(found.node) for other in inside)


def _tests(loop: Loop) -> dict[ast.AST, set[str]]:
    """By statement in the loop: the names that decide whether it runs."""
    found: dict[ast.AST, set[str]] = {}
    for node in walk_scope(loop):
        if isinstance(node, ast.If | ast.While):
            read = names_read(node.test)
            for inner in ast.walk(node):
                if isinstance(inner, ast.stmt) and inner is not node:
                    found.setdefault(inner, set()).update(read)
    return found


def _stored_through(addresses: Addresses, loop: Loop) -> frozenset[str]:
    inner = set(ast.walk(loop))
    return frozenset(a.pointer for a in addresses.accesses() if a.pointer and not a.is_load and a.call in inner)


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))
