"""In-place gradient: a gradient is written over a tensor that nobody reads any more, in place of a new one.

Why: no memory is allocated or initialised for it, and the lines that it goes to were just read.
"""

from __future__ import annotations

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Profile
from warpsmith.diagnose.grounds import open_passes
from warpsmith.search.strategies.base import Card

BRIEF = """\
- When: the run asks for less memory (objective memory or balanced), or backward allocates a gradient as large as its
  input while "Kernel durations" show a fill or a copy beside the kernel.
- Whose memory it may be: a temporary that this call made itself; or an input or output gradient that the target names
  in `overwrites`, as the original overwrites it already. Nothing else: the gate compares inputs and output gradients
  before and after, and no result may lie in the memory of an input.
- Change: store the gradient through the pointer of the tensor that it replaces, after the last load of that element
  by any program: that holds where each program has rows of its own, and not where tiles are read by several. Return
  the overwritten tensor, in its own shape, dtype and strides.
- Must stay: a second backward pass over one graph where the original allows it (so never over tensors saved for
  backward), gradients of inputs that are expanded or of another layout (allocate there, as before), dtype: a bf16
  tensor is no place for a float32 gradient, torch.compile, graphs.
- Prove: peak memory falls by the size of the gradient at the largest case; time does not rise.
- Give up: the tensor belongs to the caller and the target does not name it, or only time counts and no fill runs."""


def _memory_counts(profile: Profile) -> tuple[str, ...]:
    modes = {each.mode for each in open_passes(profile)}
    if profile.aim.objective is Objective.SPEED or Mode.BACKWARD not in modes:
        return ()
    return (f"the run is after {profile.aim.objective.value}, and backward has something left to win",)


CARD = Card(
    name="in_place_gradient",
    title="Write a gradient over what is no longer read",
    applies="backward allocates a gradient beside a tensor of the same size that nobody reads afterwards",
    hypothesis="A gradient that is written over its source needs no memory of its own, and nothing to initialise it.",
    expected="peak memory by the size of the gradient, time only where a fill or a copy goes: Liger-Kernel's RMSNorm "
    "backward at 32768×2048 takes 266 µs in place and 306 µs beside, where it also zeroes the gradient, on an H200",
    risk="a caller's tensor that is still needed is destroyed; the gate compares inputs before and after",
    brief=BRIEF,
    signs=_memory_counts,
)
