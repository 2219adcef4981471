"""Owns which knobs change nothing: those whose values, turned alone, all give the same machine code and grid.

Stages have nothing to act on in a kernel without a loop that the compiler pipelines; that is seen, not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsmith.contracts.audit import Knob, KnobKind
from warpsmith.contracts.base import Settings
from warpsmith.search.tuning.catalogue import Catalogue, Searched, compile_into
from warpsmith.search.tuning.constraints import why_not
from warpsmith.search.tuning.space import HOST_ONLY, Space, key_of


def inert_knobs(
    searched: Searched, catalogues: Mapping[str, Catalogue], spaces: Mapping[str, Space], knobs: Sequence[Knob]
) -> tuple[Knob, ...]:
    """The knobs that change nothing at any case, beside the original's blocks nor beside the smallest ones.

    The number of warps always changes the code, and the host's knobs none of it: they are not probed.
    """
    probed = [knob for knob in knobs if knob.kind is not KnobKind.NUM_WARPS and knob.kind not in HOST_ONLY]
    if not probed:
        return ()
    # Apart: what is turned here is no choice of a search, which has a value for every knob.
    catalogues = {name: Catalogue(each.case, each.original) for name, each in catalogues.items()}
    told = f"{searched.mode.value}: which of {', '.join(knob.name for knob in probed)} change the machine code"
    wanted = []
    for name, space in spaces.items():
        case, ids = catalogues[name].case, {knob.id for knob in probed}
        alone = [s for base in _bases(space) for s in (base, *_turned(space, base, ids))]
        worthwhile = [s for s in alone if why_not(space, s, case, searched.bench.device) is None]
        wanted.append((catalogues[name], worthwhile))
    compile_into(searched, wanted, told)
    return tuple(knob for knob in probed if _is_inert(knob, catalogues, spaces))


def _is_inert(knob: Knob, catalogues: Mapping[str, Catalogue], spaces: Mapping[str, Space]) -> bool:
    """Whether values that compile, some at least, make no difference."""
    same = 0
    for name, space in spaces.items():
        catalogue = catalogues[name]
        for base in _bases(space):
            unturned = catalogue.representative(key_of(base))
            if unturned is None:
                continue
            for settings in _turned(space, base, {knob.id}):
                turned = catalogue.representative(key_of(settings))
                if turned not in (None, unturned):
                    return False
                same += turned is not None
    return same > 0


def _bases(space: Space) -> list[Settings]:
    """Where knobs are turned: the original, and the smallest blocks, beside which a loop has most to do."""
    blocks = [axis for axis in space.axes if axis.knob.kind is KnobKind.BLOCK_TILING]
    smallest = {axis.knob.id: value for axis in blocks if (value := axis.values[0]) is not None}
    return [{}, smallest] if smallest else [{}]


def _turned(space: Space, base: Settings, knob_ids: set[str]) -> list[Settings]:
    """`base` with each of these knobs at each of its other values."""
    return [
        {**base, axis.knob.id: value}
        for axis in space.axes
        if axis.knob.id in knob_ids
        for index, value in enumerate(axis.values)
        if value is not None and index != axis.original
    ]
