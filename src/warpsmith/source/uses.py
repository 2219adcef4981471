"""What a source uses of other modules and of Python itself, and what of that a candidate may not.

Owns where a module may go: by plain names alone, so that every use of it can be read. Must not know what is kept
between calls: `retained` does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from warpsmith.source.allowed import LIBRARIES, instead, is_allowed, is_module
from warpsmith.source.imports import imports
from warpsmith.source.interface import Finding
from warpsmith.source.launches import Reading
from warpsmith.source.names import BUILTINS, Names, attribute_read_by_name, prefixes
from warpsmith.source.scopes import pairwise

#: Expressions that hand on the very object of a part of theirs.
_HANDING_ON = (ast.Attribute, ast.IfExp, ast.BoolOp, ast.NamedExpr)
_KERNEL_DECORATORS = frozenset({"triton.jit", "triton.heuristics", "triton.autotune", "triton.experimental.gluon.jit"})
_JIT = frozenset({"triton.jit", "triton.experimental.gluon.jit"})


@dataclass(frozen=True)
class Code:
    """A source, what its names stand for, and which of its nodes run on the GPU."""

    reading: Reading
    names: Names

    @classmethod
    def of(cls, reading: Reading) -> Code:
        """Raises RecursionError where the tree is deeper than Python can walk."""
        return cls(reading, Names(reading.source.tree))

    @property
    def tree(self) -> ast.Module:
        return self.reading.source.tree

    def parent(self, node: ast.AST) -> ast.AST:
        return self.reading.source.parents[node]

    @cached_property
    def in_kernels(self) -> frozenset[ast.AST]:
        """The nodes of the bodies of jit functions, which Python itself never runs."""
        kernels = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef) and self._is_kernel(node)]
        return frozenset(node for kernel in kernels for statement in kernel.body for node in ast.walk(statement))

    def _is_kernel(self, node: ast.FunctionDef) -> bool:
        decorators = [
            self.names.origins(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list
        ]
        known = all(each and each <= _KERNEL_DECORATORS for each in decorators)
        return known and any(each <= _JIT for each in decorators)

    @cached_property
    def mentions(self) -> tuple[tuple[ast.expr, frozenset[str]], ...]:
        """Every expression that may be something imported or built in, with what."""
        found = []
        for node in ast.walk(self.tree):
            readable = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
            if readable or isinstance(node, _HANDING_ON[1:]) or attribute_read_by_name(node) is not None:
                assert isinstance(node, ast.expr)
                if origins := self.names.origins(node):
                    found.append((node, origins))
        return tuple(found)

    @cached_property
    def used(self) -> frozenset[str]:
        """The dotted names that it imports or reads, and the modules on the way to them."""
        named = {each.imported for each in imports(self.tree)} | {path for _, paths in self.mentions for path in paths}
        return frozenset(prefix for path in named for prefix in prefixes(path))

    @cached_property
    def values(self) -> frozenset[str]:
        """Those that it calls, passes on or reads as a whole, and not only for a part of theirs."""
        whole = [paths for node, paths in self.mentions if not (self.is_part(node) or self.is_alias(node))]
        return frozenset(path for paths in whole for path in paths)

    def is_part(self, node: ast.expr) -> bool:
        """Whether a larger expression names something of it, or hands it on and is looked at itself."""
        parent = self.parent(node)
        if isinstance(parent, ast.IfExp):
            return node is not parent.test
        return isinstance(parent, _HANDING_ON) or (attribute_read_by_name(parent) or (None,))[0] is node

    def is_alias(self, node: ast.expr) -> bool:
        """Whether all that is done to it here is to give it a plain name, which is followed."""
        value: ast.expr = node
        parent = self.parent(node)
        if isinstance(parent, ast.Tuple) and isinstance(self.parent(parent), ast.Assign):
            value, parent = parent, self.parent(parent)
        if not isinstance(parent, ast.Assign | ast.AnnAssign) or parent.value is not value:
            return isinstance(parent, ast.Expr)
        if self.names.scope_of(parent).is_class:
            return False
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        taking = [_taking(target, value, node) for target in targets]
        return all(isinstance(target, ast.Name) for target in taking)


def _taking(target: ast.expr, value: ast.expr, node: ast.expr) -> ast.expr | None:
    """The part of a target that gets a part of a value."""
    if value is node:
        return target
    pairs = pairwise(target, value)
    if pairs is None or not isinstance(target, ast.Tuple | ast.List):
        return None
    return next(each for each, taken in zip(target.elts, pairs, strict=True) if taken is node)


def new_imports(before: Code, after: Code) -> Iterator[Finding]:
    """Imports that the original does not have and that are not allowed to all."""
    for each in imports(after.tree):
        line, path = each.node.lineno, each.imported
        if path.endswith(".*"):
            if path not in before.used:
                yield line, f"imports * from {path[:-2]}; name what is used of it"
        elif path not in before.used and not is_allowed(path):
            library = path if path.startswith(".") else path.split(".")[0]
            if library in LIBRARIES:
                yield line, f"imports {path}, which the original does not; {instead(path)}"
            else:
                allowed = ", ".join(sorted(LIBRARIES))
                yield line, f"imports {path}; allowed are {allowed} and what the original imports"


def new_names(before: Code, after: Code) -> Iterator[Finding]:
    """What the candidate names of other modules and of Python, and neither the original nor everyone may."""
    for node, paths in after.mentions:
        parent = after.parent(node)
        if isinstance(parent, ast.Attribute) and after.names.origins(parent):
            continue  # told with what is named of it
        for path in sorted(paths - before.used):
            told = path.removeprefix(f"{BUILTINS}.")
            if not is_allowed(path):
                yield node.lineno, f"uses {told}, which the original does not; {instead(path)}"


def loose_modules(before: Code, after: Code) -> Iterator[Finding]:
    """Modules that are handed on as values, where what is used of them cannot be read."""
    known = {what for _, what in _loose(before, before)}
    yield from (finding for finding in _loose(after, before) if finding[1] not in known)


def imports_in_classes(code: Code) -> Iterator[Finding]:
    """Imports whose names are attributes, which are not followed."""
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and code.names.scope_of(node).is_class:
            yield node.lineno, f"imports in the body of a class ({ast.unparse(node)}); import at the top of the module"


def _loose(code: Code, original: Code) -> Iterator[Finding]:
    for node, paths in code.mentions:
        modules = sorted(p for p in paths if is_module(p) or (p in original.used and p not in original.values))
        if modules and not (code.is_part(node) or code.is_alias(node) or _only_asks(code, node)):
            what = f"hands the module {modules[0]} on as a value; name in full what is used of it"
            yield node.lineno, what


def _only_asks(code: Code, node: ast.expr) -> bool:
    """`hasattr(tl, "name")` and `x is None`."""
    parent = code.parent(node)
    if isinstance(parent, ast.Compare):
        return all(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)
    return isinstance(parent, ast.Call) and code.names.origins(parent.func) == {f"{BUILTINS}.hasattr"}
