"""Takes a settings table out of a source again, with its look-ups and overrides, so that it can be written anew."""

from __future__ import annotations

import ast

from warpsmith.source.editing import Edits
from warpsmith.source.syntax import Source, mentions, walk_scope
from warpsmith.source.table_text import LOOK_UP, Ranges

#: GPU -> bytes an element -> bands of (width, rows, settings).
TableEntries = dict[tuple[int, int, int], dict[int, list[Ranges]]]


def without_table(text: str, name: str) -> tuple[str, TableEntries]:
    """The source without the table `name`, and what the table held; unchanged where there is none."""
    source = Source.read(text)
    table = next((s for s in source.tree.body if _assigns_table(s, name)), None)
    if not isinstance(table, ast.AnnAssign | ast.Assign) or table.value is None:
        return text, {}
    edits = Edits(text)
    edits.remove(table)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and _looks_up(node.value, name) and isinstance(node.targets[0], ast.Name):
            edits.remove(node)
            _drop_overrides(source, edits, node, node.targets[0].id)
    entries: TableEntries = ast.literal_eval(table.value)
    return edits.apply(), entries


def _assigns_table(statement: ast.stmt, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _looks_up(value: ast.expr, name: str) -> bool:
    if isinstance(value, ast.IfExp):  # a launch of one of several kernels
        value = value.body
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == LOOK_UP):
        return False
    return bool(value.args) and isinstance(value.args[0], ast.Name) and value.args[0].id == name


def _drop_overrides(source: Source, edits: Edits, look_up: ast.Assign, tuned: str) -> None:
    """Every statement and argument that reads `tuned`, put back to what it overrode."""
    options: set[str] = set()
    for node in walk_scope(source.scope_of(look_up)):
        if isinstance(node, ast.Assign) and node is not look_up and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, ast.DictComp) and mentions(node.value, tuned):
                options.add(node.targets[0].id)
                edits.remove(node)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and mentions(node.test, tuned):
            edits.remove(node)
    for node in walk_scope(source.scope_of(look_up)):
        if isinstance(node, ast.Call) and _reads(node, tuned):
            _put_back(source, edits, node)
        elif isinstance(node, ast.keyword) and node.arg is None and _is_one_of(node.value, options):
            edits.drop_argument(node.value)


def _put_back(source: Source, edits: Edits, call: ast.Call) -> None:
    """`tuned.get("name", current)` becomes `current`; an assignment that then says nothing goes."""
    parent = source.parents[call]
    factor = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult) and parent.right is call
    whole: ast.expr = parent if factor and isinstance(parent, ast.BinOp) else call
    current = parent.left if factor and isinstance(parent, ast.BinOp) else call.args[1]
    statement = source.parents[whole]
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == ast.unparse(current):
        edits.remove(statement)
    else:
        edits.replace(whole, edits.text(current))


def _reads(call: ast.Call, tuned: str) -> bool:
    func = call.func
    if not (isinstance(func, ast.Attribute) and func.attr == "get" and len(call.args) == 2):
        return False
    return isinstance(func.value, ast.Name) and func.value.id == tuned


def _is_one_of(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names
