"""Rewrites that need no judgement: each is pure, does nothing the second time, and says why where it cannot apply."""

from warpsmith.source.refusal import NotApplicable
from warpsmith.source.rewrites.allocation import allocate_empty
from warpsmith.source.rewrites.cheap_functions import use_cheap_functions
from warpsmith.source.rewrites.dot_precision import multiply_as_loaded
from warpsmith.source.rewrites.eviction import add_eviction_policy
from warpsmith.source.rewrites.grouping import group_tiles
from warpsmith.source.rewrites.hoisting import hoist_invariant_load
from warpsmith.source.rewrites.past_l1 import load_past_l1
from warpsmith.source.rewrites.pipeline import parametrise_loop_stages
from warpsmith.source.rewrites.row_tiles import tile_rows
from warpsmith.source.rewrites.streaming_stores import stream_stores
from warpsmith.source.rewrites.warp_specialization import parametrise_warp_specialization

__all__ = [
    "NotApplicable",
    "add_eviction_policy",
    "allocate_empty",
    "group_tiles",
    "hoist_invariant_load",
    "load_past_l1",
    "multiply_as_loaded",
    "parametrise_loop_stages",
    "parametrise_warp_specialization",
    "stream_stores",
    "tile_rows",
    "use_cheap_functions",
]
