"""Puts overrides of knobs at their sites. Knows where they stand, and not where the values come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from warpsmith.source.editing import Edits, NotApplicable
from warpsmith.source.knobs import Site
from warpsmith.source.places import Place


class Wording(Protocol):
    """How an override is written."""

    def value(self, site: Site, current: str) -> str:
        """An expression: the knob's value if there is one, else `current`."""
        ...

    def argument(self, site: Site) -> str:
        """The argument of a launch that gives the knob nothing today."""
        ...

    def entry(self, site: Site) -> str:
        """The statement that sets an entry of the launch's dictionary that has none today."""
        ...


def chosen(sites: Iterable[Site], ids: Iterable[str]) -> list[Site]:
    """The sites of these knobs that can be changed. Raises NotApplicable for a knob that is unknown or has none."""
    every = list(sites)
    result: list[Site] = []
    for knob_id in ids:
        mine = [site for site in every if site.id == knob_id]
        if not mine:
            raise NotApplicable(f"{knob_id} is no knob of this source")
        free = [site for site in mine if site.why_not is None]
        if not free:
            raise NotApplicable(f"{knob_id} cannot be changed: {mine[0].why_not}")
        result += free
    return result


def add_override(edits: Edits, site: Site, wording: Wording) -> None:
    """Adds one site's override to the edits."""
    spot = site.spot
    if spot.place is Place.KEYWORD:
        edits.add_argument(site.launch.call, wording.argument(site))
    elif spot.place is Place.IN_PLACE:
        for read in spot.reads:
            text = edits.text(read)
            factor = wording.value(site, "1")
            edits.replace(read, f"({text} * {factor})" if site.multiplies else wording.value(site, text))
    else:
        assert spot.statement is not None
        add = edits.add_at_entry if spot.place is Place.ENTRY else edits.add_after
        add(spot.statement, assignment(site, wording))


def assignment(site: Site, wording: Wording) -> str:
    """The statement that overrides a variable or an entry."""
    target = site.spot.target
    assert target is not None
    if site.multiplies:
        return f"{target} = {target} * {wording.value(site, '1')}"
    if site.default is not None:
        return wording.entry(site)
    return f"{target} = {wording.value(site, target)}"


def read_entry(site: Site) -> str:
    """The present value of a dictionary's entry that may be missing: `options.get("num_stages", 3)`."""
    assert site.spot.target is not None
    dictionary, _, key = site.spot.target.partition("[")
    return f"{dictionary}.get({key.rstrip(']')}, {site.default})"
