"""Specialized warps where descriptors load, on Hopper and on Blackwell 12.x: some warps only issue the bulk copies.

Why: a warp that both issues copies and multiplies pauses its products for the copies. Triton takes such a loop apart
for 9.0 only where tensor descriptors alone load, for one product, with 4 warps, and outside of flattened loops: with
8 warps the machine code is the same, and loops that load through pointers do not compile. So the warps are searched
with it.
"""

from __future__ import annotations

from functools import partial

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.architecture import Switch
from warpsmith.search.strategies.base import Card, Layer
from warpsmith.source.rewrites import parametrise_warp_specialization
from warpsmith.source.rewrites.warp_specialization import SPECIALIZE_PARAMETER

CARD = Card(
    name="specialized_warps_by_descriptor",
    title="Warps that only load, by descriptors (Hopper, Blackwell 12.x)",
    applies="a GPU of compute capability 9.0 or 12.x; a launched kernel below its ceiling multiplies tiles that tensor "
    "descriptors load, in a loop that is not flattened",
    hypothesis="Warps that only issue the bulk copies keep those that multiply supplied.",
    expected="not measured: of such GPUs only the H200 was at hand, and this was compiled for it and not timed",
    risk="more warps and buffers leave room for fewer programs on an SM; any other GPU runs what it ran before",
    takes_up=(OpportunityKind.UNSPECIALIZED_TMA_LOOP,),
    searches_settings=True,
    layer=Layer.ARCHITECTURE,
)
SPECIALIZED_WARPS_BY_DESCRIPTOR = Switch(
    CARD,
    SPECIALIZE_PARAMETER,
    partial(parametrise_warp_specialization, by_descriptor_alone=True),
    "no launched kernel multiplies tiles that descriptors load in a loop that is neither flattened nor specialized",
)
