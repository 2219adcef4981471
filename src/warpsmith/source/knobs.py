"""The knobs of every launch: how each is set today, and where an override of it takes effect.

A knob is one id; it has a site at every launch of its jit function. One variable that feeds several launches of a
function is one knob, that of the first; the others are tied to it. Must not know what values are tried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from warpsmith.contracts.audit import Knob, KnobKind, KnobOrigin
from warpsmith.source.block_sites import blocks_of
from warpsmith.source.callers import left_to_callers
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.options import option
from warpsmith.source.places import Place
from warpsmith.source.programs import programs_site
from warpsmith.source.restrictions import restricted
from warpsmith.source.several_kernels import after_the_choice
from warpsmith.source.sites import Site
from warpsmith.source.sm_count import sm_count_spot
from warpsmith.source.syntax import statement_told

__all__ = ["Site", "knobs", "sites"]

_PROGRAMS_PER_SM = "programs_per_sm"


def sites(reading: Reading) -> list[Site]:
    """Every knob at every launch, in source order, with those that are tied to another refused."""
    found = [
        restricted(reading.source, after_the_choice(reading.source, left_to_callers(reading.source, site)))
        for launch in reading.launches
        for site in _sites_of(reading, launch)
    ]
    return _tie([site for site in found if not _is_idle(site)])


def knobs(found: Iterable[Site]) -> tuple[Knob, ...]:
    """One contract a knob id. It is tunable if it is at any of its launches."""
    by_id: dict[str, Site] = {}
    for site in found:
        if site.id not in by_id or (by_id[site.id].why_not and not site.why_not):
            by_id[site.id] = site
    return tuple(_knob(site) for site in by_id.values())


def _knob(site: Site) -> Knob:
    return Knob(
        id=site.id,
        kind=site.kind,
        jit_function=site.launch.jit_name,
        host_function=site.launch.host_function,
        name=site.name,
        origin=site.origin,
        variable=site.spot.target,
        line=site.line,
        anchor_line=site.spot.line,
        expression=site.expression,
        tunable=site.why_not is None,
        why_not=site.why_not,
        listed=site.listed,
    )


def _sites_of(reading: Reading, launch: Launch) -> Iterator[Site]:
    yield option(reading, launch, "num_warps")
    yield option(reading, launch, "num_stages")
    yield from blocks_of(reading, launch)
    spot = sm_count_spot(reading.source, launch)
    if spot is not None:
        told = statement_told(spot.statement) if isinstance(spot.statement, ast.Assign) else "multi_processor_count"
        kind, origin = KnobKind.PROGRAMS_PER_SM, KnobOrigin.SM_COUNT
        yield Site(launch, _PROGRAMS_PER_SM, kind, origin, told, spot.line, spot)
    elif (site := programs_site(reading, launch)) is not None:
        yield site
    yield option(reading, launch, "maxnreg")


def _is_idle(site: Site) -> bool:
    """A cap on registers that the source does not set and that cannot be set, or whose kernel is not seen."""
    unset = site.kind is KnobKind.MAXNREG and site.origin is KnobOrigin.ABSENT
    return unset and (site.why_not is not None or site.launch.jit is None)


def _tie(found: list[Site]) -> list[Site]:
    """Refuses the sites whose variable another knob already overrides at the same place, or that covers elsewhere."""
    owners = {_variable(s): s.id for s in found if s.kind is KnobKind.BLOCK_COVERING and s.spot.target is not None}
    result: list[Site] = []
    for site in found:
        variable = _variable(site)
        if variable is None or site.why_not is not None:
            result.append(site)
            continue
        owner = owners.setdefault(variable, site.id)
        tied = f"tied to {owner}: the variable {variable[1]} feeds both launches"
        result.append(site if owner == site.id else replace(site, refused=tied))
    return result


def _variable(site: Site) -> tuple[int, str, str | None] | None:
    """The variable that an override sets, None for none. Kernels that one launch chooses from are told apart by it."""
    spot = site.spot
    kernel = site.launch.jit_name if site.launch.chosen_as is not None else None
    if spot.target is not None and spot.statement is not None:
        return id(spot.statement), spot.target, kernel
    constants = {read.id for read in spot.reads if isinstance(read, ast.Name)}
    if spot.place is Place.IN_PLACE and len(constants) == 1 and len(spot.reads) > 0:
        return id(site.launch.scope), next(iter(constants)), kernel
    return None
