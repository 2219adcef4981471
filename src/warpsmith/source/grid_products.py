"""Whether a launch's grid is a multiple of a number that its kernel computes: both spelled out in the host's words."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.source.launches import Launch
from warpsmith.source.syntax import FunctionNode, assignments, last_name, names_read, parameters_of

#: Chosen: a name is followed through so many others.
_DEEPEST = 6


def is_factor_of_grid(launch: Launch, axis: int, count: ast.expr) -> bool:
    """Whether the grid along `axis` is a product of which `count`, an expression of the kernel, is one factor."""
    if launch.jit is None:
        return False
    elements = _elements(launch)
    if axis >= len(elements):
        return False
    spelling = _Spelling(launch)
    wanted = spelling.in_kernel(count)
    return wanted is not None and any(spelling.on_host(factor) == wanted for factor in _factors(launch, elements[axis]))


def _elements(launch: Launch) -> list[ast.expr]:
    """What the grid is along each axis; none where it is not a tuple that can be seen."""
    grid: ast.expr | None = launch.grid
    if isinstance(grid, ast.Name):
        inner = [n for n in launch.scope.body if isinstance(n, FunctionNode) and n.name == grid.id]
        grid = _returned(inner[0]) if len(inner) == 1 else _only_value(launch.scope, grid.id)
    if isinstance(grid, ast.Lambda):
        grid = grid.body
    return grid.elts if isinstance(grid, ast.Tuple | ast.List) else []


def _returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr | None:
    only = function.body[-1]
    return only.value if len(function.body) == 1 and isinstance(only, ast.Return) else None


def _factors(launch: Launch, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(launch, node.left, depth)
        yield from _factors(launch, node.right, depth)
        return
    value = _only_value(launch.scope, node.id) if isinstance(node, ast.Name) else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult) and depth < _DEEPEST:
        yield from _factors(launch, value, depth + 1)
    else:
        yield node


def _only_value(scope: ast.AST, name: str) -> ast.expr | None:
    """What a name is set to, where it is set once and to an expression of its own."""
    found = [a.value for a in assignments(scope) if a.name == name]
    return found[0] if len(found) == 1 else None


class _Spelling:
    """Expressions of the kernel and of the host in one spelling; None where one cannot be known to be what it was."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.jit = launch.jit
        self.parameters = frozenset(launch.jit.parameters) if launch.jit is not None else frozenset()

    def in_kernel(self, node: ast.expr, depth: int = 0) -> str | None:
        if isinstance(node, ast.Name) and self.jit is not None and depth < _DEEPEST:
            times = sum(a.name == node.id for a in assignments(self.jit.node))
            if node.id in self.parameters and not times:
                return self._parameter(node.id)
            value = _only_value(self.jit.node, node.id)
            return self.in_kernel(value, depth + 1) if value is not None else None
        return self._compound(node, kernel=True, depth=depth)

    def on_host(self, node: ast.expr, depth: int = 0) -> str | None:
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and node.slice.value in self.parameters
        ):
            return self._parameter(str(node.slice.value))
        if isinstance(node, ast.Name) and depth < _DEEPEST:
            found = [a.value for a in assignments(self.launch.scope) if a.name == node.id]
            if not self._is_settled(node.id):
                return None
            simple = found and isinstance(found[0], ast.Name | ast.Call | ast.Constant | ast.BinOp)
            return self.on_host(found[0], depth + 1) if simple and found[0] is not None else node.id
        return self._compound(node, kernel=False, depth=depth)

    def _parameter(self, name: str) -> str | None:
        given = self.launch.argument(name)
        return self.on_host(given) if given is not None else f"its own {name}"

    def _compound(self, node: ast.expr, *, kernel: bool, depth: int) -> str | None:
        spell = self.in_kernel if kernel else self.on_host
        parts = _parts_of_cdiv(node)
        if parts is not None:
            over, by = (spell(part, depth) for part in parts)
            return None if over is None or by is None else f"cdiv({over}, {by})"
        if isinstance(node, ast.Constant):
            return ast.unparse(node)
        return ast.unparse(node) if not kernel and all(map(self._is_settled, names_read(node))) else None

    def _is_settled(self, name: str) -> bool:
        """Whether a host's name is the same at the grid and at the launch: bound once."""
        most = 0 if name in parameters_of(self.launch.scope) else 1
        return sum(a.name == name for a in assignments(self.launch.scope)) <= most


def _parts_of_cdiv(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """`cdiv(a, b)`, or `(a + b - 1) // b`, as (a, b)."""
    if isinstance(node, ast.Call) and last_name(node.func) == "cdiv" and len(node.args) == 2:
        return node.args[0], node.args[1]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and isinstance(node.left, ast.BinOp):
        minus, by = node.left, ast.unparse(node.right)
        is_one = isinstance(minus.op, ast.Sub) and isinstance(minus.right, ast.Constant) and minus.right.value == 1
        total = minus.left
        if is_one and isinstance(total, ast.BinOp) and isinstance(total.op, ast.Add) and ast.unparse(total.right) == by:
            return total.left, total.right
    return None
