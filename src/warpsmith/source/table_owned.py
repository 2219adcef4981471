"""Which statements of a source are a settings table's own, told by what they say: a user's may have the same names.

A look-up that was changed in any part is the author's, whole, and so are the tables that it reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

from warpsmith.source.imports import bound_by
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.syntax import FunctionNode, Source, is_name, walk_scope
from warpsmith.source.table_text import GPU_KEY, LOOK_UP, TABLE_TYPE, Form, Ranges, look_up_code

#: GPU -> bytes an element -> bands of (ranges, settings).
TableEntries = dict[tuple[int, int, int], dict[int, list[tuple[Ranges, dict[str, int]]]]]
LOOK_UP_NAMES = frozenset({LOOK_UP, GPU_KEY, TABLE_TYPE})


def form_in(source: Source) -> Form | None:
    """The form of the look-up that a source has; None where it has none."""
    said = frozenset(_said(statement) for statement in _named_as_the_look_up(source))
    return _form_of_said().get(said)


def look_up_statements(source: Source) -> list[ast.stmt]:
    """The statements of the look-up: its type, the GPU's key and the function."""
    return _named_as_the_look_up(source) if form_in(source) is not None else []


def tables_in(source: Source) -> list[ast.AnnAssign]:
    """Every settings table of a source."""
    form = form_in(source)
    if form is None:
        return []
    annotated = [s for s in source.tree.body if isinstance(s, ast.AnnAssign) and is_name(s.annotation, TABLE_TYPE)]
    return [s for s in annotated if s.value is not None and _is_read(form, s.value)]


def table_names(statement: ast.stmt) -> list[str]:
    """The names that a statement of the module assigns."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def entries_of(form: Form, value: ast.expr) -> TableEntries:
    """What a table's dictionary says, whatever form it is written in."""
    written = ast.literal_eval(value)
    return {
        gpu: {itemsize: [_band(form, each) for each in _bands(form, of_size)] for itemsize, of_size in by_size.items()}
        for gpu, by_size in written.items()
    }


def expect_free(source: Source, tables: Iterable[str]) -> None:
    """Raises NotApplicable where the module has something of its own by a name that tables or their look-up take."""
    own = (*look_up_statements(source), *tables_in(source))
    wanted = LOOK_UP_NAMES | set(tables)
    for statement in source.tree.body:
        if statement in own:
            continue
        inside = () if isinstance(statement, FunctionNode | ast.ClassDef) else walk_scope(statement)
        for node in (statement, *inside):
            for name in sorted(_bound(node) & wanted):
                told = f"line {getattr(node, 'lineno', statement.lineno)}: {name} is the source's own"
                raise NotApplicable(f"{told}, and a table needs that name: rename it first")


def _bound(node: ast.AST) -> set[str]:
    """The names that a node itself gives a meaning."""
    if isinstance(node, FunctionNode | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    return {each.name for each in bound_by(node)}


def _bands(form: Form, of_size: object) -> list[object]:
    return [of_size] if form is Form.GPU_ALONE else list(of_size)  # type: ignore[call-overload]


def _band(form: Form, written: object) -> tuple[Ranges, dict[str, int]]:
    if isinstance(written, dict):
        return (), written
    assert isinstance(written, tuple)
    *ranges, settings = written
    return tuple(ranges) if form is Form.ROWS else tuple(ranges[0]), settings


def _is_read(form: Form, value: ast.expr) -> bool:
    try:
        entries_of(form, value)
    except (ValueError, TypeError, AttributeError, AssertionError, IndexError):
        return False
    return True


def _named_as_the_look_up(source: Source) -> list[ast.stmt]:
    """The statements of the module that bear one of the look-up's names, whoever wrote them."""
    return [
        s
        for s in source.tree.body
        if (isinstance(s, ast.FunctionDef) and s.name in LOOK_UP_NAMES)
        or (isinstance(s, ast.Assign) and not LOOK_UP_NAMES.isdisjoint(table_names(s)))
    ]


@cache
def _form_of_said() -> dict[frozenset[str], Form]:
    """What the statements of a look-up say, and its form."""
    return {frozenset(map(_said, ast.parse(look_up_code(form)).body)): form for form in Form}


def _said(statement: ast.stmt) -> str:
    """A statement but for its layout and its docstring."""
    if isinstance(statement, ast.FunctionDef) and ast.get_docstring(statement) is not None:
        statement = ast.FunctionDef(**{**dict(ast.iter_fields(statement)), "body": statement.body[1:]})
    return ast.dump(statement)
