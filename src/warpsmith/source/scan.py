"""Reads a kernel's source into an audit: jit functions, launches, knobs, opportunities, and what it does not cover."""

from __future__ import annotations

import ast

from warpsmith.contracts.audit import LaunchSite, SourceAudit, Tier
from warpsmith.contracts.errors import PreflightError
from warpsmith.source.blocks import COVERS
from warpsmith.source.call_paths import CallPaths
from warpsmith.source.jit import describe
from warpsmith.source.knobs import Site, knobs, sites
from warpsmith.source.launches import Launch, Reading, read
from warpsmith.source.opportunities import opportunities
from warpsmith.source.patterns import patterns
from warpsmith.source.places import reaching_assignment
from warpsmith.source.syntax import too_deep, walk_scope


def scan(source: str) -> SourceAudit:
    """The audit of a source. Raises PreflightError naming the line where it is no Python."""
    try:
        return _audit(source)
    except RecursionError as error:
        raise too_deep() from error
    except ValueError as error:  # a number of thousands of digits, which Python reads and will not write
        raise PreflightError(f"the source cannot be read: {error}") from error


def _audit(source: str) -> SourceAudit:
    reading = read(source)
    found = sites(reading)
    paths = CallPaths(reading)
    described = tuple(describe(jit) for jit in reading.jits.values())
    return SourceAudit(
        tier=max((f.tier for f in described), default=Tier.ELEMENT_WISE),
        jit_functions=described,
        launches=tuple(
            LaunchSite(
                jit_function=launch.jit_name,
                host_function=launch.host_function,
                line=launch.line,
                grid=_grid_told(reading, launch),
            )
            for launch in reading.launches
        ),
        knobs=knobs(found),
        opportunities=opportunities(reading, found, paths),
        patterns=patterns(reading, paths),
        not_covered=(*reading.not_covered, *_refused(found)),
    )


def _grid_told(reading: Reading, launch: Launch) -> str:
    """A grid as it is written; one that has a name, as it is set."""
    if isinstance(launch.grid, ast.Name):
        statement = reaching_assignment(reading.source, launch, launch.grid.id)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            return ast.unparse(statement.value)
        for node in walk_scope(launch.scope):
            if isinstance(node, ast.FunctionDef) and node.name == launch.grid.id:
                last = node.body[-1]
                if isinstance(last, ast.Return) and last.value is not None:
                    return ast.unparse(last.value)
    return ast.unparse(launch.grid)


def _refused(found: list[Site]) -> tuple[str, ...]:
    """Knobs that cannot be changed, by line, name and reason. Covering blocks are understood, so not among them."""
    said = (
        f"line {site.launch.line}: {site.id}: {site.why_not}"
        for site in found
        if site.why_not is not None and not _is_understood(site.why_not)
    )
    return tuple(dict.fromkeys(said))


def _is_understood(why_not: str) -> bool:
    return why_not == COVERS or why_not.startswith("tied to ")
