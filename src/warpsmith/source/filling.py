"""What is done where a table of the module is found to miss a key, and that nothing tells afterwards that it was.

Must not know how a table is asked: `memo` does.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.source.paths import is_made_of
from warpsmith.source.plain import Plainness
from warpsmith.source.syntax import FunctionNode, is_name, mentions, names_read
from warpsmith.source.uses import Code


@dataclass(frozen=True)
class Question:
    """An `if` that asks a table for a key, and what it does where the key is missing and where it is there."""

    test: ast.expr
    key: ast.expr
    #: the name that holds what `get` gave
    answer: str | None
    missing: Sequence[ast.stmt]
    there: Sequence[ast.stmt]
    #: what stands after the `if`
    rest: Sequence[ast.stmt]


class Filling:
    """One place where a memo gets an entry."""

    def __init__(
        self, code: Code, plain: Plainness, question: Question, store: ast.Assign, target: ast.Subscript
    ) -> None:
        self._code, self._plain, self._question, self._store = code, plain, question, store
        self._returns = isinstance(question.missing[-1], ast.Return)
        missing = question.missing[:-1] if self._returns else question.missing
        self._last, self._work = missing[-1], missing[:-1]
        self._entry = ast.unparse(target)
        #: how the value is written: what was kept, and what got the same
        self._held = {ast.unparse(each) for each in (store.value, *store.targets) if each is not target}
        self._bound = {
            node.id
            for each in question.missing
            for node in ast.walk(each)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        } | ({question.answer} if question.answer else set())

    def is_all(self) -> bool:
        """Whether nothing tells afterwards if the key was missing."""
        statements = [node for each in self._work for node in ast.walk(each) if isinstance(node, ast.stmt)]
        read = [node for each in statements for node in ast.iter_child_nodes(each) if isinstance(node, ast.expr)]
        values = [*read, self._store.value]
        calls = [node for value in values for node in ast.walk(value) if isinstance(node, ast.Call)]
        key = self._question.key
        return (
            self._last is self._store
            and not any(isinstance(node, ast.Name) and node.id in self._bound for node in ast.walk(key))
            and all(map(_is_quiet, self._work))
            and all(map(self._plain.of, calls))
            and all(is_made_of(self._code, value, key, self._set_here()) for value in values)
            and self._ends_alike()
            and not self._is_told()
        )

    def _set_here(self) -> set[str]:
        """The names whose values all come about where the key is missing; others may bring something along."""
        found = {self._question.answer} if self._question.answer else set()
        for name in self._bound - found:
            using = [each for each in (*self._work, self._store) if mentions(each, name)]
            first = using[0] if using else None
            reads = isinstance(first, ast.Assign) and mentions(first.value, name)
            if (isinstance(first, ast.Assign) and not reads) or self._is_bound_within(name, using):
                found.add(name)
        return found

    def _is_bound_within(self, name: str, statements: list[ast.stmt]) -> bool:
        """Whether the function gives a name no value but in these statements."""
        inside = {node for each in statements for node in ast.walk(each)}
        everywhere = [node for node in ast.walk(self._function()) if is_name(node, name)]
        stores = [node for node in everywhere if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        parameters = [node for node in ast.walk(self._function()) if isinstance(node, ast.arg) and node.arg == name]
        return not parameters and all(node in inside for node in stores)

    def _function(self) -> FunctionNode:
        return next(each for each in self._code.reading.source.ancestors(self._store) if isinstance(each, FunctionNode))

    def _ends_alike(self) -> bool:
        """Whether both ways return the entry, or neither returns."""
        there = self._question.there
        if self._returns and not self._is_entry(self._question.missing[-1], self._held):
            return False
        if not there:
            return not self._returns
        answers = {self._question.answer} if self._question.answer else set()
        if isinstance(there[0], ast.Return):
            return self._returns and len(there) == 1 and self._is_entry(there[0], answers)
        taken = isinstance(there[0], ast.Assign) and {ast.unparse(each) for each in there[0].targets} <= self._held
        return taken and not self._returns and len(there) == 1 and self._is_entry(there[0], answers)

    def _is_entry(self, statement: ast.stmt, others: set[str]) -> bool:
        """Whether it returns or assigns the entry, in one of the words for it."""
        value = statement.value if isinstance(statement, ast.Return | ast.Assign) else None
        return value is not None and ast.unparse(value) in {self._entry, *others}

    def _is_told(self) -> bool:
        """Whether a name that the two ways leave with different values is read afterwards."""
        if self._returns:
            return False
        question, differ = self._question, set(self._bound)
        if question.there:
            differ -= {node.id for node in ast.walk(question.there[0]) if isinstance(node, ast.Name)}
        elif question.answer in self._held:
            differ -= {question.answer}
        for statement in question.rest:
            if not isinstance(statement, ast.Assign) or names_read(statement) & differ:
                break
            differ -= {node.id for each in statement.targets for node in ast.walk(each) if isinstance(node, ast.Name)}
        inside = {node for each in (question.test, *question.missing, *question.there) for node in ast.walk(each)}
        return any(
            isinstance(node, ast.Name) and node.id in differ and _is_read(node) and node not in inside
            for node in ast.walk(self._function())
        )


def _is_quiet(statement: ast.stmt, *, in_loop: bool = False) -> bool:
    """Whether all that a statement does is to give names values."""
    if isinstance(statement, ast.If | ast.For | ast.While):
        loops = in_loop or not isinstance(statement, ast.If)
        named = not isinstance(statement, ast.For) or _is_of_names(statement.target)
        return named and all(_is_quiet(each, in_loop=loops) for each in (*statement.body, *statement.orelse))
    if isinstance(statement, ast.Assign):
        return all(map(_is_of_names, statement.targets))
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        return isinstance(statement.target, ast.Name)
    if isinstance(statement, ast.Break | ast.Continue):
        return in_loop
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _is_of_names(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) or (isinstance(target, ast.Tuple) and all(map(_is_of_names, target.elts)))
