"""Loops around matrix products in which every warp loads and multiplies: what `warp_specialize` could take apart.

What Triton 3.6 and 3.7.1 make of it, by its machine code: for 10.x each such loop is taken apart; for 9.0 and 12.x one
whose operands come by tensor descriptors; for 9.0 only with a single product and not inside a flattened loop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.access import LANGUAGE
from warpsmith.source.jit import DOTS, LOADS, Jit, operation, operations
from warpsmith.source.launches import Reading
from warpsmith.source.loops import loops_around
from warpsmith.source.syntax import dotted, walk_scope

_DESCRIPTOR_LOADS = frozenset({"load_tensor_descriptor", "_experimental_descriptor_load"})


def product_loops(jit: Jit) -> list[ast.For]:
    """Innermost `range` loops that load and multiply tiles and do not say how their warps share that."""
    return [n for n in walk_scope(jit.node) if isinstance(n, ast.For) and _is_open(n) and _loads(n) and _products(n)]


def unspecialized(reading: Reading, jit: Jit) -> Iterator[Opportunity]:
    """One opportunity a loop."""
    for loop in product_loops(jit):
        by_descriptor = is_by_descriptor(reading, jit, loop)
        kind = OpportunityKind.UNSPECIALIZED_TMA_LOOP if by_descriptor else OpportunityKind.UNSPECIALIZED_LOOP
        how = "through descriptors " if by_descriptor else ""
        yield Opportunity(
            kind=kind,
            function=jit.name,
            line=loop.lineno,
            what=f"the loop over {ast.unparse(loop.iter)} loads {how}and multiplies in the same warps",
            why="with warp_specialize some warps only load, so that those that multiply issue products without a pause",
        )


def is_by_descriptor(reading: Reading, jit: Jit, loop: ast.For) -> bool:
    """Whether descriptors alone load, for one product, and no loop around is flattened."""
    products = _products(loop)
    alone = len(products) == 1 and operation(products[0]) == "dot" and all(map(_through_descriptor, _loads(loop)))
    around = (outer for outer in loops_around(reading.source, loop, jit) if isinstance(outer, ast.For))
    return alone and not any(_names(outer, "flatten") for outer in (loop, *around))


def _is_open(loop: ast.For) -> bool:
    is_range = isinstance(loop.iter, ast.Call) and operation(loop.iter) == "range"
    inner = any(isinstance(n, ast.For | ast.While) for n in ast.walk(loop) if n is not loop)
    return is_range and not inner and not _names(loop, "warp_specialize")


def _names(loop: ast.For, argument: str) -> bool:
    """Whether the loop's range is given an argument, or may be, behind `**`."""
    return isinstance(loop.iter, ast.Call) and any(k.arg in (argument, None) for k in loop.iter.keywords)


def _products(loop: ast.For) -> list[ast.Call]:
    return list(operations(loop, DOTS))


def _loads(loop: ast.For) -> list[ast.Call]:
    return [c for c in operations(loop, LOADS | _DESCRIPTOR_LOADS) if isinstance(c.func, ast.Attribute)]


def _through_descriptor(load: ast.Call) -> bool:
    """Whether it is a method of a descriptor, or a function that is given one."""
    assert isinstance(load.func, ast.Attribute)
    return operation(load) in _DESCRIPTOR_LOADS or dotted(load.func.value) not in LANGUAGE
