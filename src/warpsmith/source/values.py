"""What is certain of a kernel's values: which are float32, which are blocks, and which are plain numbers.

Flow-insensitive: a name is float32 only if all that it is set to is. Holds for launched kernels, whose parameters are
pointers and numbers. Must not know what follows from it.
"""

from __future__ import annotations

import ast

from warpsmith.source.access import LANGUAGE
from warpsmith.source.jit import LOADS, REDUCTIONS, Jit, operation
from warpsmith.source.launches import Reading
from warpsmith.source.syntax import Assignment, assignments, dotted, is_name

#: Functions whose result has the type of what they are given.
_SAME_TYPE = frozenset({"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "abs", "sigmoid", "tanh"})
_MOVES = frozenset({"trans", "permute", "reshape", "view", "broadcast_to", "expand_dims", "ravel"})
_CHOOSES = frozenset({"where", "maximum", "minimum"})
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)


class Values:
    """The values of one launched jit function."""

    def __init__(self, reading: Reading, jit: Jit) -> None:
        self._addresses = reading.addresses(jit)
        self._parameters = frozenset(jit.parameters)
        self.assigned: dict[str, list[Assignment]] = {}
        for found in assignments(jit.node):
            self.assigned.setdefault(found.name, []).append(found)

    def is_number(self, node: ast.expr, met: frozenset[str] = frozenset()) -> bool:
        """A literal, a parameter, a constant of the module, or what is computed of them: never a block, and no wider
        than what it meets."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.is_number(node.operand, met)
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            return isinstance(node.op, _ARITHMETIC) and all(self.is_number(each, met) for each in sides)
        if isinstance(node, ast.Name):
            found = self.assigned.get(node.id, [])
            if not found:
                return True
            value = found[0].value
            plain = isinstance(found[0].node, ast.Assign | ast.AnnAssign) and node.id not in self._parameters | met
            return len(found) == 1 and plain and value is not None and self.is_number(value, met | {node.id})
        return isinstance(node, ast.Constant) and type(node.value) in (int, float)

    def is_float32(self, node: ast.expr, met: frozenset[str] = frozenset()) -> bool:
        if isinstance(node, ast.Name):
            return self._is_float32_name(node.id, met)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.USub) and self.is_float32(node.operand, met)
        if isinstance(node, ast.Subscript):
            return self.is_float32(node.value, met)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, _ARITHMETIC) and self._meet(node.left, node.right, met)
        return isinstance(node, ast.Call) and self._is_float32_call(node, met)

    def is_block(self, node: ast.expr, met: frozenset[str] = frozenset()) -> bool:
        """Whether it holds several elements for certain; what a reduction leaves does not count."""
        if isinstance(node, ast.Name):
            found = [] if node.id in met else self.assigned.get(node.id, [])
            return any(each.value is not None and self.is_block(each.value, met | {node.id}) for each in found)
        if isinstance(node, ast.Call):
            name = operation(node)
            if name in LOADS:
                return bool(node.args) and self._addresses.trait(node.args[0]).block
            if name in REDUCTIONS:
                return False
            own = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            return name in ("zeros", "full", "arange") or any(self.is_block(a, met) for a in (*own, *node.args))
        children = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        return any(self.is_block(child, met) for child in children)

    def _is_float32_name(self, name: str, met: frozenset[str]) -> bool:
        if name in self._parameters or name not in self.assigned:
            return False
        if name in met:  # what a loop carries keeps the type that it enters with
            return True
        met |= {name}
        return all(
            found.value is not None
            and (self.is_float32(found.value, met) or (isinstance(found.node, ast.AugAssign) and self._adds(found)))
            for found in self.assigned[name]
        ) and any(not isinstance(found.node, ast.AugAssign) for found in self.assigned[name])

    def _adds(self, found: Assignment) -> bool:
        assert isinstance(found.node, ast.AugAssign)
        return isinstance(found.node.op, _ARITHMETIC) and found.value is not None and self.is_number(found.value)

    def _meet(self, left: ast.expr, right: ast.expr, met: frozenset[str]) -> bool:
        """Whether two operands give float32: both are, or one is and the other is a number."""
        sides = [self.is_float32(left, met), self.is_float32(right, met)]
        return all(sides) or (any(sides) and self.is_number(left if sides[1] else right))

    def _is_float32_call(self, call: ast.Call, met: frozenset[str]) -> bool:
        if converted(call) is not None:
            return True
        name = operation(call)
        if name in ("zeros", "full"):
            return any(_is_float32_type(a) for a in (*call.args, *(k.value for k in call.keywords)))
        of_language = isinstance(call.func, ast.Attribute) and dotted(call.func.value) in _MODULES
        if name in _CHOOSES and of_language:
            return len(call.args) >= 2 and self._meet(call.args[-2], call.args[-1], met)
        if name in _SAME_TYPE | REDUCTIONS - {"argmax", "argmin", "reduce_or"} | _MOVES:
            if of_language:
                return bool(call.args) and self.is_float32(call.args[0], met)
            return isinstance(call.func, ast.Attribute) and self.is_float32(call.func.value, met)
        return False


_MODULES = frozenset({*LANGUAGE, *(f"{name}.math" for name in LANGUAGE)})


def language_call(node: ast.AST, name: str) -> bool:
    """Whether it is `tl.NAME(x)` or `tl.math.NAME(x)`, of one plain argument."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        and dotted(node.func.value) in _MODULES
        and len(node.args) == 1
        and not node.keywords
        and not isinstance(node.args[0], ast.Starred)
    )


def converted(node: ast.AST) -> ast.expr | None:
    """What `x.to(tl.float32)` or `tl.cast(x, tl.float32)` converts."""
    if (
        not isinstance(node, ast.Call)
        or operation(node) not in ("to", "cast")
        or not isinstance(node.func, ast.Attribute)
    ):
        return None
    function = dotted(node.func.value) in LANGUAGE
    given = [*node.args, *(k.value for k in node.keywords if k.arg in ("dtype", "input"))]
    if len(given) != (2 if function else 1) or len(given) != len(node.args) + len(node.keywords):
        return None
    if not _is_float32_type(given[-1]):
        return None
    return given[0] if function else node.func.value


def _is_float32_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "float32" and dotted(node.value) in LANGUAGE


def reads(node: ast.AST, name: str) -> list[ast.Name]:
    """Where a name is read."""
    found = (each for each in ast.walk(node) if is_name(each, name))
    return [each for each in found if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
