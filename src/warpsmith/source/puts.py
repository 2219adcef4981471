"""Every place where something is put into an object: items, attributes, methods that change a container, and `+=`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.source.lifetimes import CONTAINERS, DISPLAYS, Kept
from warpsmith.source.names import BUILTINS
from warpsmith.source.scopes import pairwise
from warpsmith.source.uses import Code

#: Methods that change a container or a module. None of them is one of a tensor's.
KEEPING = frozenset(
    {"append", "appendleft", "add", "update", "setdefault", "extend", "extendleft", "insert", "register_buffer",
     "register_parameter", "register_module", "add_module", "train", "eval", "pop", "popitem", "popleft", "clear",
     "remove", "discard", "rotate", "move_to_end", "sort", "reverse", "subtract", "intersection_update",
     "difference_update", "symmetric_difference_update", "add_note"}
)  # fmt: skip
_NUMBERS = frozenset({f"{BUILTINS}.{name}" for name in ("int", "len", "float", "round", "abs", "max", "min", "sum")}
                     | {"triton.cdiv", "triton.next_power_of_2"})  # fmt: skip


@dataclass(frozen=True)
class Put:
    """Something given to a `receiver` to hold. `value` is None where what it is cannot be read.

    `adds`: it does more than set what a key stands for. `is_item`: into a container, and not an attribute.
    """

    receiver: ast.expr
    told: str
    value: ast.expr | None
    adds: bool = False
    is_item: bool = False


def puts(code: Code, node: ast.AST) -> Iterator[Put]:
    """What this node puts somewhere, by itself."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        adds = isinstance(code.parent(node), ast.AugAssign | ast.Delete)
        yield Put(node.value, ast.unparse(node), _given_to(code, node), adds, isinstance(node, ast.Subscript))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KEEPING:
        values = ast.Tuple([*node.args, *(keyword.value for keyword in node.keywords)], ast.Load())
        adds = node.func.attr not in ("setdefault", "update")
        yield Put(node.func.value, ast.unparse(node.func), values, adds, True)
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and _changes_in_place(code, node):
        yield Put(node.target, node.target.id, node.value, True, True)


def _changes_in_place(code: Code, added: ast.AugAssign) -> bool:
    """Whether `name += value` may change a container that the name shares with others. Only `*=` does with a number."""
    if _is_number(code, added.value) and not isinstance(added.op, ast.Mult):
        return False
    if isinstance(added.value, DISPLAYS) or (
        isinstance(added.value, ast.Call) and code.names.origins(added.value.func) & CONTAINERS
    ):
        return True
    assert isinstance(added.target, ast.Name)
    return Kept(code).may_be(added.target)


def _is_number(code: Code, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(code, node.left) and _is_number(code, node.right)
    if isinstance(node, ast.Call):
        origins = code.names.origins(node.func)
        return bool(origins) and origins <= _NUMBERS
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _given_to(code: Code, target: ast.expr) -> ast.expr | None:
    """The expression that an attribute or item is set to; None for loops, `with` and unpacking."""
    parent = code.parent(target)
    if isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return parent.value
    if isinstance(parent, ast.Tuple | ast.List) and isinstance(assign := code.parent(parent), ast.Assign):
        values = pairwise(parent, assign.value)
        return values[next(i for i, each in enumerate(parent.elts) if each is target)] if values else None
    return None
