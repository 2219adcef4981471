"""Takes a settings table out of a source again, with its look-ups and overrides, so that it can be written anew."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from warpsmith.source.editing import Edits
from warpsmith.source.jit import Jit, jit_functions
from warpsmith.source.syntax import Source, is_name, last_name, mentions, names_read, walk_scope
from warpsmith.source.table_owned import (
    LOOK_UP_NAMES,
    TableEntries,
    entries_of,
    form_in,
    look_up_statements,
    table_names,
    tables_in,
)
from warpsmith.source.table_text import LOOK_UP, axes_of_call


@dataclass(frozen=True)
class Removed:
    """A source without one table, and what the table held: its entries, and the sizes that it was keyed by."""

    text: str
    entries: TableEntries = field(default_factory=dict)
    axes: tuple[str, ...] = ()


def without_table(text: str, name: str, *, exactly: bool = False) -> Removed:
    """The source without the table `name`; unchanged where there is none. `exactly` takes the traces out as well."""
    source = Source.read(text)
    table = next((s for s in tables_in(source) if name in table_names(s)), None)
    form = form_in(source)
    if table is None or table.value is None or form is None:
        return Removed(text)
    edits = Edits(text, joins=exactly)
    edits.remove(table)
    axes: tuple[str, ...] = ()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and is_look_up(node.value, name) and isinstance(node.targets[0], ast.Name):
            call = node.value.body if isinstance(node.value, ast.IfExp) else node.value
            assert isinstance(call, ast.Call)
            axes = axes_of_call(form, [edits.text(size) for size in call.args[2:]])
            edits.remove(node)
            _Overrides(source, edits, exactly).drop(node, node.targets[0].id)
    return Removed(edits.apply(), entries_of(form, table.value), axes)


def is_look_up(value: ast.expr, name: str) -> bool:
    """Whether an expression looks a launch up in the table `name`."""
    if isinstance(value, ast.IfExp):  # a launch of one of several kernels
        value = value.body
    if not (isinstance(value, ast.Call) and is_name(value.func, LOOK_UP)):
        return False
    return bool(value.args) and is_name(value.args[0], name)


@dataclass(frozen=True)
class _Overrides:
    """Puts back what the overrides of one table replaced.

    `exactly`: an argument that says no more than the kernel's own default goes too, and so do our parentheses.
    """

    source: Source
    edits: Edits
    exactly: bool

    def drop(self, look_up: ast.Assign, tuned: str) -> None:
        """Every statement and argument that reads `tuned`, put back to what it overrode."""
        options: set[str] = set()
        for node in walk_scope(self.source.scope_of(look_up)):
            if isinstance(node, ast.Assign) and node is not look_up and isinstance(node.targets[0], ast.Name):
                if isinstance(node.value, ast.DictComp) and mentions(node.value, tuned):
                    options.add(node.targets[0].id)
                    self.edits.remove(node)
            elif isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and mentions(node.test, tuned):
                self.edits.remove(node)
        for node in walk_scope(self.source.scope_of(look_up)):
            if isinstance(node, ast.Call) and _reads(node, tuned):
                self._put_back(node)
            elif isinstance(node, ast.keyword) and node.arg is None and _is_one_of(node.value, options):
                self.edits.drop_argument(node.value)

    def _put_back(self, call: ast.Call) -> None:
        """`tuned.get("name", current)` becomes `current`; an assignment that then says nothing goes."""
        parent = self.source.parents[call]
        factor = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult) and parent.right is call
        whole: ast.expr = parent if factor and isinstance(parent, ast.BinOp) else call
        current = parent.left if factor and isinstance(parent, ast.BinOp) else call.args[1]
        statement = self.source.parents[whole]
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == ast.unparse(current):
            guard = self.source.parents[statement]
            whole_statement = guard if isinstance(guard, ast.If) and _is_guard(guard, statement) else statement
            self.edits.remove(whole_statement)
        elif self.exactly and isinstance(statement, ast.keyword) and self._is_own_default(statement, current):
            self.edits.drop_argument(statement.value)
        else:
            self.edits.replace(whole, self.edits.text(current), bare=self.exactly and factor)

    def _is_own_default(self, keyword: ast.keyword, value: ast.expr) -> bool:
        """Whether a launch's last argument gives a constexpr the value that the kernel gives it itself."""
        launch = self.source.parents[keyword]
        if not (
            isinstance(launch, ast.Call) and isinstance(launch.func, ast.Subscript) and launch.keywords[-1] is keyword
        ):
            return False
        jit: Jit | None = jit_functions(self.source).get(last_name(launch.func.value))
        default = jit.defaults.get(keyword.arg or "") if jit is not None else None
        return default is not None and ast.dump(default) == ast.dump(value)


def without_look_up(text: str) -> str:
    """The source without a look-up that no table is left for, and without the import that it alone needed."""
    source = Source.read(text)
    edits = Edits(text)
    gone = look_up_statements(source)
    left: set[str] = set()
    for statement in source.tree.body:
        if statement not in gone:
            left |= names_read(statement)
    if not gone or left & LOOK_UP_NAMES:
        return text
    for statement in gone:
        edits.remove(statement)
    if "functools" not in left:
        edits.dropped_imports.append("functools")
    return edits.apply()


def _is_guard(node: ast.AST, override: ast.Assign) -> bool:
    """Whether an override alone stands under `if name == default:`."""
    if not (isinstance(node, ast.If) and node.body == [override] and isinstance(node.test, ast.Compare)):
        return False
    return isinstance(node.test.ops[0], ast.Eq) and ast.unparse(node.test.left) == ast.unparse(override.targets[0])


def _reads(call: ast.Call, tuned: str) -> bool:
    func = call.func
    if not (isinstance(func, ast.Attribute) and func.attr == "get" and len(call.args) == 2):
        return False
    return isinstance(func.value, ast.Name) and func.value.id == tuned


def _is_one_of(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names
