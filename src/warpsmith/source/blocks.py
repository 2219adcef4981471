"""Whether a block tiles an axis, or must cover a row. Asked of the kernel first, then of the host code."""

from __future__ import annotations

import ast

from warpsmith.source.access import Addresses
from warpsmith.source.jit import Jit, operation
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.places import grid_nodes, reaching_assignment
from warpsmith.source.syntax import is_name, last_name, mentions, statement_told, walk_scope

COVERS = "must cover a row"


def block_kind(reading: Reading, launch: Launch, name: str, expression: ast.expr | None) -> tuple[bool, str | None]:
    """(covering, why it cannot be tuned)."""
    tiles = _tiles(reading, launch.jit, name) if launch.jit is not None else None
    if tiles is None and expression is not None and _counts_blocks(launch, name, expression):
        tiles = True
    from_width = expression is not None and _follows_a_width(reading, launch, expression)
    if tiles:
        return False, None
    if tiles is False or from_width:
        return True, COVERS
    return False, f"{launch.jit_name} is not in this file, or passes it on, so whether it must cover a row is unknown"


def _tiles(reading: Reading, jit: Jit, name: str, seen: frozenset[str] = frozenset()) -> bool | None:
    """Whether a kernel, or a function that it hands the block to, steps along an axis by it. None where unseen."""
    addresses = reading.addresses(jit)
    loop_names = {
        n.id for loop in walk_scope(jit.node) if isinstance(loop, ast.For)
        for n in ast.walk(loop.target) if isinstance(n, ast.Name)
    }  # fmt: skip
    found: list[bool | None] = []
    for node in walk_scope(jit.node):
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
            if called in reading.jits and mentions(node, name):
                found.append(_handed_on(reading, node, reading.jits[called], name, seen | {jit.name}))
    return True if True in found else None if None in found else False


def _handed_on(reading: Reading, call: ast.Call, jit: Jit, name: str, seen: frozenset[str]) -> bool | None:
    """What a function of the kernel does with the block that it is given."""
    named = {k.arg: k.value for k in call.keywords if k.arg is not None}
    passed = dict(zip(jit.parameters, call.args, strict=False)) | named
    parameters = [parameter for parameter, value in passed.items() if is_name(value, name)]
    if jit.name in seen or len(parameters) != 1:
        return None
    return _tiles(reading, jit, parameters[0], seen)


def _counts_blocks(launch: Launch, name: str, expression: ast.expr) -> bool:
    """Whether the grid divides something by the block: so many blocks along an axis, so it need not cover one."""
    for node in grid_nodes(launch):
        divisor = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) else None
        if isinstance(node, ast.Call) and last_name(node.func) == "cdiv" and len(node.args) == 2:
            divisor = node.args[1]
        if divisor is None:
            continue
        key = divisor.slice if isinstance(divisor, ast.Subscript) else None
        if ast.dump(divisor) == ast.dump(expression) or (isinstance(key, ast.Constant) and key.value == name):
            return True
    return False


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
