"""Where the tiles of a matrix product lie, in the order in which programs take them. Must not know any kernel."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def place_of_tile(tile, tiles_m, tiles_n, GROUP_ROWS: tl.constexpr):
    """(row, column) of a tile of tiles_m rows of tiles_n: by groups of GROUP_ROWS rows, down each column of a group.

    Programs at work together share blocks of both matrices in L2 so, as in Triton's tutorial 03.
    """
    group_size = tiles_n * GROUP_ROWS
    first_row = tile // group_size * GROUP_ROWS
    rows = tl.minimum(tiles_m - first_row, GROUP_ROWS)
    return first_row + tile % group_size % rows, tile % group_size // rows
