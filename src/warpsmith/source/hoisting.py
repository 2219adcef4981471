"""Which statements go before a loop with a load that never changes in it, and where that would change a value.

Must not know how the source is changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.source.access import Access, Addresses
from warpsmith.source.jit import LOADS, Jit, operation
from warpsmith.source.launches import Reading
from warpsmith.source.loop_bound import Chain, why_bound
from warpsmith.source.loops import Loop, changing, differs, loops_around
from warpsmith.source.redundant_loads import invariant_loads
from warpsmith.source.syntax import assignments, names_read


class Unsure(Exception):
    """The load stays where it is. The message says why."""


@dataclass(frozen=True)
class Hoist:
    """`statements` go before `loop`, in order.

    Where `named` is not None, the load is a part of a statement that stays: it goes last, under that name.
    """

    loop: Loop
    access: Access
    statements: tuple[ast.stmt, ...]
    named: str | None


def hoist(reading: Reading, jit: Jit, access: Access, loop: Loop) -> Hoist:
    """What goes before `loop` for a load that never changes in it. Raises Unsure."""
    statement = reading.source.statement_of(access.call)
    moving = _Moving(reading, jit, _chain(reading, jit, access, loop))
    moving.check_place(statement, f"{access.pointer} is loaded")
    if (why := why_bound(reading, jit, access, moving.chain)) is not None:
        raise Unsure(why)
    try:
        return Hoist(loop, access, moving.with_needed([statement]), None)
    except Unsure:
        if isinstance(statement, ast.Assign) and statement.value is access.call:
            raise
    needed = moving.with_needed(moving.needed(access.call))
    return Hoist(loop, access, needed, _free_name(reading, jit, access))


def _chain(reading: Reading, jit: Jit, access: Access, outermost: Loop) -> Chain:
    """The loops around a load, innermost first, as far as the one that it leaves."""
    around = loops_around(reading.source, access.call, jit)
    return tuple(around[: around.index(outermost) + 1])


@dataclass(frozen=True)
class _Moving:
    """Statements on their way out of the loops around a load."""

    reading: Reading
    jit: Jit
    chain: Chain

    @property
    def loop(self) -> Loop:
        return self.chain[-1]

    @property
    def addresses(self) -> Addresses:
        return self.reading.addresses(self.jit)

    def with_needed(self, wanted: list[ast.stmt]) -> tuple[ast.stmt, ...]:
        """The wanted statements with all that they need, in the order of the source. Raises Unsure."""
        change = set[str]().union(*(changing(self.addresses, loop) for loop in self.chain))
        found: list[ast.stmt] = []
        waiting = list(wanted)
        while waiting:
            statement = waiting.pop()
            if statement not in found:
                self._check_statement(statement, change)
                found.append(statement)
                waiting += self.needed(statement)
        return tuple(sorted(found, key=lambda each: each.lineno))

    def needed(self, node: ast.AST) -> list[ast.stmt]:
        """The statements of the loop that set what is read."""
        return list(dict.fromkeys(s for name in sorted(names_read(node)) for s in self._set_in_loop(name)))

    def check_place(self, statement: ast.stmt, what: str) -> None:
        """That a statement stands in one of the loops themselves, with no branch around it, on lines of its own."""
        source = self.reading.source
        parent = source.parents[statement]
        child: ast.AST = statement
        while isinstance(parent, Loop) and child in parent.body and parent is not self.loop:
            parent, child = source.parents[parent], parent
        if parent is not self.loop or child not in self.loop.body:
            raise Unsure(f"{what} only in the branch of line {_line(parent)}")
        last = statement.end_lineno or statement.lineno
        holder = source.parents[statement]
        beside = [each for each in getattr(holder, "body", ()) if each is not statement]
        if _line(holder) == statement.lineno or any(
            each.lineno <= last and (each.end_lineno or last) >= statement.lineno for each in beside
        ):
            raise Unsure(f"line {statement.lineno} holds more than one statement")

    def _check_statement(self, statement: ast.stmt, change: set[str]) -> None:
        """That a statement gives the same in every pass, and that nothing finds another value for its move."""
        line = statement.lineno
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            raise Unsure(f"line {line} does more than set a name")
        names = [found.name for found in assignments(statement)]
        self.check_place(statement, f"{' and '.join(names)} is set")
        if more := [name for name in names if len(list(self._set_in_loop(name))) > 1 or names.count(name) > 1]:
            raise Unsure(f"{more[0]} is set more than once in the loop")
        if not names or (names_read(statement) | set(names)) & change or differs(statement):
            raise Unsure(f"line {line} does not give the same in every pass")
        for node in ast.walk(statement):
            if operation(node) in LOADS:
                self._check_load(node, line)
        for name in names:
            self._check_name(name, statement)

    def _check_load(self, call: ast.AST, line: int) -> None:
        found = [(a, loop) for a, loop in invariant_loads(self.reading, self.jit) if a.call is call]
        if not found or found[0][1] not in (self.loop, *self.reading.source.ancestors(self.loop)):
            raise Unsure(f"line {line} also loads what changes in the loop")
        if (why := why_bound(self.reading, self.jit, found[0][0], self.chain)) is not None:
            raise Unsure(why)

    def _check_name(self, name: str, statement: ast.stmt) -> None:
        """That no read of the name finds another value than before."""
        inside = set(ast.walk(self.loop))
        reads = [
            node
            for node in ast.walk(self.jit.node)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        ]
        for node in reads:
            if node in inside and node.lineno < statement.lineno:
                raise Unsure(f"line {node.lineno} reads {name} before it is set in line {statement.lineno}")
        elsewhere = name in self.jit.parameters or any(
            found.name == name and found.node not in inside for found in assignments(self.jit.node)
        )
        within = bool(loops_around(self.reading.source, self.loop, self.jit))
        later = [n for n in reads if n not in inside and (within or n.lineno > (self.loop.end_lineno or 0))]
        if elsewhere and later:
            raise Unsure(f"{name} is set outside the loop too, and read there in line {later[0].lineno}")

    def _set_in_loop(self, name: str) -> Iterator[ast.stmt]:
        """The statements of the loop that set a name, as often as they do, also those of loops in it."""
        for found in assignments(self.loop):
            if found.name == name:
                yield self.reading.source.statement_of(found.node)


def _free_name(reading: Reading, jit: Jit, access: Access) -> str:
    """A name for what is loaded, after its pointer, that means nothing else there."""
    assert access.pointer is not None
    stem = access.pointer
    for end in ("_ptrs", "_ptr", "_pointer", "_Ptr", "_PTR"):
        stem = stem.removesuffix(end)
    taken = {node.id for node in ast.walk(jit.node) if isinstance(node, ast.Name)} | set(jit.parameters)
    taken |= set(reading.source.module_values)
    for name in (stem, f"{stem}_value", f"{stem}_loaded"):
        if name.isidentifier() and name not in taken:
            return name
    raise Unsure(f"{stem}, {stem}_value and {stem}_loaded are names of other things")


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))
