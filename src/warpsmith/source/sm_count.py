"""The number of programs that host code derives from the SM count: where it is read, if it reaches the grid."""

from __future__ import annotations

import ast

from warpsmith.source.launches import Launch
from warpsmith.source.places import Place, Spot, grid_names, spot_of_name
from warpsmith.source.syntax import FunctionNode, Source, assignments, last_name

_READS = frozenset({"multi_processor_count", "multiprocessor_count"})


def sm_count_spot(source: Source, launch: Launch) -> Spot | None:
    """Where the count that this launch's grid depends on is read, or None where it depends on none."""
    for node in ast.walk(launch.grid):
        if isinstance(node, ast.expr) and reads_sm_count(node):
            return Spot(Place.IN_PLACE, node.lineno, reads=(node,))
    helpers = {
        f.name for f in source.tree.body if isinstance(f, FunctionNode) and any(reads_sm_count(n) for n in ast.walk(f))
    }
    reached = grid_names(launch)
    for found in assignments(launch.scope):
        if found.name in reached and found.value is not None and _holds_the_count(found.value, helpers):
            return spot_of_name(source, launch, found.name, sizes_things=True)
    return None


def reads_sm_count(node: ast.AST) -> bool:
    """Whether a node is itself the reading of an SM count."""
    if isinstance(node, ast.Attribute):
        return node.attr in _READS
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value in _READS


def _holds_the_count(value: ast.expr, helpers: set[str]) -> bool:
    return any(reads_sm_count(n) or (isinstance(n, ast.Call) and last_name(n.func) in helpers) for n in ast.walk(value))
