"""Two-dimensional tiles: where rows are short, a program takes several, loaded and reduced together.

Why: a block as wide as a short row gives each warp a few bytes to wait for, and a program for each row is started,
masked and reduced for itself.
"""

from __future__ import annotations

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.rewriting import Rewriting
from warpsmith.source.rewrites import tile_rows

TWO_DIMENSIONAL_TILES = Rewriting(
    card=Card(
        name="two_dimensional_tiles",
        title="Several rows a program for short rows",
        applies="a launched kernel below its ceiling has one program a row, and its block holds a short row; every "
        "statement of it and every launch is understood",
        hypothesis="A short row gives a program few bytes to wait for at a time; a tile of several rows keeps more "
        "loads in flight, and its warps reduce rows of their own.",
        expected="at most 30% of the kernel's headroom, nothing from blocks of 2048 elements on (chosen)",
        risk="few rows make fewer programs than the GPU has SMs, and a tile takes more registers than a row: the cases "
        "with few rows would show it; sums of a row may be added in another order",
        takes_up=(OpportunityKind.ROW_A_PROGRAM,),
    ),
    rewrite=tile_rows,
    nothing="no launched kernel has one program a row that could take several",
)
