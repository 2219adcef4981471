"""Specialized warps, on Blackwell 10.x: in a loop over products of tiles some warps load and one issues the products.

Why: its tensor cores work on tensor memory and are driven by a single thread, so that a program's warps need not all
wait for each product. 12.x has no tensor memory: see specialized_warps_by_descriptor.
"""

from __future__ import annotations

from functools import partial

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.architecture import Switch
from warpsmith.search.strategies.base import Card, Layer
from warpsmith.source.rewrites import parametrise_warp_specialization
from warpsmith.source.rewrites.warp_specialization import SPECIALIZE_PARAMETER

CARD = Card(
    name="specialized_warps",
    title="Warps that only load or only multiply (Blackwell 10.x)",
    applies="a GPU of compute capability 10.x; a launched kernel below its ceiling multiplies tiles in a loop",
    hypothesis="Warps that only load keep the tensor cores supplied, while others work on what the last product left.",
    expected="not measured: no such GPU was at hand; short runs decide",
    risk="more warps and buffers leave room for fewer programs on an SM, and some loops do not compile so; any other "
    "GPU runs what it ran before",
    takes_up=(OpportunityKind.UNSPECIALIZED_LOOP, OpportunityKind.UNSPECIALIZED_TMA_LOOP),
    searches_settings=True,
    layer=Layer.ARCHITECTURE,
)

SPECIALIZED_WARPS = Switch(
    CARD,
    SPECIALIZE_PARAMETER,
    partial(parametrise_warp_specialization, by_descriptor_alone=False),
    "no launched kernel multiplies tiles in a loop that says nothing of its warps",
)
