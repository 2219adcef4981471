"""Owns which values a knob may take at a case: by its kind, around what the original does there.

Must not know which combinations of them can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.contracts.audit import Knob, KnobKind, KnobOrigin
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.errors import Unavailable
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.diagnose.occupancy import occupancy
from warpsmith.search.tuning.space import HOST_ONLY, Axis, Space, Value

#: Chosen. num_warps: all that a CUDA block allows (32 × 32 threads). Programs a SM: doubling, to where a block of 128
#: threads fills an SM's 2048.
BY_KIND: dict[KnobKind, tuple[int, ...]] = {
    KnobKind.NUM_WARPS: (1, 2, 4, 8, 16, 32),
    KnobKind.NUM_STAGES: (1, 2, 3, 4, 5),
    KnobKind.LOOP_STAGES: (1, 2, 3, 4),
    KnobKind.TILE_GROUP: (1, 2, 4, 8, 16),
    KnobKind.PROGRAMS_PER_SM: (1, 2, 4, 8, 16),
    KnobKind.WARP_SPECIALIZE: (0, 1),
    KnobKind.PAST_L1: (0, 1),
}
#: Chosen, as programs a SM.
_PROGRAMS_A_SM = (1, 2, 4, 8, 16)
#: Chosen: a block of an eighth to eight times the source's own.
_BLOCK_STEPS = 3
#: The least side of an operand of tl.dot (triton/language/semantic.py).
_LEAST_DOT_TILE = 16
#: Chosen, for a block whose own size is not known.
_ANY_BLOCK = (32, 64, 128, 256, 512, 1024)
#: Chosen: registers are tried that let one more block fit on an SM, and two.
_MORE_BLOCKS = (1, 2)
#: Chosen: below this everything spills.
_LEAST_REGISTERS = 24

KINDS = frozenset({*BY_KIND, KnobKind.BLOCK_TILING, KnobKind.MAXNREG, KnobKind.PROGRAMS})


def searchable(knobs: Iterable[Knob], jit_functions: Iterable[str]) -> tuple[Knob, ...]:
    """The knobs of these jit functions that can be changed and have values to try."""
    functions = set(jit_functions)
    return tuple(knob for knob in knobs if knob.tunable and knob.jit_function in functions and knob.kind in KINDS)


def space_at(knobs: Sequence[Knob], launches: Sequence[LaunchRecord], device: DeviceFacts) -> Space:
    """The space at a case, by the original's launches there. Knobs of functions that it does not launch are left out.

    Knobs of the host code come last, so that settings that follow each other share their machine code.
    """
    ordered = sorted(knobs, key=lambda knob: knob.kind in HOST_ONLY)
    axes = (_axis(knob, launches, device) for knob in ordered if knob.kind in KINDS)
    return Space(tuple(axis for axis in axes if axis is not None and len(axis.values) > 1))


def multiplies_matrices(launch: LaunchRecord) -> bool:
    """Whether the launch works on tiles of a matrix product: by its instructions, or by its blocks where not read."""
    if launch.compiled.matrix_instructions is not None:
        return bool(launch.compiled.matrix_instructions)
    sides = {name.upper()[-1] for name in blocks_of(launch)}
    return sides >= {"M", "N", "K"}


def blocks_of(launch: LaunchRecord) -> dict[str, int]:
    """The launch's BLOCK constexprs."""
    return {n: v for n, v in launch.constexprs.items() if "BLOCK" in n.upper() and type(v) is int and v > 0}


def _axis(knob: Knob, launches: Sequence[LaunchRecord], device: DeviceFacts) -> Axis | None:
    launch = next((each for each in launches if each.jit_function == knob.jit_function), None)
    if launch is None:
        return None
    own = own_value(knob, launch)
    tried = {*_tried(knob, own, launch, device), *knob.listed}
    if knob.origin is KnobOrigin.AUTOTUNE and knob.kind is KnobKind.BLOCK_TILING and knob.listed:
        # Host code may size a buffer by the least or the greatest block that the configs list.
        tried = {value for value in tried if min(knob.listed) <= value <= max(knob.listed)}
    in_order = sorted(tried - {own} if own is not None else tried)
    place = own if own is not None else _place_of_unknown(knob, launch)
    index = sum(value < place for value in in_order)
    values: tuple[Value, ...] = (*in_order[:index], own, *in_order[index:])
    return Axis(knob, values, index, launch)


def own_value(knob: Knob, launch: LaunchRecord) -> Value:
    """What the original has at this launch. None where it sets nothing, or where that is not known."""
    if knob.kind is KnobKind.NUM_WARPS:
        return launch.compiled.num_warps
    if knob.kind is KnobKind.NUM_STAGES:
        return launch.compiled.num_stages
    if knob.kind is KnobKind.PROGRAMS_PER_SM:
        return 1  # it multiplies what the source computes
    if knob.kind is KnobKind.PROGRAMS:
        return launch.host_integers.get(knob.variable) if knob.variable is not None else None
    value = launch.constexprs.get(knob.name)
    return value if type(value) is int else None


def _place_of_unknown(knob: Knob, launch: LaunchRecord) -> int:
    """Where in the order of values the source's own stands: no cap on registers is above all caps."""
    return launch.grid[0] if knob.kind is KnobKind.PROGRAMS else 1 << 30


def _tried(knob: Knob, own: Value, launch: LaunchRecord, device: DeviceFacts) -> Iterable[int]:
    if knob.kind is KnobKind.PROGRAMS:
        return (device.sm_count * count for count in _PROGRAMS_A_SM)
    if knob.kind is KnobKind.MAXNREG:
        return _register_caps(launch, device)
    if knob.kind is KnobKind.BLOCK_TILING:
        return _blocks(own, _LEAST_DOT_TILE if multiplies_matrices(launch) else 1)
    return BY_KIND[knob.kind]


def _blocks(own: Value, least: int) -> list[int]:
    if own is None or own < 1:
        return [value for value in _ANY_BLOCK if value >= least]
    middle = own.bit_length() - 1
    powers = range(max(0, middle - _BLOCK_STEPS), middle + _BLOCK_STEPS + 1)
    return [1 << power for power in powers if 1 << power >= least]


def _register_caps(launch: LaunchRecord, device: DeviceFacts) -> list[int]:
    """Caps that let more blocks fit on an SM, where registers are what limits their number."""
    compiled = launch.compiled

    def blocks_with(registers: int) -> int:
        capped = compiled.model_copy(update={"registers": registers})
        return occupancy(capped, launch.grid, device.capability, device.sm_count).blocks_per_sm

    try:
        now = occupancy(compiled, launch.grid, device.capability, device.sm_count)
    except Unavailable:  # an unknown GPU's limits are never guessed
        return []
    if now.limiter != "registers":
        return []
    caps = range(compiled.registers - compiled.registers % 8, _LEAST_REGISTERS - 1, -8)
    firsts = (
        next((cap for cap in caps if blocks_with(cap) >= now.blocks_per_sm + more), None) for more in _MORE_BLOCKS
    )
    return [cap for cap in firsts if cap is not None]
