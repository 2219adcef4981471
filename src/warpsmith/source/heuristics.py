"""Knobs that a heuristics decorator computes: it overwrites what a launch says, so the override stands in it."""

from __future__ import annotations

import ast

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.launches import Launch
from warpsmith.source.places import Place, Spot, grid_nodes
from warpsmith.source.sites import Site, refused_site
from warpsmith.source.syntax import FunctionNode, Source, is_name, last_name


def set_by_heuristics(source: Source, launch: Launch, name: str, kind: KnobKind) -> Site | None:
    """None where no heuristics decorator sets the argument, nor may."""
    if launch.jit is None or (line := launch.jit.heuristics_line(name)) is None:
        return None
    value = launch.jit.heuristics.get(name)
    if value is None:
        why = f"the heuristics decorator in line {line} may set it, whatever the launch says"
        return refused_site(launch, name, kind, (KnobOrigin.HEURISTICS, "heuristics", line), why)
    spot = Spot(Place.HEURISTIC, line, reads=(value,))
    refused = None
    if kind in (KnobKind.BLOCK_TILING, KnobKind.BLOCK_COVERING) and (
        shared := _shared_with_grid(source, launch, value)
    ):
        refused = f"the grid in line {launch.grid.lineno} may be computed from the same {shared} as the heuristics"
    return Site(launch, name, kind, KnobOrigin.HEURISTICS, ast.unparse(value), line, spot, refused=refused)


def computed(source: Source, value: ast.expr) -> list[ast.expr]:
    """What the function of a heuristic returns; the value itself where it is not in this file."""
    if isinstance(value, ast.Lambda):
        return [value.body]
    functions = [f for f in source.tree.body if isinstance(f, FunctionNode) and is_name(value, f.name)]
    found = [n.value for f in functions for n in ast.walk(f) if isinstance(n, ast.Return) and n.value is not None]
    return found or [value]


def _shared_with_grid(source: Source, launch: Launch, value: ast.expr) -> str | None:
    """A number or function that the grid and the heuristic have in common, where the grid does not ask Triton."""
    nodes = list(grid_nodes(launch))
    if any(isinstance(node, ast.Lambda | ast.FunctionDef) for node in nodes):
        return None
    parts = [part for body in computed(source, value) for part in ast.walk(body)]
    numbers = {n.value for n in parts if isinstance(n, ast.Constant) and type(n.value) is int} - {0, 1, 2}
    called = {last_name(n.func) for n in parts if isinstance(n, ast.Call)} - {"min", "max", ""}
    for node in nodes:
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in numbers:
            return f"{node.value}"
        if isinstance(node, ast.Call) and last_name(node.func) in called:
            return last_name(node.func)
    return None
