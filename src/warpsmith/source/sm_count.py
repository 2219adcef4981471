"""The number of programs that host code derives from the SM count: where it is read, if it reaches the grid."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from warpsmith.source.launches import KEPT_READINGS, Launch
from warpsmith.source.places import Place, Spot, grid_names, spot_of_name
from warpsmith.source.syntax import FunctionNode, Source, assignments, last_name

_READS = frozenset({"multi_processor_count", "multiprocessor_count"})
#: Functions of other modules that give an SM count, by what they are called.
_GIVES = re.compile(
    r"(^|_)((sm|multi_?processor|core)s?_(count|num)|num_(sms?|multi_?processors?|cores))$", re.IGNORECASE
)


def sm_count_spot(source: Source, launch: Launch) -> Spot | None:
    """Where the count that this launch's grid depends on is read, or None where it depends on none."""
    for node in ast.walk(launch.grid):
        if isinstance(node, ast.expr) and reads_sm_count(node):
            return Spot(Place.IN_PLACE, node.lineno, reads=(node,))
    reached = grid_names(launch)
    for found in assignments(launch.scope):
        if found.name in reached and found.value is not None and _holds_the_count(found.value, _helpers(source)):
            return spot_of_name(source, launch, found.name, sizes_things=True)
    return None


@lru_cache(maxsize=KEPT_READINGS)
def _helpers(source: Source) -> frozenset[str]:
    """The functions of the module that read the count."""
    functions = (node for node in source.tree.body if isinstance(node, FunctionNode))
    return frozenset(f.name for f in functions if any(reads_sm_count(n) for n in ast.walk(f)))


def reads_sm_count(node: ast.AST) -> bool:
    """Whether a node is itself the reading of an SM count."""
    if isinstance(node, ast.Attribute):
        return node.attr in _READS
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value in _READS


def _holds_the_count(value: ast.expr, helpers: frozenset[str]) -> bool:
    called = [last_name(n.func) for n in ast.walk(value) if isinstance(n, ast.Call)]
    return any(map(reads_sm_count, ast.walk(value))) or any(n in helpers or _GIVES.search(n) for n in called)
