"""The catalogue: one technique a file. The profile decides which are tried and in which order."""

from __future__ import annotations

from warpsmith.search.strategies.base import Card, Strategy
from warpsmith.search.strategies.cache_hints import CacheHints
from warpsmith.search.strategies.cheap_functions import CHEAP_FUNCTIONS
from warpsmith.search.strategies.dot_precision import DOT_PRECISION
from warpsmith.search.strategies.needless_initialisation import NeedlessInitialisation
from warpsmith.search.strategies.pipelined_loop import PipelinedLoop
from warpsmith.search.strategies.settings import SettingsSweep

#: What is automatic, by name.
CATALOGUE: dict[str, Strategy] = {
    strategy.card.name: strategy
    for strategy in (
        SettingsSweep(),
        NeedlessInitialisation(),
        CacheHints(),
        PipelinedLoop(),
        DOT_PRECISION,
        CHEAP_FUNCTIONS,
    )
}
#: What needs thought, by name: told to whoever writes variants.
BRIEFS: dict[str, Card] = {}

__all__ = ["BRIEFS", "CATALOGUE"]
