"""The sweep's instrument: the same source, whose knobs a worker can set from outside through one dictionary."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.measurement import SETTINGS_NAME
from warpsmith.source.editing import Edits
from warpsmith.source.knobs import Site, sites
from warpsmith.source.launches import read
from warpsmith.source.overrides import add_override, chosen, read_entry


class _FromDictionary:
    def value(self, site: Site, current: str) -> str:
        return f'{SETTINGS_NAME}.get("{site.id}", {current})'

    def argument(self, site: Site) -> str:
        return f"{site.name}={self.value(site, str(site.default))}"

    def entry(self, site: Site) -> str:
        return f"{site.spot.target} = {self.value(site, read_entry(site))}"


def make_tunable(source: str, knobs: Sequence[Knob]) -> str:
    """The source with an override from WARPSMITH_SETTINGS for each knob; all other text as it was.

    Raises NotApplicable for a knob that is not in the source or cannot be changed, PreflightError for no Python.
    """
    if not knobs:
        return source
    reading = read(source)
    edits = Edits(source)
    wording = _FromDictionary()
    for site in chosen(sites(reading), [knob.id for knob in knobs]):
        add_override(edits, site, wording)
    edits.after_imports.append(f"\n{SETTINGS_NAME}: dict[str, int] = {{}}")
    return edits.apply()
