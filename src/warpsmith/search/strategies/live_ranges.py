"""Live ranges: values are loaded late, used, and given up early, so that more programs fit an SM and nothing spills.

Why: registers decide how many warps an SM holds; a spilled one is a store and a load beside.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.profile import Profile
from warpsmith.diagnose.occupancy import occupancy
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.signs import by_function, feeds_products, open_launches

BRIEF = """\
- When: "Compiled code" shows spills, or occupancy limited by registers below a half, in a pass that is latency-bound;
  and settings are swept already, more warps and a register cap (maxnreg) among them: they are the cheaper cure.
- Change, one at a time, and compile after each (registers and spills are known without a run):
  1. Load what the second half needs after the first half is reduced, not on top of the kernel.
  2. Keep a row in its own dtype and cast where it is used: a float32 copy takes twice as many.
  3. Reduce into a number as soon as the row is there, and use it once: two uses far apart keep it alive.
  4. Several accumulators (dw and db): add to each right after its term is computed; a block that steps along the row
     (two loops over tiles) where one that covers it cannot fit.
  5. Sums over more rows in order: one tile accumulated elementwise, reduced once after the loop.
- Must stay: the order of casts (bf16 in, float32 sums, one rounding at the end), masks, results within the error
  budget.
- Prove: registers or spills fall in the compiled code; achieved occupancy or the longest stall moves; then the time.
- Give up: registers and spills are what they were, or nothing spilled and occupancy is limited by something else:
  high occupancy is no goal in itself."""
#: Chosen: above it more resident warps seldom help.
_LOW_OCCUPANCY = 0.5


def _short_of_registers(profile: Profile) -> Iterator[str]:
    """Of each kernel the case at which it is worst. Accumulators of a product take what registers there are."""
    device = profile.device
    for (mode, function), launches in by_function(open_launches(profile)).items():
        case, launch = max(launches, key=lambda each: (each[1].compiled.spills, each[1].compiled.registers))
        compiled, told = launch.compiled, f"{mode.value}: {function}"
        if compiled.spills:
            yield f"{told} spills {compiled.spills} registers a thread at {case}"
        elif not feeds_products(launch):
            found = occupancy(compiled, launch.grid, device.capability, device.sm_count)
            if found.limiter == "registers" and found.share < _LOW_OCCUPANCY:
                takes = f"takes {compiled.registers} registers a thread"
                yield f"{told} {takes}, which hold its occupancy at {found.share:.0%} at {case}"


CARD = Card(
    name="live_ranges",
    title="Fewer values alive at once",
    applies="a launched kernel of a pass below its ceiling spills registers, or registers limit its occupancy",
    hypothesis="Values that are loaded late and given up early take fewer registers, so that more warps hide latency.",
    expected="nothing, or what the spills or the missing warps cost (not measured); compiled code decides before a run",
    risk="another order of accumulation rounds otherwise; a load that comes later is waited for longer",
    brief=BRIEF,
    signs=lambda profile: tuple(_short_of_registers(profile)),
)
