"""Owns what is left to win: the time taken against the least at the nearer ceiling, by case and over a mode. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.profile import Headroom
from warpsmith.diagnose.counted import counted_bytes
from warpsmith.diagnose.places import Place, Site
from warpsmith.diagnose.roofline import bound_of, least_ms
from warpsmith.verdict.statistics import geometric_mean


def headrooms(at: Sequence[Site], device: DeviceFacts) -> tuple[Headroom, ...]:
    """One for each case that has a ceiling. Of a site that was not timed, the least time alone; of one whose
    share is in doubt, no share.
    """
    found: list[Headroom] = []
    for site in at:
        least = least_ms(site.cost, site.case.dtype, device)
        if least is None:
            continue
        timed = site if isinstance(site, Place) else None
        held = timed if timed and timed.doubt is None else None
        found.append(
            Headroom(
                case=site.case.name,
                weight=site.case.weight,
                bound=bound_of(site.cost, site.case.dtype, device),
                least_ms=least,
                least_bytes=site.cost.bytes_moved,
                flops=site.cost.flops,
                operands=site.cost.operands,
                time_ms=timed.time_ms if timed else None,
                share=held.share if held else None,
                headroom_us=held.headroom_us if held else None,
                counted_bytes=counted_bytes(site.rows),
            )
        )
    return tuple(found)


def share_of_ceiling(at: Sequence[Place]) -> float:
    """Geometric mean of the cases' shares, by their weights. One above its ceiling counts as at it.

    Data that stay in L2 at a small case make up for nothing at another.
    """
    return geometric_mean([min(1.0, place.share) for place in at], [place.case.weight for place in at])


def headroom_us(at: Sequence[Place]) -> float:
    """Mean of what the ceiling would save of a call, by the cases' weights."""
    return weighted_mean([place.headroom_us for place in at], at)


def weighted_mean(values: Sequence[float], at: Sequence[Site]) -> float:
    """Mean of one value a case, by the cases' weights."""
    weights = [site.case.weight for site in at]
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)
