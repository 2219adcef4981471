"""Persistent loop: a fixed number of programs walks over all tiles, in place of one program a tile.

A brief and no rewrite: whether what is before the tile's work may stand outside the loop is a question of what the
kernel means, and the grid is often shared with buffers that the host sizes by it.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.profile import Bottleneck, Profile
from warpsmith.diagnose.grounds import open_passes
from warpsmith.diagnose.occupancy import occupancy
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.signs import by_function, open_launches

BRIEF = """\
- When: a pass is latency-bound, "Compiled code" shows many waves, and each program does one tile or row and ends. With
  about one wave, or DRAM busy throughout, there is nothing to win.
- Change in the kernel: keep the body, and loop over tiles instead of `pid = tl.program_id(0)`:
  `for pid in tl.range(tl.program_id(0), n_tiles, tl.num_programs(0), num_stages=STAGES):`. Pass `n_tiles`, or compute
  it from sizes the kernel has. Only what depends on no tile goes out of the loop. An early `return` becomes a mask or
  an `if`: it would drop later tiles. Offsets that can pass 2**31 stay in 64 bits.
- Change on the host: launch `min(n_tiles, programs_per_sm * sm_count)`, with `programs_per_sm` in a variable of its
  own, so that the settings search finds it as a knob: 1, 2, 4 and 8, with STAGES of 1 to 4.
- Must stay: no tile left out or done twice (no tiles, fewer than programs, no multiple of them); atomics that were one
  a tile; buffers that the host sizes by the grid, and kernels that read `num_programs`, change with it; no program
  waits for one that has not started; signature, results, torch.compile, graphs.
- Prove: the longest stall moves, registers do not spill; then the time of each case, few tiles among them.
- Give up: what stays live in the loop spills, uneven tiles wait for the slowest program, or few-tile cases lose more
  than the guardrail."""
#: Chosen: fewer waves leave little that starts and ends.
_MANY_WAVES = 4.0


def _many_short_programs(profile: Profile) -> Iterator[str]:
    """Of each kernel the case with the most waves, where its programs do not loop and a pass waits for latency."""
    device = profile.device
    looping = {function.name for function in profile.audit.jit_functions if function.has_loop}
    waiting = {each.mode for each in open_passes(profile) if each.bottleneck is Bottleneck.LATENCY_BOUND}
    for (mode, function), launches in by_function(open_launches(profile)).items():
        if mode not in waiting or function in looping:
            continue
        found = (
            (occupancy(launch.compiled, launch.grid, device.capability, device.sm_count).waves or 0.0, case)
            for case, launch in launches
        )
        waves, case = max(found, key=lambda each: each[0])
        if waves >= _MANY_WAVES:
            yield f"{mode.value}: the programs of {function}, which do not loop, make {waves:.1f} waves at {case}"


CARD = Card(
    name="persistent_loop",
    title="Let programs loop over tiles",
    applies="a launched kernel below its ceiling starts one short program a tile or row, many more than the GPU holds "
    "at once, in a grid whose size the host computes at the launch",
    hypothesis="Programs that stay spare the start and end of the others, keep what all tiles share in registers, and "
    "with stages ahead load the next tile while they work on this one.",
    expected="not measured; little where a program already runs long, and nothing where DRAM is busy throughout",
    risk="uneven tiles wait for the slowest program; what stays live in the loop may spill; partial results sized by "
    "the old grid would be read beyond what was written",
    brief=BRIEF,
    signs=lambda profile: tuple(_many_short_programs(profile)),
)
