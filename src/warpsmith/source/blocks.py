"""Whether a block tiles an axis, or must cover a row. Asked of the kernel first, then of the host code."""

from __future__ import annotations

import ast

from warpsmith.source.access import Addresses
from warpsmith.source.jit import operation
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.places import reaching_assignment
from warpsmith.source.syntax import mentions, statement_told, walk_scope

COVERS = "must cover a row"


def block_kind(reading: Reading, launch: Launch, name: str, expression: ast.expr | None) -> tuple[bool, str | None]:
    """(covering, why it cannot be tuned)."""
    tiles = _tiles(reading, launch, name)
    from_width = expression is not None and _follows_a_width(reading, launch, expression)
    if tiles:
        return False, None
    if tiles is False or from_width:
        return True, COVERS
    return False, f"{launch.jit_name} is not in this file, or passes it on, so whether it must cover a row is unknown"


def _tiles(reading: Reading, launch: Launch, name: str) -> bool | None:
    """Whether the kernel steps along an axis by this block. None where that cannot be told."""
    if launch.jit is None:
        return None
    addresses = reading.addresses(launch.jit)
    loop_names = {
        n.id for loop in walk_scope(launch.jit.node) if isinstance(loop, ast.For)
        for n in ast.walk(loop.target) if isinstance(n, ast.Name)
    }  # fmt: skip
    passed_on = False
    for node in walk_scope(launch.jit.node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for side, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(side, ast.Name) and side.id == name and _moves(addresses, other, loop_names):
                    return True
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and mentions(node.value, name):
            if any(isinstance(parent, ast.For | ast.While) for parent in reading.source.ancestors(node)):
                return True
        elif isinstance(node, ast.Call):
            called = operation(node)
            if called in ("range", "static_range") and len(node.args) == 3 and mentions(node.args[2], name):
                return True
            if called in ("cdiv", "advance") and mentions(node, name):
                return True
            passed_on = passed_on or (called in reading.jits and mentions(node, name))
    return None if passed_on else False


def _moves(addresses: Addresses, other: ast.expr, loop_names: set[str]) -> bool:
    return bool(addresses.trait(other).axes) or any(
        n.id in loop_names for n in ast.walk(other) if isinstance(n, ast.Name)
    )


def _follows_a_width(reading: Reading, launch: Launch, expression: ast.expr) -> bool:
    told = ast.unparse(expression)
    if isinstance(expression, ast.Name):
        statement = reaching_assignment(reading.source, launch, expression.id)
        told = statement_told(statement) if statement is not None else told
    return "next_power_of_2" in told
