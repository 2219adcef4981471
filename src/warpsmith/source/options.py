"""num_warps, num_stages and maxnreg of one launch: given, in a dictionary, set by a decorator, or absent."""

from __future__ import annotations

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.dictionaries import dictionary_spot
from warpsmith.source.heuristics import set_by_heuristics
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.places import Place, Spot
from warpsmith.source.sites import Site, given, origin_of_entry
from warpsmith.source.tuned import set_by_configs

#: What Triton takes on NVIDIA where a launch says nothing (triton/backends/nvidia/compiler.py, CUDAOptions).
TRITON_DEFAULTS = {"num_warps": 4, "num_stages": 3}
KINDS = {
    "num_warps": KnobKind.NUM_WARPS,
    "num_stages": KnobKind.NUM_STAGES,
    "maxnreg": KnobKind.MAXNREG,
}


def option(reading: Reading, launch: Launch, name: str) -> Site:
    """num_warps, num_stages or maxnreg at one launch. No cap on registers is a knob too: absent, and None."""
    source, kind = reading.source, KINDS[name]
    if (site := set_by_heuristics(source, launch, name, kind)) is not None:
        return site
    if launch.jit is not None and launch.jit.autotune is not None:
        return set_by_configs(source, launch, name, kind)
    expression = launch.argument(name)
    if expression is not None:
        return given(source, launch, name, kind, expression)
    default = TRITON_DEFAULTS.get(name)
    told = str(default) if default is not None else "no cap"
    found = dictionary_spot(source, launch, name)
    if found is not None:
        spot, value = found
        if value is not None:
            origin, told = origin_of_entry(source, launch, value)
            return Site(launch, name, kind, origin, told, spot.line, spot)
        if default is not None or spot.is_copied or spot.refused is not None:
            unseen = spot.is_copied and default is not None
            origin, told = (KnobOrigin.OTHER, spot.target or told) if unseen else (KnobOrigin.ABSENT, told)
            return Site(launch, name, kind, origin, told, spot.line, spot, default)
    spot = Spot(Place.KEYWORD, launch.line)
    return Site(launch, name, kind, KnobOrigin.ABSENT, told, launch.line, spot, default)
