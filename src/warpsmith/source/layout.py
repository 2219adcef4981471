"""Where new code stands in a file and how it is laid out: imports in their block, arguments as their neighbours are."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import libcst as cst

#: Longest line of this project's style; a call that would pass it is spread over lines.
LINE_LENGTH = 120


def statements(code: Sequence[str]) -> list[cst.BaseStatement]:
    """Parsed statements; comments above the first, and leading blank lines, stay with it."""
    found: list[cst.BaseStatement] = []
    for text in code:
        module = cst.parse_module(text + "\n")
        first, *rest = module.body
        leading = [*module.header, *getattr(first, "leading_lines", ())]
        found += [first.with_changes(leading_lines=leading), *rest]
    return found


def led_by(new: cst.BaseStatement, old: cst.BaseStatement) -> tuple[cst.BaseStatement, cst.BaseStatement]:
    """A statement put before another one, with the blank lines above that; its comments stay with it."""
    lines = list(getattr(old, "leading_lines", ()))
    count = next((i for i, line in enumerate(lines) if line.comment is not None), len(lines))
    led = new.with_changes(leading_lines=[*lines[:count], *getattr(new, "leading_lines", ())])
    return led, old.with_changes(leading_lines=lines[count:])


def after_imports_index(body: Sequence[cst.BaseStatement]) -> int:
    """Where a module's code starts: after the imports above its first function or class, else its docstring."""
    index = 0
    for position, statement in enumerate(body):
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            break
        if _imports(statement) or (position == 0 and _is_docstring(statement)):
            index = position + 1
    return index


def _imports(statement: cst.BaseStatement) -> bool:
    """Whether a statement is an import, or an `if` or `try` around imports."""
    if isinstance(statement, cst.SimpleStatementLine):
        return isinstance(statement.body[0], cst.Import | cst.ImportFrom)
    if isinstance(statement, cst.If | cst.Try) and isinstance(statement.body, cst.IndentedBlock):
        return any(_imports(inner) for inner in statement.body.body if isinstance(inner, cst.BaseStatement))
    return False


def _is_docstring(statement: cst.BaseStatement) -> bool:
    if not (isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Expr)):
        return False
    return isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)


def with_import(module: cst.Module, name: str) -> cst.Module:
    """The module with `import name`, a module of the standard library, sorted into its block."""
    (new,) = statements([f"import {name}"])
    body: list[cst.BaseStatement] = list(module.body)
    plain = [(i, _plain_import(s)) for i, s in enumerate(body)]
    standard = [
        (i, found) for i, found in plain if found is not None and found.split(".")[0] in sys.stdlib_module_names
    ]
    later = [i for i, found in standard if found > name]
    earlier = [i for i, found in standard if found < name]
    if later:
        return module.with_changes(body=_insert_before(body, later[0], new))
    if earlier:
        return module.with_changes(body=[*body[: earlier[-1] + 1], new, *body[earlier[-1] + 1 :]])
    froms = [i for i, s in enumerate(body) if (_from_import(s) or "") in sys.stdlib_module_names - {"__future__"}]
    if froms:
        return module.with_changes(body=_insert_before(body, froms[0], new))
    first = next((i for i, s in enumerate(body) if _imports(s) and _from_import(s) != "__future__"), None)
    if first is None:
        index = after_imports_index(body)
        return module.with_changes(body=[*body[:index], new, *body[index:]])
    body = _insert_before(body, first, new)
    following = body[first + 1]
    commented = getattr(following, "leading_lines", ())
    body[first + 1] = following.with_changes(leading_lines=[cst.EmptyLine(indent=False), *commented])
    return module.with_changes(body=body)


def without_import(module: cst.Module, name: str) -> cst.Module:
    """The module without its `import name`, as it was before `with_import`; unchanged where it has none."""
    body: list[cst.BaseStatement] = list(module.body)
    index = next((i for i, s in enumerate(body) if _plain_import(s) == name and _is_alone(s)), None)
    if index is None:
        return module
    lines = list(getattr(body.pop(index), "leading_lines", ()))
    if index == len(body):
        return module.with_changes(body=body)
    following, own = body[index], list(getattr(body[index], "leading_lines", ()))
    if not _is_of_the_standard_library(following):
        if index > 0 and _is_of_the_standard_library(body[index - 1]):
            return module.with_changes(body=body)
        if own and own[0].comment is None:
            own = own[1:]
    body[index] = following.with_changes(leading_lines=[*lines, *own])
    return module.with_changes(body=body)


def _is_alone(statement: cst.BaseStatement) -> bool:
    """Whether a statement imports one module, under its own name."""
    assert isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Import)
    return len(statement.body) == len(statement.body[0].names) == 1 and statement.body[0].names[0].asname is None


def _is_of_the_standard_library(statement: cst.BaseStatement) -> bool:
    found = _plain_import(statement) or _from_import(statement) or ""
    return found.split(".")[0] in sys.stdlib_module_names - {"__future__"}


def _insert_before(body: list[cst.BaseStatement], index: int, new: cst.BaseStatement) -> list[cst.BaseStatement]:
    """`new` takes over the blank lines above what it is put before."""
    following = body[index]
    lines = list(getattr(following, "leading_lines", ()))
    blank = [line for line in lines if line.comment is None]
    commented = lines[len(blank) :] if lines[: len(blank)] == blank else lines
    first = new.with_changes(leading_lines=blank if commented is not lines else [])
    return [*body[:index], first, following.with_changes(leading_lines=commented), *body[index + 1 :]]


def _plain_import(statement: cst.BaseStatement) -> str | None:
    if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Import):
        return cst.Module(body=[]).code_for_node(statement.body[0].names[0].name)
    return None


def _from_import(statement: cst.BaseStatement) -> str | None:
    if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.ImportFrom):
        module = statement.body[0].module
        return cst.Module(body=[]).code_for_node(module) if module is not None else None
    return None
