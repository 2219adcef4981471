"""Which form the tables of one file are written in, and brings those that it has to another.

A file has one look-up, so all its tables are written alike: a table of another number of sizes changes them all.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from warpsmith.source.editing import Edits
from warpsmith.source.syntax import Source
from warpsmith.source.table_owned import entries_of, form_in, look_up_statements, table_names, tables_in
from warpsmith.source.table_removal import is_look_up
from warpsmith.source.table_text import (
    Form,
    axes_of_call,
    form_of,
    look_up_call,
    look_up_code,
    table_value,
)


def form_with(text: str, numbers_of_axes: Sequence[int]) -> Form:
    """The form of a source's tables together with further tables of these numbers of axes."""
    source = Source.read(text)
    return form_of([*numbers_of_axes, *(len(axes) for axes in _axes_by_table(source).values())])


def with_form(text: str, form: Form) -> str:
    """The source with its tables, and their look-up, in this form; unchanged where it has none."""
    source = Source.read(text)
    present, tables = form_in(source), tables_in(source)
    if present in (None, form):
        return text
    edits = Edits(text)
    for statement in look_up_statements(source):
        edits.remove(statement)
    if tables:
        edits.add_before(tables[0], look_up_code(form))
    for table in tables:
        assert table.value is not None
        edits.replace(table.value, table_value(form, entries_of(present, table.value)))
    for name, axes in _axes_by_table(source).items():
        for call in _look_ups(source, name):
            edits.replace(call, look_up_call(form, name, edits.text(call.args[1]), axes))
    return edits.apply()


def _axes_by_table(source: Source) -> dict[str, tuple[str, ...]]:
    """By table that is looked up: the sizes that it is keyed by, in its own order."""
    form = form_in(source)
    found: dict[str, tuple[str, ...]] = {}
    for name in (name for table in tables_in(source) for name in table_names(table)):
        for call in _look_ups(source, name):
            assert form is not None
            found[name] = axes_of_call(form, [ast.unparse(size) for size in call.args[2:]])
    return found


def _look_ups(source: Source, name: str) -> list[ast.Call]:
    return [node for node in ast.walk(source.tree) if isinstance(node, ast.Call) and is_look_up(node, name)]
