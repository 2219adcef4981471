"""Recompute: what one pass saves for another, or one loop for the next, is computed again where that moves fewer bytes.

Why: arithmetic is nearly free in a kernel that waits for memory, and every saved tensor is written once and read once.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.audit import OpportunityKind, PatternKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Bottleneck, Profile
from warpsmith.diagnose.grounds import open_passes
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.signs import feeds_products, open_launches, opportunities_told

BRIEF = """\
- When: backward is memory-bound below its ceiling and "Patterns" names tensors saved for backward that are as large
  as a row (not one number a row), or the bytes that counters saw are well above the least, or a row is read by a
  second loop of one kernel.
- Change, one at a time, the largest tensor first:
  1. Save less: keep the input and the statistics (mean, rstd, log-sum-exp), and compute the activation or the
     normalised row again in backward, by forward's own expressions and casts, so that both round alike.
  2. Save more, the other way round: where backward reads a row twice only to reduce it, let forward save that number.
  3. A row that two loops read: where it fits in registers (a block covers it, no spills), load it once.
- Must stay: signature, the original's casts (what forward rounded to bf16, backward must round too), a second
  backward pass over the same graph, torch.compile (save through save_for_backward alone), and peak memory, which may
  not grow by 5%.
- Prove: bytes by the counters drop by about the tensor's size, and the time with them. Goal full decides: forward
  gains the write, backward pays the arithmetic.
- Give up: the pass is compute-bound, registers spill after the change, or what is recomputed needs a reduction along
  the row that the kernel does not make already."""


def _bytes_that_count(profile: Profile) -> Iterator[str]:
    """Tensors saved for a backward pass that memory limits; more traffic than must be, but where tiles cause it."""
    memory_bound = {each.mode for each in open_passes(profile) if each.bottleneck is Bottleneck.MEMORY_BOUND}
    for pattern in profile.audit.patterns:
        if pattern.kind is PatternKind.SAVED_FOR_BACKWARD and Mode.BACKWARD in memory_bound:
            yield f"line {', '.join(map(str, pattern.lines))}: {pattern.what}"
    if not any(feeds_products(launch) for launches in open_launches(profile).values() for launch in launches):
        yield from opportunities_told(profile, (OpportunityKind.EXCESS_TRAFFIC,))


CARD = Card(
    name="recompute",
    title="Recompute against save",
    applies="backward is below its ceiling and reads saved tensors, a kernel reads a row twice, or more bytes cross "
    "memory than must",
    hypothesis="A saved tensor is written and read once; computing it again costs arithmetic that a waiting kernel has "
    "left over. A number a row that is saved may spare a second read of the row.",
    expected="the time of the bytes saved at the copy ceiling, in forward and in backward (not measured)",
    risk="recomputed values that are rounded otherwise than the saved ones give other gradients; registers may spill",
    takes_up=(OpportunityKind.REPEATED_PASS,),
    brief=BRIEF,
    signs=lambda profile: tuple(_bytes_that_count(profile)),
)
