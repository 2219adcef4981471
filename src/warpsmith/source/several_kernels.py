"""An override at a launch that takes one of several kernels: it stands after the choice, and asks for its kernel."""

from __future__ import annotations

import ast
from dataclasses import replace

from warpsmith.source.places import Place, Spot, reaching_assignment
from warpsmith.source.sites import Site
from warpsmith.source.syntax import Source, walk_scope


def after_the_choice(source: Source, site: Site) -> Site:
    """The site with its override moved to where it is known which kernel is launched."""
    variable, spot = site.launch.chosen_as, site.spot
    if variable is None or site.why_not is not None or spot.place not in (Place.AFTER, Place.ENTRY, Place.IN_PLACE):
        return site
    choice = reaching_assignment(source, site.launch, variable)
    if choice is None:
        return replace(site, refused=f"it is not seen where {variable} is chosen")
    end = choice.end_lineno or choice.lineno
    if spot.place is Place.IN_PLACE:
        early = [read.lineno for read in spot.reads if read.lineno <= end]
        return replace(site, refused=_too_early(site, early[0], choice)) if early else site
    start = spot.statement.end_lineno or 0 if spot.place is Place.AFTER and spot.statement is not None else spot.line
    if start > end or (spot.statement is choice):
        return site
    name = (spot.target or "").partition("[")[0]
    for node in walk_scope(site.launch.scope):
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)):
            continue
        if start < node.lineno <= end:
            return replace(site, refused=_too_early(site, node.lineno, choice))
    return replace(site, spot=Spot(Place.AFTER, choice.lineno, spot.target, choice, is_copied=spot.is_copied))


def _too_early(site: Site, line: int, choice: ast.stmt) -> str:
    return f"it is read in line {line}, before line {choice.lineno} chooses between kernels as {site.launch.chosen_as}"
