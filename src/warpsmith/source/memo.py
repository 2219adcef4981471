"""Whether a table that functions fill is a memo: the same comes out for a key, whether it was in there before or not.

What else is read of such a table (how long it is, what is in it, whether a key is there) tells how often the source was
called before, and a source that knows may compute while it is checked and not while it is timed. So a table may be
asked for a key, be given there what is made of that key alone, and be read by key. Owns what that looks like in a
syntax tree. Must not know which tables are filled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.source.filling import Filling, Question
from warpsmith.source.interface import Finding
from warpsmith.source.names import BUILTINS
from warpsmith.source.paths import is_made_of
from warpsmith.source.plain import Plainness
from warpsmith.source.syntax import blocks, is_name
from warpsmith.source.uses import Code

_OTHERWISE = (
    "from what is in it a variant could tell how often it was called; fill it in one place, by "
    "`if key not in {0}: {0}[key] = value` with a value made of the key, and read {0}[key], or use functools.cache"
)


def misuses(code: Code, plain: Plainness, tables: frozenset[str]) -> Iterator[Finding]:
    """What is done to tables of the module, by name, that a memo is not for."""
    filled: set[str] = set()
    for node in ast.walk(code.tree):
        if not (isinstance(node, ast.Name) and node.id in tables and isinstance(node.ctx, ast.Load)):
            continue
        if not any(each.scope is code.names.module for each in code.names.bindings_of(node)[0]):
            continue
        fills = _fills(code, node)
        if not (_is_dictionary(code, node) and _is_proper(code, plain, node)) or (fills and node.id in filled):
            told = ast.unparse(_whole(code, node))
            yield node.lineno, f"does more with {told} than a memo needs: {_OTHERWISE.format(node.id)}"
        filled |= {node.id} if fills else set()


def _fills(code: Code, table: ast.Name) -> bool:
    parent = code.parent(table)
    if code.names.scope_of(table).runs_at_import:
        return False
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Store)
    return isinstance(parent, ast.Attribute) and parent.attr == "setdefault"


def _whole(code: Code, node: ast.expr) -> ast.AST:
    """The use of a name, to tell of: the call of a method, the comparison."""
    parent = code.parent(node)
    if isinstance(parent, ast.Attribute) and isinstance(code.parent(parent), ast.Call):
        return code.parent(parent)
    return parent if isinstance(parent, ast.expr) else node


def _is_dictionary(code: Code, table: ast.Name) -> bool:
    bindings, _ = code.names.bindings_of(table)
    value = bindings[0].value if len(bindings) == 1 else None
    made = isinstance(value, ast.Call) and code.names.origins(value.func) == {f"{BUILTINS}.dict"}
    return made or isinstance(value, ast.Dict | ast.DictComp)


def _is_proper(code: Code, plain: Plainness, table: ast.Name) -> bool:
    parent = code.parent(table)
    if isinstance(parent, ast.Subscript) and parent.value is table and isinstance(parent.ctx, ast.Load):
        return True
    if code.names.scope_of(table).runs_at_import:
        return isinstance(parent, ast.Subscript) and parent.value is table
    if isinstance(parent, ast.Subscript):
        return any(_is_filled(code, plain, each, table.id, parent) for each in _ifs_around(code, parent))
    if isinstance(parent, ast.Compare):
        statement = code.parent(parent)
    elif isinstance(parent, ast.Attribute) and isinstance(call := code.parent(parent), ast.Call):
        if parent.attr == "setdefault":
            return len(call.args) == 2 and not call.keywords and is_made_of(code, call.args[1], call.args[0])
        statement = _asked_after(code, call)
    else:
        return False
    return _is_filled(code, plain, statement, table.id)


def _ifs_around(code: Code, target: ast.Subscript) -> list[ast.AST]:
    """The `if` in which an item is set, and those that stand before it."""
    statement = code.parent(target)
    block = code.parent(statement)
    return [block, *(each for each in ast.iter_child_nodes(block) if statement in _following(code, each))]


def _asked_after(code: Code, call: ast.Call) -> ast.AST:
    """The statement in which the answer of a `get` is looked at: `c = table.get(key)`, and next `if c is None`."""
    statement = code.parent(call)
    if isinstance(statement, ast.NamedExpr) and isinstance(compare := code.parent(statement), ast.Compare):
        return code.parent(compare)
    following = _following(code, statement) if isinstance(statement, ast.Assign) else []
    return following[0] if following else statement


def _following(code: Code, statement: ast.AST) -> list[ast.stmt]:
    for block in blocks(code.parent(statement)):
        if statement in block:
            return block[block.index(statement) + 1 :]
    return []


def _question(code: Code, statement: ast.If, table: str) -> Question | None:
    """What an `if` asks of a table, if that is all that it asks."""
    test = statement.test
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return None
    (op,), answer = test.ops, None
    if isinstance(op, ast.In | ast.NotIn) and is_name(test.comparators[0], table):
        key: ast.expr | None = test.left
    else:
        none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        if not (isinstance(op, ast.Is | ast.IsNot) and none):
            return None
        answer, key = _answer(code, statement, test.left, table)
    if key is None:
        return None
    when, otherwise, rest = statement.body, statement.orelse, _following(code, statement)
    if not otherwise and isinstance(when[-1], ast.Return):
        otherwise = rest
    missing, there = (when, otherwise) if isinstance(op, ast.NotIn | ast.Is) else (otherwise, when)
    return Question(test, key, answer, missing, there, rest)


def _answer(code: Code, statement: ast.If, left: ast.expr, table: str) -> tuple[str | None, ast.expr | None]:
    """The name that a `get` just before, or in the `if` itself, gave the answer to, and the key."""
    name, value = left, None
    if isinstance(left, ast.NamedExpr):
        name, value = left.target, left.value
    else:
        before = [each for each in ast.walk(code.parent(statement)) if isinstance(each, ast.Assign)]
        asked = [each for each in before if _following(code, each)[:1] == [statement]]
        if asked and len(asked[0].targets) == 1 and ast.unparse(asked[0].targets[0]) == ast.unparse(left):
            value = asked[0].value
    is_get = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "get"
    if not (is_get and isinstance(name, ast.Name)):
        return None, None
    assert isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    proper = is_name(value.func.value, table) and len(value.args) == 1 and not value.keywords
    return (name.id, value.args[0]) if proper else (None, None)


def _is_filled(code: Code, plain: Plainness, asks: ast.AST, table: str, target: ast.Subscript | None = None) -> bool:
    """Whether an `if` asks a table for a key and fills it where the key is missing: once, and does nothing else."""
    question = _question(code, asks, table) if isinstance(asks, ast.If) else None
    if question is None:
        return False
    stores = [
        (each, item)
        for each in question.missing
        if isinstance(each, ast.Assign)
        for item in each.targets
        if isinstance(item, ast.Subscript) and is_name(item.value, table)
    ]
    if len(stores) != 1 or ast.dump(stores[0][1].slice) != ast.dump(question.key):
        return False
    return target in (None, stores[0][1]) and Filling(code, plain, question, *stores[0]).is_all()
