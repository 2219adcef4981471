"""Past L1, on Ampere and Ada: rows that are streamed once are cached in L2 alone.

Why: L1 shares its memory with shared memory and is small there, so a stream that passes through it evicts the weights
that every row reads again. Copies that are issued ahead, as pipelined loops have them, pass L1 by already.
"""

from __future__ import annotations

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.architecture import Switch
from warpsmith.search.strategies.base import Card, Layer
from warpsmith.source.rewrites import load_past_l1
from warpsmith.source.rewrites.past_l1 import PAST_L1_PARAMETER

CARD = Card(
    name="past_l1",
    title="Streamed loads past L1 (Ampere and Ada)",
    applies="a GPU of compute capability 8.x; a launched kernel below its ceiling loads rows once, without a policy",
    hypothesis="Rows are read once; loaded past L1 they leave it to what is read again.",
    expected="not measured: no such GPU was at hand; short runs decide",
    risk="what L1 would have served again comes from L2; any other GPU runs what it ran before",
    takes_up=(OpportunityKind.STREAM_ONCE,),
    searches_settings=True,
    layer=Layer.ARCHITECTURE,
)
PAST_L1 = Switch(CARD, PAST_L1_PARAMETER, load_past_l1, "no launched kernel loads rows once without a policy")
