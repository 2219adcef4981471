"""What an expression is made of: the parts of arguments that it reads, such as `x.shape[-1]`, through plain names.

Owns when one expression can be told from what another one reads. Must not know what for.
"""

from __future__ import annotations

import ast

from warpsmith.source.scopes import Binding
from warpsmith.source.syntax import FunctionNode
from warpsmith.source.uses import Code

#: What answers differently from call to call, whatever it is given.
_PASSING = frozenset(
    f"torch.{name}"
    for name in ("is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "get_autocast_dtype",
                 "get_autocast_gpu_dtype", "get_default_dtype", "are_deterministic_algorithms_enabled")
)  # fmt: skip
_OF_VALUES = frozenset({"data_ptr", "item"})
#: What follows from a shape.
_OF_SHAPES = frozenset({"size", "numel", "nelement", "dim", "ndim"})


def is_made_of(code: Code, value: ast.expr, key: ast.expr, bound: frozenset[str] | set[str] = frozenset()) -> bool:
    """Whether all that a value reads, but for `bound` names, follows from what a key reads."""
    known = _Paths(code).of(key)
    return all(
        any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in known)
        for path in _Paths(code, frozenset(bound)).of(value)
    )


def passing(code: Code, node: ast.AST) -> str | None:
    """What it reads that says when a call is made, or on which memory: itself, or by a function of the source."""
    seen: set[ast.AST] = set()
    todo = [node]
    while todo:
        for each in ast.walk(todo.pop()):
            if isinstance(each, ast.Attribute) and each.attr in _OF_VALUES:
                return each.attr
            if isinstance(each, ast.Name | ast.Attribute) and (found := code.names.origins(each) & _PASSING):
                return min(found)
            bindings = code.names.bindings_of(each)[0] if isinstance(each, ast.Name) else []
            functions = [b.node for b in bindings if isinstance(b.node, FunctionNode) and b.node not in seen]
            seen.update(functions)
            todo += functions
    return None


class _Paths:
    def __init__(self, code: Code, bound: frozenset[str] = frozenset()) -> None:
        self._code = code
        self._bound = bound
        self._open: set[Binding] = set()
        self._followed: dict[Binding, set[str]] = {}

    def of(self, node: ast.AST) -> set[str]:
        """Each part of an argument, or name that is not followed, that it reads; what a module holds is no part."""
        if isinstance(node, ast.expr) and (path := self._path(node)) is not None:
            return {path}
        named = node.func if isinstance(node, ast.Call) else node
        found = {ast.unparse(node)} if isinstance(named, ast.expr) and self._passes(named) else set()
        if isinstance(node, ast.Name):
            given = self._given(node)
            return found if given is None else self._follow(given)
        for child in ast.iter_child_nodes(node):
            found |= self.of(child)
        return found

    def _passes(self, named: ast.expr) -> bool:
        return isinstance(named, ast.Name | ast.Attribute) and passing(self._code, named) is not None

    def _follow(self, binding: Binding) -> set[str]:
        assert binding.value is not None
        if binding not in self._followed:
            self._open.add(binding)
            self._followed[binding] = self.of(binding.value)
            self._open.discard(binding)
        return self._followed[binding]

    def _path(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self._root(node)
        if isinstance(node, ast.Attribute):
            base = self._path(node.value)
            return base and f"{base}.{'shape.' if node.attr in _OF_SHAPES else ''}{node.attr}"
        if isinstance(node, ast.Subscript) and not any(isinstance(each, ast.Name) for each in ast.walk(node.slice)):
            base = self._path(node.value)
            return base and f"{base}[{ast.unparse(node.slice)}]"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
            base = (
                self._path(node.func)
                if all(isinstance(each, ast.Constant | ast.UnaryOp) for each in node.args)
                else None
            )
            return base and f"{base}({', '.join(map(ast.unparse, node.args))})"
        return None

    def _root(self, node: ast.Name) -> str | None:
        """The path that a name stands for: itself, or that of what it got."""
        bindings, _ = self._code.names.bindings_of(node)
        if node.id in self._bound or all(each.scope.runs_at_import for each in bindings):
            return None
        given = self._given(node)
        if given is None:
            return node.id
        assert given.value is not None
        self._open.add(given)
        path = self._path(given.value)
        self._open.discard(given)
        return path

    def _given(self, node: ast.Name) -> Binding | None:
        """The one place where a local name gets its value, if there is but one and it is followed."""
        bindings, _ = self._code.names.bindings_of(node)
        if node.id in self._bound or len(bindings) != 1 or bindings[0].scope.runs_at_import:
            return None
        (one,) = bindings
        followed = one.value is not None and not one.is_element and one not in self._open
        return one if followed else None
