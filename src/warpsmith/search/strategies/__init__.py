"""The catalogue: one technique a file. The profile decides which are tried and in which order."""

from __future__ import annotations

from warpsmith.search.strategies import (
    alignment_hints,
    in_place_gradient,
    live_ranges,
    partial_sums,
    persistent_loop,
    recompute,
    split_rows,
    tma_descriptors,
    uncoalesced,
)
from warpsmith.search.strategies.base import Card, Strategy
from warpsmith.search.strategies.cache_hints import CACHE_HINTS
from warpsmith.search.strategies.cheap_functions import CHEAP_FUNCTIONS
from warpsmith.search.strategies.dot_precision import DOT_PRECISION
from warpsmith.search.strategies.grouped_ordering import GroupedOrdering
from warpsmith.search.strategies.loop_invariant_loads import LOOP_INVARIANT_LOADS
from warpsmith.search.strategies.needless_initialisation import NeedlessInitialisation
from warpsmith.search.strategies.past_l1 import PAST_L1
from warpsmith.search.strategies.pipelined_loop import PipelinedLoop
from warpsmith.search.strategies.settings import SettingsSweep
from warpsmith.search.strategies.specialized_warps import SPECIALIZED_WARPS
from warpsmith.search.strategies.specialized_warps_by_descriptor import SPECIALIZED_WARPS_BY_DESCRIPTOR
from warpsmith.search.strategies.stream_once_stores import STREAM_ONCE_STORES
from warpsmith.search.strategies.two_dimensional_tiles import TWO_DIMENSIONAL_TILES

_STRATEGIES: tuple[Strategy, ...] = (
    SettingsSweep(),
    NeedlessInitialisation(),
    CACHE_HINTS,
    STREAM_ONCE_STORES,
    PipelinedLoop(),
    GroupedOrdering(),
    LOOP_INVARIANT_LOADS,
    TWO_DIMENSIONAL_TILES,
    DOT_PRECISION,
    CHEAP_FUNCTIONS,
    PAST_L1,
    SPECIALIZED_WARPS_BY_DESCRIPTOR,
    SPECIALIZED_WARPS,
)
#: What is automatic, by name.
CATALOGUE: dict[str, Strategy] = {strategy.card.name: strategy for strategy in _STRATEGIES}
#: What needs thought, by name: told to whoever writes variants.
BRIEFS: dict[str, Card] = {
    card.name: card
    for card in (
        split_rows.CARD,
        persistent_loop.CARD,
        uncoalesced.CARD,
        alignment_hints.CARD,
        recompute.CARD,
        partial_sums.CARD,
        live_ranges.CARD,
        in_place_gradient.CARD,
        tma_descriptors.CARD,
    )
}

__all__ = ["BRIEFS", "CATALOGUE"]
