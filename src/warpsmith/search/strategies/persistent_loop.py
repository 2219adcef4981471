"""Persistent loop: a fixed number of programs walks over all tiles, in place of one program a tile.

A brief and no rewrite: whether what is before the tile's work may stand outside the loop is a question of what the
kernel means, and the grid is often shared with buffers that the host sizes by it.
"""

from __future__ import annotations

from warpsmith.search.strategies.base import Card

CARD = Card(
    name="persistent_loop",
    title="Let programs loop over tiles",
    applies="a launched kernel below its ceiling starts one short program a tile or row, many more than the GPU holds "
    "at once, in a grid whose size the host computes at the launch",
    hypothesis="Programs that stay spare the start and end of the others, keep what all tiles share in registers, and "
    "with stages ahead load the next tile while they work on this one.",
    expected="not measured here; little where a program already runs long, and nothing where DRAM is busy throughout",
    risk="uneven tiles wait for the slowest program; what stays live in the loop may spill; partial results sized by "
    "the old grid would be read beyond what was written",
    brief="""\
What to change. The kernel takes its tile as `pid = tl.program_id(0)` from a grid of n tiles. Keep the body; loop
instead: `for pid in tl.range(tl.program_id(0), n_tiles, tl.num_programs(0), num_stages=STAGES):`. Pass `n_tiles` as
a parameter, or compute it from sizes that the kernel has. On the host, launch `min(n_tiles, programs_per_sm *
sm_count)` programs, with `programs_per_sm` in a variable of its own, so that the settings search finds it as a
knob. Move out of the loop only loads and offsets that depend on no tile. Turn each early `return` into a mask or an
`if`: in a loop it would drop later tiles. Keep 64-bit offsets where the tile's number times a stride can pass
2**31.

What to measure. Each tuning case against the original: 1, 2, 4 and 8 programs an SM, with STAGES of 1 to 4. Look at
registers and spills before and after, and at the longest stall: loads that are waited for should become fewer. With
few tiles, around one wave, expect no gain; the original's launch should then stay as it is.

What must not happen. No tile left out or done twice: try a number of tiles that is no multiple of the programs,
fewer tiles than programs, and none. No sum or lock may come to depend on which program does a tile: atomics that
were one a tile stay one a tile. No program may wait for another that has not been started. Buffers that the host
sizes by the grid, and kernels that read `num_programs`, change with it. The entry's name, signature and results
stay.""",
)
