"""What the imports of a source bind: each name, and what it stands for in full.

A relative import keeps its dots, so that a module of the source's own package is never taken for a library. Must not
know what a name is used for: `names` follows it through assignments and scopes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.source.syntax import walk_scope


@dataclass(frozen=True)
class Import:
    """One name that an import binds; "*" for all that a module has.

    `path` is what the name stands for: `torch.nn.functional`, `..package.name`, or `.name` for `from . import name`.
    `imported` is what is asked for: `import torch.nn` asks for torch.nn, and binds torch.
    """

    name: str
    path: str
    imported: str
    node: ast.Import | ast.ImportFrom

    @property
    def package(self) -> str:
        """The top package; "" for a relative import."""
        return self.path.partition(".")[0]

    @property
    def own_name(self) -> str:
        """What it is called where it is defined."""
        return self.path.rpartition(".")[2]


def bound_by(node: ast.AST) -> Iterator[Import]:
    """What a statement imports, nothing where it is no import."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            path = alias.name if alias.asname else alias.name.partition(".")[0]
            yield Import(alias.asname or path, path, alias.name, node)
    elif isinstance(node, ast.ImportFrom):
        base = "." * node.level + (f"{node.module}." if node.module else "")
        for alias in node.names:
            yield Import(alias.asname or alias.name, f"{base}{alias.name}", f"{base}{alias.name}", node)


def imports(tree: ast.Module) -> Iterator[Import]:
    """What a source imports, in functions and classes too."""
    for node in ast.walk(tree):
        yield from bound_by(node)


def name_of_import(tree: ast.Module, path: str) -> str | None:
    """By which name all code of a module reaches what is imported; None where it is not imported by a name of its own.

    A name that is imported under no condition goes before others.
    """
    own = [each for node in walk_scope(tree) for each in bound_by(node) if each.path == path]
    return next((each.name for each in sorted(own, key=lambda each: each.node not in tree.body)), None)


def paths_by_name(tree: ast.Module) -> dict[str, frozenset[str]]:
    """By name: all that imports make of it, wherever they stand."""
    found: dict[str, frozenset[str]] = {}
    for each in imports(tree):
        found[each.name] = found.get(each.name, frozenset()) | {each.path}
    return found
