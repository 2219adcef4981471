"""Rewrites that need no judgement: each is pure, does nothing the second time, and says why where it cannot apply."""

from warpsmith.source.editing import NotApplicable
from warpsmith.source.rewrites.allocation import allocate_empty
from warpsmith.source.rewrites.eviction import add_eviction_policy
from warpsmith.source.rewrites.past_l1 import load_past_l1
from warpsmith.source.rewrites.pipeline import parametrise_loop_stages
from warpsmith.source.rewrites.warp_specialization import parametrise_warp_specialization

__all__ = [
    "NotApplicable",
    "add_eviction_policy",
    "allocate_empty",
    "load_past_l1",
    "parametrise_loop_stages",
    "parametrise_warp_specialization",
]
