"""Split rows: where rows are few and long, several programs share one, and their partial results are put together.

Why: a program a row leaves most of a GPU idle when there are fewer rows than it has room for programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpsmith.contracts.profile import Bottleneck, Profile
from warpsmith.diagnose.grounds import open_passes
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.signs import open_launches

BRIEF = """\
- When: the class is grid too small, or waves in "Compiled code" are below 1 at cases with most of the headroom, and a
  program walks along its row. With rows enough for a wave it only adds traffic.
- Change: a second grid axis cuts each row into S pieces, in multiples of the block. Each program reduces its piece
  and stores a partial result in float32 to a buffer of shape (rows, S); a second small kernel combines the S of each
  row in order and finishes. What combines is associative: a sum, a max, the pair of an online softmax, rescaled.
  Where the row is then written, the second kernel reads it again: count those bytes.
- S comes from sizes the host knows: about the number of SMs times the programs an SM holds, over the rows, 1 where
  rows suffice. Keep the old kernel for S = 1, and launch it there by the very same arguments.
- Must stay: signature, results within the error budget (accumulate in float32, combine in a fixed order, so that the
  same bits come again), torch.compile (allocate the buffer with torch.empty on the input's device), CUDA graphs (S
  from sizes, never from values), rows of length 0 and 1.
- Prove: the audit's launches show the new grid; waves at the few-row cases are near 1; other cases are unchanged.
- Give up: the headroom of a call is a few microseconds, which the second launch takes by itself, or cases with many
  rows lose more than the guardrail."""

#: Chosen: half of the SMs or more have no program of even the largest launch.
IDLE_HALF = 0.5


def _few_programs(profile: Profile) -> Iterator[str]:
    for mode in open_passes(profile):
        if mode.bottleneck is Bottleneck.GRID_TOO_SMALL:
            yield f"{mode.mode.value}: fewer programs than the GPU has room for"
    sm_count = profile.device.sm_count
    for (mode_of_launches, case), launches in open_launches(profile).items():
        most = max(launches, key=lambda launch: math.prod(launch.grid))
        programs = math.prod(most.grid)
        if 0 < programs <= IDLE_HALF * sm_count:
            yield f"{mode_of_launches.value}: {most.jit_function} has {programs} programs for {sm_count} SMs at {case}"


CARD = Card(
    name="split_rows",
    title="Several programs for one long row",
    applies="a pass below its ceiling has fewer programs than the GPU has room for, and each walks along a long row",
    hypothesis="Programs for pieces of a row fill the SMs that stay idle; partial results are combined afterwards.",
    expected="at most the share of the SMs that is idle; less the second launch and its partial results (not measured)",
    risk="rows that are many enough pay for the partial results; sums are rounded in another order",
    brief=BRIEF,
    signs=lambda profile: tuple(_few_programs(profile)),
)
