"""Owns the rules by which an opportunity is priced at one call: microseconds at least and at most, and why.

Each is a rule of thumb with its measured source, or says that it is chosen. None may pass the call's headroom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.contracts.case import DType
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.profile import Bottleneck
from warpsmith.diagnose.call import Call
from warpsmith.diagnose.kernels import LEAST_US
from warpsmith.diagnose.occupancy import Occupancy
from warpsmith.diagnose.rules import BUSY_PCT, told

#: Shares of a pass's headroom that settings won, lowest and highest. Measured on an H200 with Liger-Kernel 0.8.5:
#: of LayerNorm and RMSNorm backward at 8192×4096 0.4, of GeGLU and LayerNorm forward 0.6 to 0.7.
SETTINGS_OF_HEADROOM = {
    Bottleneck.NEAR_PEAK: (0.0, 0.4),
    Bottleneck.LATENCY_BOUND: (0.2, 0.7),
    Bottleneck.GRID_TOO_SMALL: (0.2, 0.7),
    Bottleneck.BALANCED: (0.0, 0.4),
    Bottleneck.MEMORY_BOUND: (0.0, 0.6),
    Bottleneck.COMPUTE_BOUND: (0.0, 0.4),
}
#: Of a row loop's headroom, other numbers of warps alone won at most this. Measured on an H200: RMSNorm and LayerNorm
#: backward of Liger-Kernel 0.8.5, four shapes, 4 to 32 warps at one program a SM.
WARPS_OF_LOOP = 0.05
#: What leaving out a kernel saves, by a profiler's duration of it, and at most the gap to the next one. Chosen.
REMOVED, GAP_US = (0.8, 1.25), 1.0
#: A fill of 67 to 134 MB ran at this share of the copy ceiling. Measured on an H200: RMSNorm backward of Liger-Kernel
#: 0.8.5 with its output zeroed and not, 8192×4096 to 32768×2048.
FILL_OF_CEILING = 0.7
#: An output's share of a pass's least bytes: one of three tensors of a backward pass. Chosen.
OUTPUT_OF_BYTES = 1 / 3
#: Shares of the kernel's time. Pipelined loads brought 1.106× of forward then backward, 0.13 of the backward pass, in
#: the recorded run of rms_norm on an H200. The others are chosen.
PIPELINE_OF_TIME = {True: 0.15, False: 0.05}
HINTS_OF_TIME = 0.03
INVARIANT_OF_TIME = 0.05
#: Of 220 to 245 TFLOPS, by grouped tiles on an A100 (Triton's tutorial of a matrix product).
GROUPS_OF_TIME = 0.1
#: Chosen.
SPECIALIZED_OF_TIME = 0.1
#: Shares of the kernel's headroom. Chosen.
UNCOALESCED_OF_HEADROOM = (0.1, 0.8)
ARITHMETIC_OF_HEADROOM = 0.3
SHORT_ROWS_OF_HEADROOM = 0.5
#: Of a kernel's headroom, several short rows a program at most this, and less the wider a block is already. Chosen.
ROW_TILES_OF_HEADROOM = 0.3
#: A block of so many elements keeps four warps busy by itself. Chosen, as the tile that the rewrite makes.
WIDE_BLOCK = 2048
#: Shares of the kernel's time. Of arithmetic in fewer instructions: chosen. Of products in 16 bits: TF32 runs at half
#: their rate on every data-centre GPU since Ampere, by NVIDIA's data sheets.
FUNCTIONS_OF_TIME = 0.1
WIDENED_OF_TIME = 0.5
#: What arithmetic matters to: elsewhere it is done while memory is waited for.
HELD_BY_ARITHMETIC = (Bottleneck.COMPUTE_BOUND, Bottleneck.LATENCY_BOUND)
#: Of DRAM's peak: below it something else is waited for, as ncu's rule has it for any unit.
DRAM_BUSY = BUSY_PCT / 100


@dataclass(frozen=True)
class Gain:
    """Microseconds of one call, and the rule in words."""

    low_us: float
    high_us: float
    basis: str

    def within(self, most_us: float) -> Gain:
        """The same, never below 0 nor above `most_us`, its ends in order."""
        high = min(max(0.0, self.high_us), max(0.0, most_us))
        return Gain(min(max(0.0, self.low_us), high), high, self.basis)


def gain(opportunity: Opportunity, call: Call, alike: int) -> Gain:
    """What it may bring at that call. `alike` opportunities of its kind are in the mode."""
    if opportunity.kind is OpportunityKind.NEEDLESS_INITIALISATION:
        found = _initialisation(call, alike)
    else:
        found = _RULES[opportunity.kind](opportunity, call)
    return found.within(call.place.headroom_us)


def _initialisation(call: Call, alike: int) -> Gain:
    if call.kernels_seen:
        return _removed(call, call.fills_us, "fill", alike)
    whole_us = OUTPUT_OF_BYTES * call.bytes_us / FILL_OF_CEILING
    return Gain(
        LEAST_US,
        whole_us,
        "no kernel durations: at least a launch, for a small buffer; at most a whole output, a third of the least "
        f"bytes, filled at {FILL_OF_CEILING:.0%} of the ceiling",
    )


def _contiguous_copy(_: Opportunity, call: Call) -> Gain:
    if call.kernels_seen:
        return _removed(call, call.copies_us, "copy", 1)
    return Gain(0.0, 0.0, "a copy is made only of inputs that are not contiguous; no kernel durations show one")


def _removed(call: Call, seen_us: tuple[float, ...], what: str, alike: int) -> Gain:
    """The time of the kernels that would go, where they were seen."""
    if not seen_us:
        return Gain(0.0, 0.0, f"no {what} ran among the kernels of the call, so there is none to save")
    low, high = (REMOVED[0] * min(seen_us), REMOVED[1] * max(seen_us) + GAP_US)
    if len(seen_us) < alike:
        low = 0.0
    times = " and ".join(f"{us:.1f}" for us in seen_us)
    scaled = "" if call.seen_at == call.place.case.name else f", scaled by bytes from {call.seen_at}"
    return Gain(low, high, f"the time of the {what} beside the kernel, which goes: {times} µs{scaled}")


def _programs(opportunity: Opportunity, call: Call) -> Gain:
    """What a program waits for goes on while others run: with k times as many resident, headroom/k is left.

    Within a factor of two of the best of 1, 2, 4 and 8 programs an SM, measured on an H200 for RMSNorm and LayerNorm
    backward of Liger-Kernel 0.8.5 at four shapes and 4 to 32 warps. Where registers spilled, others hid about half.
    """
    pairs = call.launches_of(opportunity)
    looping = [pair for pair in pairs if pair[0].jit_function in call.loops] or pairs
    more = [(times_more(record, found, call.rows), record, found) for record, found in looping if found.waves]
    if not more:
        return Gain(0.0, 0.0, "no launch of it is known, so that what an SM can hold is not either")
    times, record, found = max(more, key=lambda each: each[0])
    fit = found.blocks_per_sm / record.compiled.num_ctas
    if times <= 1:
        full = f"an SM holds {fit:.3g} of its programs at once ({found.limiter}), and has them"
        return Gain(0.0, 0.0, f"{full}: more of them make another wave")
    part = (1 - 1 / times) * (0.5 if record.compiled.spills else 1.0)
    high = part * call.headroom_of(opportunity)
    held = f"an SM holds {fit:.3g} programs and has {fit / times:.2g}"
    return Gain(0.5 * high, high, f"{held}: with all of them, half to all of {part:.0%} of the kernel's headroom goes")


def times_more(record: LaunchRecord, found: Occupancy, rows: int) -> float:
    """How many times as many programs could be resident: by what an SM holds, and by the rows there are.

    A program is a cluster of `num_ctas` blocks.
    """
    return max(1.0, min(1 / found.waves, rows * record.compiled.num_ctas / found.blocks)) if found.waves else 1.0


def _warps(opportunity: Opportunity, call: Call) -> Gain:
    headroom_us = call.headroom_of(opportunity)
    if {record.jit_function for record, _ in call.launches_of(opportunity)} <= call.loops:
        basis = f"in a loop over rows, other warps alone won at most {WARPS_OF_LOOP:.0%} of the headroom"
        return Gain(0.0, WARPS_OF_LOOP * headroom_us, basis)
    low, high = SETTINGS_OF_HEADROOM[call.bottleneck]
    kernels = f"kernels that {told(call.bottleneck, 'are', 'have')}"
    basis = f"other warps won {low:.0%} to {high:.0%} of the headroom of {kernels}"
    return Gain(low * headroom_us, high * headroom_us, basis)


def block_of(launches: Sequence[LaunchRecord]) -> int | None:
    """The widest of their blocks, None where none is told."""
    blocks = [
        value
        for record in launches
        for name, value in record.constexprs.items()
        if "BLOCK" in name.upper() and isinstance(value, int) and value > 0
    ]
    return max(blocks, default=None)


def _short_rows(opportunity: Opportunity, call: Call) -> Gain:
    block = block_of([record for record, _ in call.launches_of(opportunity)])
    headroom_us = call.headroom_of(opportunity)
    if call.width is None or block is None:
        part, basis = SHORT_ROWS_OF_HEADROOM, "at most half of the headroom (chosen): the block's width is not known"
        return Gain(0.0, part * headroom_us, basis)
    idle = max(0.0, 1 - call.width / block)
    basis = f"{idle:.0%} of a block of {block} lie beyond a row of {call.width}: at most as much of the headroom"
    return Gain(0.0, idle * headroom_us, basis)


def _row_tiles(opportunity: Opportunity, call: Call) -> Gain:
    block = block_of([record for record, _ in call.launches_of(opportunity)])
    if block is None:
        return Gain(0.0, 0.0, "the block's width is not known, so that how short a row is is not either")
    if block >= WIDE_BLOCK:
        return Gain(0.0, 0.0, f"a program's block has {block} elements already, enough for itself (chosen)")
    part = ROW_TILES_OF_HEADROOM * (1 - block / WIDE_BLOCK)
    basis = f"at most {part:.0%} of the kernel's headroom (chosen): a program's block has {block} elements"
    return Gain(0.0, part * call.headroom_of(opportunity), basis)


def _pipeline(opportunity: Opportunity, call: Call) -> Gain:
    part = PIPELINE_OF_TIME[call.waits]
    waits = "waits for its loads" if call.waits else "does not wait for latency first of all"
    high = min(part * call.time_of(opportunity), call.headroom_of(opportunity))
    return Gain(0.0, high, f"at most {part:.0%} of the kernel's time, as it {waits}")


def _hints(opportunity: Opportunity, call: Call) -> Gain:
    return _of_time(opportunity, call, HINTS_OF_TIME, "for what hints to a cache may bring")


def _invariant(opportunity: Opportunity, call: Call) -> Gain:
    return _of_time(opportunity, call, INVARIANT_OF_TIME, "as what is loaded again comes from a cache")


def _specialized(opportunity: Opportunity, call: Call) -> Gain:
    return _of_time(opportunity, call, SPECIALIZED_OF_TIME, "for warps that only load; measured on no GPU")


def _of_time(opportunity: Opportunity, call: Call, part: float, why: str) -> Gain:
    high = min(part * call.time_of(opportunity), call.headroom_of(opportunity))
    return Gain(0.0, high, f"at most {part:.0%} of the kernel's time (chosen), {why}")


def _groups(opportunity: Opportunity, call: Call) -> Gain:
    high = min(GROUPS_OF_TIME * call.time_of(opportunity), call.headroom_of(opportunity))
    won = "220 to 245 TFLOPS in Triton's tutorial, on an A100"
    return Gain(0.0, high, f"at most {GROUPS_OF_TIME:.0%} of the kernel's time, as groups of tiles won {won}")


def _repeated(opportunity: Opportunity, call: Call) -> Gain:
    pass_us = OUTPUT_OF_BYTES * call.bytes_us
    if call.excess is None:
        return Gain(0.0, pass_us, "at most one more read of a third of the least bytes, unless a cache holds it")
    again_us = max(0.0, call.excess - 1) * call.bytes_us
    return Gain(0.0, min(pass_us, again_us), f"the counters saw {call.excess:.2f} times the least bytes")


def _uncoalesced(opportunity: Opportunity, call: Call) -> Gain:
    low, high = UNCOALESCED_OF_HEADROOM
    headroom_us = call.headroom_of(opportunity)
    return Gain(low * headroom_us, high * headroom_us, f"{low:.0%} to {high:.0%} of the kernel's headroom (chosen)")


def _arithmetic(opportunity: Opportunity, call: Call) -> Gain:
    high = ARITHMETIC_OF_HEADROOM * call.headroom_of(opportunity)
    return Gain(0.0, high, f"at most {ARITHMETIC_OF_HEADROOM:.0%} of the kernel's headroom (chosen)")


def _excess(_: Opportunity, call: Call) -> Gain:
    if call.dram_share is not None and call.dram_share < DRAM_BUSY:
        busy = f"DRAM is at {call.dram_share:.0%} of its peak"
        return Gain(0.0, 0.0, f"{busy}, so that the time does not follow the bytes through it: fewer bring nothing yet")
    again_us = max(0.0, (call.excess or 1.0) - 1) * call.bytes_us
    return Gain(0.5 * again_us, again_us, "half to all of the time that the bytes too many take at the copy ceiling")


def _functions(opportunity: Opportunity, call: Call) -> Gain:
    if call.bottleneck not in HELD_BY_ARITHMETIC:
        return Gain(0.0, 0.0, f"the pass {told(call.bottleneck)}: neither arithmetic nor latency holds it back")
    return _of_time(opportunity, call, FUNCTIONS_OF_TIME, "for arithmetic in fewer instructions")


def _widened(opportunity: Opportunity, call: Call) -> Gain:
    if call.place.case.dtype is DType.FLOAT32:
        return Gain(0.0, 0.0, "float32 inputs are multiplied as before")
    if call.bottleneck is Bottleneck.MEMORY_BOUND:
        return Gain(0.0, 0.0, "memory holds the pass back, so that its products are not waited for")
    high = min(WIDENED_OF_TIME * call.time_of(opportunity), call.headroom_of(opportunity))
    return Gain(0.0, high, f"at most {WIDENED_OF_TIME:.0%} of the kernel's time: TF32 has half the rate of 16 bits")


def _host_only(_: Opportunity, __: Call) -> Gain:
    return Gain(0.0, 0.0, "host time only: the GPU is no faster for it, calls in a row are")


def _unpriced(_: Opportunity, __: Call) -> Gain:
    return Gain(0.0, 0.0, "a hint, not priced")


_RULES: dict[OpportunityKind, Callable[[Opportunity, Call], Gain]] = {
    OpportunityKind.STREAM_ONCE: _hints,
    OpportunityKind.STORED_ONCE: _hints,
    OpportunityKind.ONE_PROGRAM_PER_SM: _programs,
    OpportunityKind.UNPIPELINED_LOOP: _pipeline,
    OpportunityKind.STEPPED_WARPS: _warps,
    OpportunityKind.SHORT_ROWS: _short_rows,
    OpportunityKind.UNCOALESCED: _uncoalesced,
    OpportunityKind.LOOP_INVARIANT_LOAD: _invariant,
    OpportunityKind.REPEATED_PASS: _repeated,
    OpportunityKind.WIDE_ARITHMETIC: _arithmetic,
    OpportunityKind.HOST_SYNCHRONIZATION: _host_only,
    OpportunityKind.CONTIGUOUS_COPY: _contiguous_copy,
    OpportunityKind.PERFORMANCE_TODO: _unpriced,
    OpportunityKind.EXCESS_TRAFFIC: _excess,
    OpportunityKind.UNGROUPED_TILES: _groups,
    OpportunityKind.ROW_A_PROGRAM: _row_tiles,
    OpportunityKind.COSTLY_FUNCTION: _functions,
    OpportunityKind.WIDENED_DOT: _widened,
    OpportunityKind.UNSPECIALIZED_LOOP: _specialized,
    OpportunityKind.UNSPECIALIZED_TMA_LOOP: _specialized,
}
