"""The scopes of a source, and every place where a name gets a value in them.

Owns Python's rules of which scope evaluates a node and which one binds a name. Must not know what a name stands for.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from warpsmith.source.imports import bound_by
from warpsmith.source.syntax import FunctionNode

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
#: What binds a name: a name or parameter itself, or the statement or pattern that holds it.
Binder = ast.stmt | ast.expr | ast.arg | ast.excepthandler | ast.pattern
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(eq=False)
class Binding:
    """One place where a name gets a value. `value` is None where none is written there (parameters, except).

    `is_element` says that the name gets an element of `value`: of what a loop walks, or of what is unpacked.
    """

    name: str
    scope: Scope
    node: Binder
    value: ast.expr | None = None
    is_element: bool = False
    imported: str | None = None


@dataclass(eq=False)
class Scope:
    """A module, class, function, lambda or comprehension."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def function(self) -> Scope:
        """The innermost function around, or the module. Lambdas, comprehensions and classes run within theirs."""
        scope = self
        while scope.parent is not None and not isinstance(scope.node, FunctionNode):
            scope = scope.parent
        return scope

    @property
    def runs_at_import(self) -> bool:
        """Whether its code runs when the module is imported, as that of a class in a module does."""
        scope = self
        while scope.parent is not None and not isinstance(scope.node, Function):
            scope = scope.parent
        return scope.parent is None


class Scopes(ast.NodeVisitor):
    """Walks a module once, in order. Raises RecursionError where the tree is deeper than Python can walk."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = self._scope = Scope(tree, None)
        self.of: dict[ast.AST, Scope] = {}
        self.bindings: list[Binding] = []
        self._values: dict[ast.expr, tuple[ast.expr, bool]] = {}
        self.visit(tree)

    def visit(self, node: ast.AST) -> None:
        self.of[node] = self._scope
        super().visit(node)

    def _bind(
        self, name: str, node: Binder, value: ast.expr | None = None, *, element: bool = False, path: str | None = None
    ) -> None:
        scope = self._scope
        if isinstance(node, ast.NamedExpr):
            while isinstance(scope.node, Comprehension) and scope.parent is not None:
                scope = scope.parent
        if name in scope.globals:
            scope = self.module
        elif name in scope.nonlocals and scope.parent is not None:
            scope = scope.parent
            while scope.parent is not None and (scope.is_class or name not in scope.bindings):
                scope = scope.parent
        binding = Binding(name, scope, node, value, element, path)
        scope.bindings.setdefault(name, []).append(binding)
        self.bindings.append(binding)

    def _each(self, nodes: Sequence[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _within(self, node: ast.AST, inside: Sequence[ast.AST]) -> None:
        outer, self._scope = self._scope, Scope(node, self._scope)
        if isinstance(node, Function):
            every = [*node.args.posonlyargs, *node.args.args, node.args.vararg, *node.args.kwonlyargs, node.args.kwarg]
            for argument in every:
                if argument is not None:
                    self.of[argument] = self._scope
                    self._bind(argument.arg, argument)
        self._each(inside)
        self._scope = outer

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name, node)
        self._each(node.decorator_list)
        self._signature(node.args)
        self._each([node.returns])
        self._within(node, node.body)

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def _signature(self, arguments: ast.arguments) -> None:
        self.of[arguments] = self._scope
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        self._each([*arguments.defaults, *arguments.kw_defaults, *(each.annotation for each in every if each)])

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._signature(node.args)
        self._within(node, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name, node)
        self._each([*node.decorator_list, *node.bases, *node.keywords])
        self._within(node, node.body)

    def _comprehension(self, node: Comprehension) -> None:
        first = node.generators[0]
        self.visit(first.iter)
        for generator in node.generators:
            self._take(generator.target, generator.iter, element=True)
        inside: list[ast.AST] = [first.target, *first.ifs, *node.generators[1:]]
        inside += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._within(node, inside)

    visit_ListComp = _comprehension
    visit_SetComp = _comprehension
    visit_DictComp = _comprehension
    visit_GeneratorExp = _comprehension

    def _take(self, target: ast.expr, value: ast.expr, *, element: bool = False) -> None:
        """Notes what the names in a target get."""
        if isinstance(target, ast.Name):
            self._values[target] = value, element
        elif isinstance(target, ast.Starred):
            self._take(target.value, value, element=True)
        elif isinstance(target, ast.Tuple | ast.List):
            pairs = pairwise(target, value) if not element else None
            for index, each in enumerate(target.elts):
                self._take(each, pairs[index] if pairs else value, element=not pairs)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._take(target, node.value)
        self._each([node.value, *node.targets])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._take(node.target, node.value)
        self._each([node.value, node.annotation, node.target])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._take(node.target, node.value, element=True)
        self._each([node.value, node.target])

    def visit_For(self, node: ast.For) -> None:
        self._take(node.target, node.iter, element=True)
        self._each([node.iter, node.target, *node.body, *node.orelse])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.of[node.target] = self._scope
        self.visit(node.value)
        self._bind(node.target.id, node, node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            value, element = self._values.get(node, (None, False))
            self._bind(node.id, node, value, element=element)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for each in bound_by(node):
            self._bind(each.name, node, path=each.path)

    visit_Import = _import
    visit_ImportFrom = _import

    def visit_Global(self, node: ast.Global) -> None:
        self._scope.globals.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._scope.nonlocals.update(node.names)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
            self._bind(node.name, node)
        elif isinstance(node, ast.MatchMapping) and node.rest is not None:
            self._bind(node.rest, node)
        super().generic_visit(node)


def pairwise(target: ast.expr, value: ast.expr) -> list[ast.expr] | None:
    """The values that the elements of a target get one by one, as in `a, b = x, y`."""
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        starred = any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
        return value.elts if len(target.elts) == len(value.elts) and not starred else None
    return None
