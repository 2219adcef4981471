"""What a name stands for: the imports and built-ins that an expression may reach, over all paths through the code.

Owns how a value travels by assignment. Must not know what is allowed.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from warpsmith.source.scopes import Binding, Scope, Scopes

#: The origin of a built-in is BUILTINS and its name.
BUILTINS = "builtins"
#: Chosen: no honest name has more parts; `t = t.nn` would otherwise grow for ever.
_MOST_PARTS = 10
_BUILTIN_NAMES = frozenset(dir(builtins))


class Names:
    """The names of a module. Raises RecursionError where the tree is deeper than Python can walk."""

    def __init__(self, tree: ast.Module) -> None:
        self._scopes = Scopes(tree)
        self.module = self._scopes.module
        self.bindings = self._scopes.bindings
        self._origins = {each: frozenset({each.imported} if each.imported else ()) for each in self.bindings}
        stars = [each.imported for each in self.bindings if each.name == "*" and each.imported]
        self._starred = [star.removesuffix(".*") for star in stars]
        self._follow_assignments()

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope that evaluates a node: a default or a decorator belongs to the scope around its function."""
        return self._scopes.of[node]

    def bindings_of(self, node: ast.Name) -> tuple[list[Binding], bool]:
        """Every binding that a name may have where it is read, and whether it may be the built-in of that name.

        Names of a class or a module may be read before they are bound, and then come from further out.
        """
        found: list[Binding] = []
        start = current = self.scope_of(node)
        while True:
            if node.id in current.globals:
                current = self.module
            visible = current is start or not current.is_class
            if visible and node.id in current.bindings and node.id not in current.nonlocals:
                found += current.bindings[node.id]
                if current is not self.module and not current.is_class:
                    return found, False
            if current.parent is None:
                return found, node.id in _BUILTIN_NAMES
            current = current.parent

    def origins(self, node: ast.expr) -> frozenset[str]:
        """The dotted names, in full, that an expression may be: `F.pad` is torch.nn.functional.pad.

        Empty for what starts at no import and no built-in.
        """
        if isinstance(node, ast.Name):
            bindings, may_be_builtin = self.bindings_of(node)
            found = frozenset(origin for each in bindings for origin in self._origins[each])
            if not bindings:
                found |= {f"{module}.{node.id}" for module in self._starred}
            return found | {f"{BUILTINS}.{node.id}"} if may_be_builtin else found
        if isinstance(node, ast.Attribute):
            return _attribute(self.origins(node.value), node.attr)
        if isinstance(node, ast.NamedExpr):
            return self.origins(node.value)
        if isinstance(node, ast.IfExp):
            return self.origins(node.body) | self.origins(node.orelse)
        if isinstance(node, ast.BoolOp):
            return frozenset(origin for value in node.values for origin in self.origins(value))
        if (read := attribute_read_by_name(node)) is not None:
            return _attribute(self.origins(read[0]), read[1])
        return frozenset()

    def is_certain(self, node: ast.expr) -> bool:
        """Whether an expression can be nothing else than its origins."""
        if isinstance(node, ast.Name):
            bindings, may_be_builtin = self.bindings_of(node)
            return (may_be_builtin or bool(bindings)) and all(self._origins[each] for each in bindings)
        if isinstance(node, ast.IfExp):
            return self.is_certain(node.body) and self.is_certain(node.orelse)
        if isinstance(node, ast.BoolOp):
            return all(self.is_certain(value) for value in node.values)
        if isinstance(node, ast.Attribute | ast.NamedExpr):
            return self.is_certain(node.value)
        read = attribute_read_by_name(node)
        return read is not None and self.is_certain(read[0])

    def _follow_assignments(self) -> None:
        valued = [(each, each.value) for each in self.bindings if each.value is not None and not each.is_element]
        changed = True
        while changed:
            changed = False
            for binding, value in valued:
                origins = self._origins[binding] | self.origins(value)
                if origins != self._origins[binding]:
                    self._origins[binding], changed = origins, True


def attribute_read_by_name(node: ast.AST) -> tuple[ast.expr, str] | None:
    """The object and the name in `getattr(x, "name")`, where the name is a literal."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        plain = len(node.args) in (2, 3) and not node.keywords and not isinstance(node.args[0], ast.Starred)
        if plain and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
            return node.args[0], node.args[1].value
    return None


def prefixes(path: str) -> Iterator[str]:
    """a, a.b and a.b.c for `a.b.c`; the dots of a relative import stay with what follows them."""
    start = len(path) - len(path.lstrip("."))
    for index in range(start + 1, len(path)):
        if path[index] == ".":
            yield path[:index]
    yield path


def _attribute(origins: frozenset[str], attribute: str) -> frozenset[str]:
    return frozenset(f"{each}.{attribute}" for each in origins if each.count(".") < _MOST_PARTS)
