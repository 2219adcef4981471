"""Online algorithms: loops that keep a running maximum and rescale what they summed whenever it grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.contracts.audit import Pattern, PatternKind
from warpsmith.source.jit import Jit, loops, operation
from warpsmith.source.syntax import assignments, mentions, names_read

_MAXIMA = frozenset({"maximum", "max"})
_EXPONENTIALS = frozenset({"exp", "exp2", "fast_expf", "exp2_fast"})


def online(jit: Jit) -> Iterator[Pattern]:
    """One pattern where at least one loop of the kernel does so."""
    found: dict[int, str] = {}
    for loop in loops(jit):
        running = _running_maxima(loop)
        for node in ast.walk(loop):
            if operation(node) in _EXPONENTIALS and isinstance(node, ast.Call) and node.args:
                pair = _difference(node.args[0], running)
                if pair is not None:
                    found[node.lineno] = f"{pair[0]} is a running maximum, and sums are rescaled where it grows"
    if found:
        what = "; ".join(dict.fromkeys(found.values()))
        yield Pattern(kind=PatternKind.ONLINE, function=jit.name, lines=tuple(sorted(found)), what=what)


def _running_maxima(loop: ast.For | ast.While) -> dict[str, str]:
    """By the new maximum's name: the old one, which the next pass sees as the new."""
    inside = [found for statement in loop.body for found in assignments(statement) if found.value is not None]
    carried: dict[str, str] = {}
    for found in inside:
        assert found.value is not None
        if any(operation(node) in _MAXIMA for node in ast.walk(found.value)):
            for old in names_read(found.value):
                handed_on = any(
                    other.name == old and other.value is not None and mentions(other.value, found.name)
                    for other in inside
                )
                if handed_on and old != found.name:
                    carried[found.name] = old
    return carried


def _difference(argument: ast.expr, running: dict[str, str]) -> tuple[str, str] | None:
    """(old, new) where an exponential is taken of old - new."""
    for node in ast.walk(argument):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.right, ast.Name):
            old = running.get(node.right.id)
            if old is not None and mentions(node.left, old):
                return old, node.right.id
    return None
