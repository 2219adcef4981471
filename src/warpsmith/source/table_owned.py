"""Which statements of a source are a settings table's own, told by what they say: a user's may have the same names."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

from warpsmith.source.editing import NotApplicable
from warpsmith.source.syntax import Source, last_name
from warpsmith.source.table_text import GPU_KEY, LOOK_UP, TABLE_TYPE, Form, look_up_code

_NAMES = frozenset({LOOK_UP, GPU_KEY, TABLE_TYPE})


def look_up_statements(source: Source) -> list[ast.stmt]:
    """The statements of the look-up: its type, the GPU's key and the function."""
    return [s for s in source.tree.body if _said(s) in _form_of_said()]


def form_in(source: Source) -> Form | None:
    """The form of the look-up that a source has; None where it has none."""
    for statement in source.tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == LOOK_UP:
            return _form_of_said().get(_said(statement))
    return None


def tables_in(source: Source) -> list[ast.AnnAssign]:
    """Every settings table of a source."""
    if form_in(source) is None:
        return []
    return [s for s in source.tree.body if isinstance(s, ast.AnnAssign) and last_name(s.annotation) == TABLE_TYPE]


def expect_free(source: Source, tables: Iterable[str]) -> None:
    """Raises NotApplicable where the module has something of its own by a name that tables or their look-up take."""
    own = (*look_up_statements(source), *tables_in(source))
    wanted = _NAMES | set(tables)
    for statement in source.tree.body:
        if statement in own:
            continue
        for name in sorted(_bound(statement) & wanted):
            raise NotApplicable(
                f"line {statement.lineno}: the source has a {name} of its own, which a table would need"
            )


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of the module gives a meaning, also within an `if` or `try` of it."""
    found: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        waiting += ast.iter_child_nodes(node)
    return found


@cache
def _form_of_said() -> dict[str, Form]:
    """What each statement of a look-up says, and a form that has it."""
    return {_said(statement): form for form in Form for statement in ast.parse(look_up_code(form)).body}


def _said(statement: ast.stmt) -> str:
    """A statement but for its layout and its docstring."""
    if isinstance(statement, ast.FunctionDef) and ast.get_docstring(statement) is not None:
        statement = ast.FunctionDef(**{**dict(ast.iter_fields(statement)), "body": statement.body[1:]})
    return ast.dump(statement)
