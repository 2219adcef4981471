"""Syntax trees of kernel sources: parsing, names, blocks and what dominates what.

Owns how a tree is walked. Must not know of Triton, and changes nothing: `editing` does.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from warpsmith.contracts.errors import PreflightError

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
#: Where statements live: a function, or the module for code outside any.
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
#: How statements look that only newer Pythons read: PEP 654, 695, 701, 750, 758.
_NEWER = (
    ((3, 11), re.compile(r"^\s*except\s*\*")),
    ((3, 12), re.compile(r"^\s*type\s+\w+|^\s*(async\s+def|def|class)\s+\w+\s*\[|\b[rR]?[fF][rR]?['\"]")),
    ((3, 14), re.compile(r"^\s*except\s+[\w.]+\s*,|\b[rR]?[tT][rR]?['\"]")),
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)


def parse(source: str) -> ast.Module:
    """The tree of a source. Raises PreflightError naming the line where it is no Python."""
    try:
        return ast.parse(source)
    except SyntaxError as error:
        line = error.lineno if error.lineno is not None else 1
        raise PreflightError(f"line {line}: {_not_read(error.msg, _line_of(source, line))}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        why = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise PreflightError(f"line 1: the source is not valid Python: {why}") from error


def _line_of(source: str, line: int) -> str:
    lines = source.split("\n")
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _not_read(why: str, text: str) -> str:
    """What to do where a newer Python would read the line."""
    invalid = f"the source is not valid Python: {why}"
    newer = [version for version, form in _NEWER if version > sys.version_info[:2] and form.search(text)]
    if not newer:
        return invalid
    here, there = (f"{major}.{minor}" for major, minor in (sys.version_info[:2], newer[0]))
    return f"{invalid}; Python {there} may read it, and this is Python {here}: run warpsmith under the project's Python"


def equal_syntax_tree(a: str, b: str) -> bool:
    """Whether two sources differ in layout and comments alone. Raises PreflightError."""
    try:
        return ast.dump(parse(a)) == ast.dump(parse(b))
    except RecursionError as error:
        raise too_deep() from error


def too_deep() -> PreflightError:
    """The error for a source whose tree is deeper than Python can walk."""
    return PreflightError("line 1: the source is nested too deeply to be read")


@dataclass(frozen=True, eq=False)
class Source:
    """A parsed source with the way up from every node. One is equal to itself alone."""

    text: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]

    @classmethod
    def read(cls, text: str) -> Source:
        """Raises PreflightError."""
        tree = parse(text)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        return cls(text, tree, parents)

    @cached_property
    def functions(self) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
        """Every function, however deep it is defined."""
        return tuple(node for node in self.parents if isinstance(node, FunctionNode))

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """Every call of a plain name, by that name."""
        found: dict[str, list[ast.Call]] = {}
        for node in self.parents:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found.setdefault(node.func.id, []).append(node)
        return found

    @cached_property
    def method_calls(self) -> dict[str, list[ast.Call]]:
        """Every call of an attribute, by the attribute's name."""
        found: dict[str, list[ast.Call]] = {}
        for node in self.parents:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found.setdefault(node.func.attr, []).append(node)
        return found

    @cached_property
    def module_values(self) -> dict[str, list[ast.expr | None]]:
        """What the module's own code sets each plain name to."""
        found: dict[str, list[ast.expr | None]] = {}
        for each in assignments(self.tree):
            found.setdefault(each.name, []).append(each.value)
        return found

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def scope_of(self, node: ast.AST) -> Scope:
        """The innermost function that runs `node`, or the module."""
        return next(parent for parent in self.ancestors(node) if isinstance(parent, _SCOPES))

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node`."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def blocks_above(self, node: ast.AST, scope: Scope) -> Iterator[tuple[list[ast.stmt], int]]:
        """Innermost first: each list of statements that holds `node` within `scope`, and where in it."""
        current: ast.AST = node
        while current is not scope:
            parent = self.parents[current]
            if isinstance(current, ast.stmt):
                for block in blocks(parent):
                    if any(statement is current for statement in block):
                        yield block, next(i for i, statement in enumerate(block) if statement is current)
            current = parent

    def top_level(self, node: ast.AST) -> ast.stmt:
        """The statement of the module that holds `node`."""
        while self.parents[node] is not self.tree:
            node = self.parents[node]
        assert isinstance(node, ast.stmt)
        return node


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements that a statement, or the module, holds itself."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield block


def walk_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs in `scope` itself: not the bodies of functions and classes defined in it."""
    waiting = _children(scope)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += _children(node)[::-1]


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly under a node, in order; whether a name is read or set is no node of interest."""
    found: list[ast.AST] = []
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST) and field != "ctx":
            found.append(value)
    return found


def name_of(scope: Scope) -> str:
    """A function's own name, as a frame reports it; "<module>" outside any."""
    return "<module>" if isinstance(scope, ast.Module) else scope.name


def parameters_of(scope: Scope) -> tuple[str, ...]:
    """Parameter names in the order in which positional arguments bind, keyword-only ones last."""
    if isinstance(scope, ast.Module):
        return ()
    arguments = scope.args
    return tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` for a chain of attributes, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        value = dotted(node.value)
        return f"{value}.{node.attr}" if value is not None else None
    return None


def defaults_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    """The defaults of a function's parameters, by name."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found = dict(zip((a.arg for a in positional[::-1]), arguments.defaults[::-1], strict=False))
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found | {a.arg: default for a, default in named if default is not None}


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name; "" for anything else."""
    return (dotted(node) or "").rpartition(".")[2]


def is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def mentions(node: ast.AST, name: str) -> bool:
    return any(is_name(each, name) for each in ast.walk(node))


def names_read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


@dataclass(frozen=True)
class Assignment:
    """A name and what it is set to. `value` is None for what is not an expression of its own (loops, with)."""

    name: str
    value: ast.expr | None
    node: ast.AST


def assignments(node: ast.AST) -> Iterator[Assignment]:
    """Every binding of a plain name in `node`, `node` itself included; nested functions excluded."""
    for inner in (node, *walk_scope(node)):
        if isinstance(inner, ast.Assign):
            for target in inner.targets:
                yield from _bindings(target, inner.value, inner)
        elif isinstance(inner, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            if inner.value is not None:
                yield from _bindings(inner.target, inner.value, inner)
        elif isinstance(inner, ast.For | ast.AsyncFor):
            yield from _bindings(inner.target, None, inner)
        elif isinstance(inner, ast.withitem) and inner.optional_vars is not None:
            yield from _bindings(inner.optional_vars, None, inner)


def _bindings(target: ast.expr, value: ast.expr | None, node: ast.AST) -> Iterator[Assignment]:
    if isinstance(target, ast.Name):
        yield Assignment(target.id, value, node)
    elif isinstance(target, ast.Starred):
        yield from _bindings(target.value, value, node)
    elif isinstance(target, ast.Tuple | ast.List):
        pairwise = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        for index, element in enumerate(target.elts):
            if pairwise:
                assert isinstance(value, ast.Tuple | ast.List)
                yield from _bindings(element, value.elts[index], node)
            else:
                yield from _bindings(element, value, node)


def assigns(node: ast.AST, name: str) -> bool:
    return any(found.name == name for found in assignments(node))


def lines_told(lines: Iterable[int]) -> str:
    """As "line 20" or "lines 11, 14": each once, in order."""
    found = sorted(set(lines))
    return f"line{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"


def statement_told(statement: ast.AST) -> str:
    """A statement on one line, the same under every Python: 3.10 puts the targets of `a, b = c` in parentheses."""
    told = ast.unparse(statement).split("\n")[0]
    if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple)):
        return told
    target = ast.unparse(statement.targets[0])
    return target.removeprefix("(").removesuffix(")") + told[len(target) :] if told.startswith(target) else told
