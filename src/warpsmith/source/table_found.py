"""Which statements of a source are a settings table and its look-up: known by their content, not by name alone.

A definition of the source's own that bears one of these names is nobody's to change: it is told as taken.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cache

from warpsmith.source.syntax import FunctionNode, Source, assignments, is_name, walk_scope
from warpsmith.source.table_text import GPU_KEY, LOOK_UP, TABLE_TYPE, Form, Ranges, look_up_code

#: GPU -> bytes an element -> bands of (ranges, settings).
TableEntries = dict[tuple[int, int, int], dict[int, list[tuple[Ranges, dict[str, int]]]]]
LOOK_UP_NAMES = (TABLE_TYPE, GPU_KEY, LOOK_UP)


def form_in(source: Source) -> Form | None:
    """The form of the look-up that a source has; None where it has none."""
    written = {_shape(statement) for statement in _named_so(source)}
    return next((form for form in Form if written == _shapes(form)), None)


def look_up_statements(source: Source) -> list[ast.stmt]:
    """The statements of the look-up: its type, the GPU's key and the function. None where any is not as we write it."""
    return _named_so(source) if form_in(source) is not None else []


def tables_in(source: Source) -> list[ast.AnnAssign]:
    """Every settings table of a source."""
    form = form_in(source)
    if form is None:
        return []
    annotated = [s for s in source.tree.body if isinstance(s, ast.AnnAssign) and is_name(s.annotation, TABLE_TYPE)]
    return [s for s in annotated if s.value is not None and _holds_entries(form, s.value)]


def taken(source: Source, names: Collection[str]) -> tuple[str, int] | None:
    """One of these names that the module gives to something of its own, with the line; None where all are free."""
    ours = [*look_up_statements(source), *tables_in(source)]
    for node in walk_scope(source.tree):
        if node in ours or source.parents.get(node) in ours:
            continue
        for name in _bound(node):
            if name in names:
                return name, getattr(node, "lineno", 1)
    return None


def table_names(statement: ast.stmt) -> list[str]:
    """The names that a statement of the module assigns."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def is_look_up(value: ast.expr, name: str) -> bool:
    """Whether an expression looks a launch up in the table `name`."""
    if isinstance(value, ast.IfExp):  # a launch of one of several kernels
        value = value.body
    return (
        isinstance(value, ast.Call)
        and is_name(value.func, LOOK_UP)
        and bool(value.args)
        and is_name(value.args[0], name)
    )


def entries_of(form: Form, value: ast.expr) -> TableEntries:
    """What a table's dictionary says, whatever form it is written in."""
    written = ast.literal_eval(value)
    return {
        gpu: {itemsize: [_band(form, each) for each in _bands(form, of_size)] for itemsize, of_size in by_size.items()}
        for gpu, by_size in written.items()
    }


def _bands(form: Form, of_size: object) -> list[object]:
    return [of_size] if form is Form.GPU_ALONE else list(of_size)  # type: ignore[call-overload]


def _band(form: Form, written: object) -> tuple[Ranges, dict[str, int]]:
    if isinstance(written, dict):
        return (), written
    assert isinstance(written, tuple)
    *ranges, settings = written
    return tuple(ranges) if form is Form.ROWS else tuple(ranges[0]), settings


def _holds_entries(form: Form, value: ast.expr) -> bool:
    try:
        entries_of(form, value)
    except (ValueError, TypeError, AttributeError, AssertionError, IndexError):
        return False
    return True


def _named_so(source: Source) -> list[ast.stmt]:
    """The statements of the module that bear one of the look-up's names, whoever wrote them."""
    return [
        s
        for s in source.tree.body
        if (isinstance(s, ast.FunctionDef) and s.name in LOOK_UP_NAMES)
        or (isinstance(s, ast.Assign) and any(name in LOOK_UP_NAMES for name in table_names(s)))
    ]


@cache
def _shapes(form: Form) -> frozenset[str]:
    return frozenset(map(_shape, ast.parse(look_up_code(form)).body))


def _shape(statement: ast.stmt) -> str:
    """A statement without its layout, comments and docstring."""
    body = statement.body if isinstance(statement, ast.FunctionDef) else []
    own = ast.get_docstring(statement) if isinstance(statement, ast.FunctionDef) else None
    told = ast.dump(statement)
    return told.replace(ast.dump(body[0]), "", 1) if own is not None else told


def _bound(node: ast.AST) -> list[str]:
    """The names that a node of the module's own code gives to something."""
    if isinstance(node, FunctionNode | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.stmt | ast.NamedExpr):
        return [found.name for found in assignments(node) if found.node is node]
    return []
