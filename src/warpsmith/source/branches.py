"""Control flow of one function: which code excludes which, and whether one of several calls always runs."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from warpsmith.source.syntax import Scope, Source


def leaves(block: Sequence[ast.stmt]) -> bool:
    """Whether a block always leaves the function."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return leaves(last.body) and leaves(last.orelse)
    if isinstance(last, ast.With):
        return leaves(last.body)
    return isinstance(last, ast.Return | ast.Raise)


def exclusive(source: Source, a: ast.AST, b: ast.AST) -> bool:
    """Whether one run can meet only one of two nodes: they are in two arms of an `if`, or the first arm leaves."""
    arms_of_a, arms_of_b = _arms(source, a), _arms(source, b)
    for arms, others, other in ((arms_of_a, arms_of_b, b), (arms_of_b, arms_of_a, a)):
        for branch, arm in arms.items():
            if branch in others:
                if others[branch] is not arm:
                    return True
            elif leaves(arm) and _line(other) > (branch.end_lineno or branch.lineno):
                return True
    return False


def always_follows(source: Source, nodes: Collection[ast.AST], statement: ast.stmt, scope: Scope) -> bool:
    """Whether one of `nodes` runs whenever `statement` did: no loop or lone branch of its own stands around it."""
    holding = {parent for node in nodes for parent in (node, *source.ancestors(node))}
    return any(
        _surely(following, holding)
        for block, index in source.blocks_above(statement, scope)
        for following in block[index + 1 :]
    )


def _surely(statement: ast.stmt, holding: Collection[ast.AST]) -> bool:
    """Whether running a statement runs one of the nodes, whose ancestors are in `holding`."""
    if statement not in holding:
        return False
    if isinstance(statement, ast.If):
        return all(any(_surely(inner, holding) for inner in arm) for arm in (statement.body, statement.orelse))
    if isinstance(statement, ast.With):
        return any(_surely(inner, holding) for inner in statement.body)
    compound = ast.For | ast.AsyncFor | ast.While | ast.Try | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return not isinstance(statement, compound | ast.Match)


def _arms(source: Source, node: ast.AST) -> dict[ast.If, list[ast.stmt]]:
    """Every `if` around a node, with the arm that the node is in."""
    found: dict[ast.If, list[ast.stmt]] = {}
    child = node
    for parent in source.ancestors(node):
        if isinstance(parent, ast.If) and isinstance(child, ast.stmt):
            found[parent] = parent.body if any(child is each for each in parent.body) else parent.orelse
        child = parent
    return found


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))
