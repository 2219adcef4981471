"""The catalogue: one technique a file. The profile decides which are tried and in which order."""

from __future__ import annotations

from warpsmith.search.strategies.base import Card, Strategy
from warpsmith.search.strategies.cache_hints import CacheHints
from warpsmith.search.strategies.needless_initialisation import NeedlessInitialisation
from warpsmith.search.strategies.past_l1 import PAST_L1
from warpsmith.search.strategies.pipelined_loop import PipelinedLoop
from warpsmith.search.strategies.settings import SettingsSweep
from warpsmith.search.strategies.specialized_warps import SPECIALIZED_WARPS
from warpsmith.search.strategies.specialized_warps_by_descriptor import SPECIALIZED_WARPS_BY_DESCRIPTOR

#: What is automatic, by name.
CATALOGUE: dict[str, Strategy] = {
    strategy.card.name: strategy
    for strategy in (
        SettingsSweep(),
        NeedlessInitialisation(),
        CacheHints(),
        PipelinedLoop(),
        PAST_L1,
        SPECIALIZED_WARPS_BY_DESCRIPTOR,
        SPECIALIZED_WARPS,
    )
}
#: What needs thought, by name: told to whoever writes variants.
BRIEFS: dict[str, Card] = {}

__all__ = ["BRIEFS", "CATALOGUE"]
