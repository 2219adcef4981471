"""Puts overrides of knobs at their sites. Knows where they stand, and not where the values come from."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Protocol

from warpsmith.source.editing import Edits
from warpsmith.source.places import Place
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.sites import Site


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
            _override_read(edits, read, site, wording)
    elif spot.place is Place.HEURISTIC:
        for read in spot.reads:
            _override_heuristic(edits, read, site, wording)
    else:
        assert spot.statement is not None
        add = edits.add_at_entry if spot.place is Place.ENTRY else edits.add_after
        add(spot.statement, assignment(site, wording))


def _override_read(edits: Edits, read: ast.expr, site: Site, wording: Wording) -> None:
    """In place. A launch of one of several kernels has an override for each, one in the other."""
    now = edits.replacement(read)
    written = [
        f"({text} * {wording.value(site, '1')})" if site.multiplies else wording.value(site, text)
        for text in (edits.text(read), now)
    ]
    if now != written[0]:
        edits.replace(read, written[1])


def _override_heuristic(edits: Edits, function: ast.expr, site: Site, wording: Wording) -> None:
    """Inside a lambda; any other function is asked from a lambda that stands for it."""
    if isinstance(function, ast.Lambda):
        edits.replace(function.body, wording.value(site, edits.text(function.body)))
    else:
        edits.replace(function, f"lambda args: {wording.value(site, f'({edits.text(function)})(args)')}")


def assignment(site: Site, wording: Wording) -> str:
    """The statement that overrides a variable or an entry."""
    target = site.spot.target
    assert target is not None
    if site.multiplies:
        return f"{target} = {target} * {wording.value(site, '1')}"
    if site.default is not None or site.spot.is_copied:
        return wording.entry(site)
    replaced = f"{target} = {wording.value(site, target)}"
    if site.only_if is None:
        return replaced
    return f"if {target} == {site.only_if}:  # the default; any other is the caller's choice\n    {replaced}"


def read_entry(site: Site) -> str:
    """The present value of a dictionary's entry that may be missing: `options.get("num_stages", 3)`."""
    dictionary, key = _entry(site)
    return f"{dictionary}.get({key}, {site.default})"


def set_entry(site: Site, value: str) -> str:
    """The statement that sets a dictionary's entry; a dictionary that others may hold is copied."""
    dictionary, key = _entry(site)
    if site.spot.is_copied:
        entries = (f"{key}: {value}", f"**{dictionary}") if site.yields else (f"**{dictionary}", f"{key}: {value}")
        return f"{dictionary} = {{{', '.join(entries)}}}"
    return f"{site.spot.target} = {value}"


def _entry(site: Site) -> tuple[str, str]:
    assert site.spot.target is not None
    dictionary, _, key = site.spot.target.partition("[")
    return dictionary, key.rstrip("]")


def beside_host_code(found: Iterable[Site]) -> None:
    """Raises NotApplicable for a knob whose override stands where no variable of the host function is known."""
    for site in found:
        if site.spot.place is Place.CONFIGS:
            raise NotApplicable(
                f"line {site.line}: {site.id} is set by the configs of an autotune decorator, so a table "
                "cannot give it; add configs to the decorator"
            )
        if site.spot.place is Place.HEURISTIC:
            raise NotApplicable(
                f"line {site.line}: {site.id} is set by a heuristics decorator, so a table cannot give it"
            )
