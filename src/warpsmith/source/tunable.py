"""The sweep's instrument: the same source, whose knobs a worker can set from outside through one dictionary."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.measurement import SETTINGS_NAME
from warpsmith.source.editing import Edits
from warpsmith.source.knobs import sites
from warpsmith.source.launches import read
from warpsmith.source.one_config import leave_one_config
from warpsmith.source.overrides import add_override, chosen, read_entry, set_entry
from warpsmith.source.places import Place
from warpsmith.source.sites import Site


class _FromDictionary:
    """Where a launch takes one of several kernels, a setting holds for the one that it takes."""

    def value(self, site: Site, current: str) -> str:
        return f"{SETTINGS_NAME}.get({_key(site)}, {current})"

    def argument(self, site: Site) -> str:
        if site.default is not None and site.launch.chosen_as is None:
            return f"{site.name}={self.value(site, str(site.default))}"
        return f'**({{"{site.name}": {SETTINGS_NAME}["{site.id}"]}} if {_is_set(site)} else {{}})'

    def entry(self, site: Site) -> str:
        if site.spot.is_copied:
            value = f'{SETTINGS_NAME}["{site.id}"]'
            return f"if {_is_set(site)}:\n    {set_entry(site, value)}"
        return set_entry(site, self.value(site, read_entry(site)))


def _key(site: Site) -> str:
    variable = site.launch.chosen_as
    return f'"{site.id}"' if variable is None else f'"{site.id}" if {variable} is {site.launch.jit_name} else None'


def _is_set(site: Site) -> str:
    variable = site.launch.chosen_as
    alone = f'"{site.id}" in {SETTINGS_NAME}'
    return alone if variable is None else f"{variable} is {site.launch.jit_name} and {alone}"


def make_tunable(source: str, knobs: Sequence[Knob]) -> str:
    """The source with an override from WARPSMITH_SETTINGS for each knob; all other text as it was.

    Raises NotApplicable for a knob that is not in the source or cannot be changed, PreflightError for no Python.
    """
    if not knobs:
        return source
    reading = read(source)
    edits = Edits(source)
    wording = _FromDictionary()
    edits.after_imports.append(f"\n{SETTINGS_NAME}: dict[str, int] = {{}}")
    found = chosen(sites(reading), [knob.id for knob in knobs])
    leave_one_config(edits, reading.source, [site for site in found if site.spot.place is Place.CONFIGS])
    for site in found:
        if site.spot.place is not Place.CONFIGS:
            add_override(edits, site, wording)
    return edits.apply()
