"""Owns what is not worth compiling: settings that cannot run, or that no thread can hold, each with its reason.

Judged by the original's launch. Never by spilling: settings that spill a little win now and then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from warpsmith.contracts.audit import KnobKind
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.device.architecture import THREADS_PER_WARP
from warpsmith.search.tuning.space import Space
from warpsmith.search.tuning.values import blocks_of, multiplies_matrices

#: Of a CUDA block (CUDA programming guide, compute capabilities).
MOST_THREADS = 1024
#: A thread has 255 registers (CUDA programming guide, compute capabilities). A kernel that reduces a row and reads it
#: again holds at least two values of it, most hold three or four: beyond 64 elements a thread they live in memory,
#: and ptxas needs minutes to put them there.
MOST_ELEMENTS_PER_THREAD = 64
#: The accumulator of a matrix product is held once, so that all of a thread's registers can be its.
MOST_ACCUMULATORS_PER_THREAD = 256
#: Chosen: shared memory is estimated by tiles and stages, and the compiler may need half of that.
CLEARLY_BEYOND = 2


@dataclass(frozen=True)
class _Choice:
    """Settings of one launch: its blocks, warps and stages with them, and as the original has them."""

    launch: LaunchRecord
    blocks: Mapping[str, int]
    warps: int
    stages: float


def why_not(space: Space, settings: Settings, case: Case, device: DeviceFacts) -> str | None:
    """Why these settings are not worth compiling at a case. None where they are, and for what the original does."""
    for turned in settings.items():
        if (reason := space.refused.get(turned)) is not None:
            return f"not compiled: {reason}"
    for launch in {axis.launch.jit_function: axis.launch for axis in space.axes}.values():
        choice = _choice(space, settings, launch)
        reason = _threads(choice) or _tiles(space, settings, case, launch) or _registers(choice)
        if reason := reason or _shared_memory(choice, device):
            return f"not compiled: {reason}"
    return None


def _choice(space: Space, settings: Settings, launch: LaunchRecord) -> _Choice:
    blocks, warps, stages = dict(blocks_of(launch)), launch.compiled.num_warps, 1.0
    for axis in space.axes:
        knob, value = axis.knob, settings.get(axis.knob.id)
        if knob.jit_function != launch.jit_function or value is None:
            continue
        if knob.kind is KnobKind.NUM_WARPS:
            warps = value
        elif knob.kind in (KnobKind.NUM_STAGES, KnobKind.LOOP_STAGES):
            stages *= value / max(1, axis.values[axis.original] or 1)
        elif knob.name in blocks:
            blocks[knob.name] = value
    return _Choice(launch, blocks, warps, stages)


def _threads(choice: _Choice) -> str | None:
    threads = choice.warps * THREADS_PER_WARP
    return f"{threads} threads, a block has at most {MOST_THREADS}" if threads > MOST_THREADS else None


def _registers(choice: _Choice) -> str | None:
    """Elements a thread, unless the original has as many."""
    matrix = multiplies_matrices(choice.launch)
    elements: Callable[[Iterable[int]], int] = _largest_tile if matrix else math.prod
    most = MOST_ACCUMULATORS_PER_THREAD if matrix else MOST_ELEMENTS_PER_THREAD
    own = elements(blocks_of(choice.launch).values()) / (choice.launch.compiled.num_warps * THREADS_PER_WARP)
    per_thread = elements(choice.blocks.values()) / (choice.warps * THREADS_PER_WARP)
    if per_thread <= max(most, own):
        return None
    return f"{per_thread:.0f} elements a thread do not fit its registers"


def _largest_tile(sides: Iterable[int]) -> int:
    *_, short, long = (1, 1, *sorted(sides))
    return short * long


def _tiles(space: Space, settings: Settings, case: Case, launch: LaunchRecord) -> str | None:
    """A tile beyond the axis that its name tells, or where it tells none, beyond the whole case; the source's own may
    be."""
    for axis in space.axes:
        value, own = settings.get(axis.knob.id), axis.values[axis.original] or 0
        if axis.launch is not launch or axis.knob.kind is not KnobKind.BLOCK_TILING or value is None or value <= own:
            continue
        name, size = _axis_of(axis.knob.name, case)
        if value >= 2 * size:
            return f"{axis.knob.name} {value} is twice as long as {name}, {size}, or longer"
    return None


def _axis_of(block: str, case: Case) -> tuple[str, int]:
    """The axis that a block such as BLOCK_SIZE_M tiles, and its size."""
    last = block.rpartition("_")[2].upper()
    for name, size in case.axes.items():
        if name.upper() == last:
            return name, size
    return "all that there is", math.prod(case.axes.values())


def _shared_memory(choice: _Choice, device: DeviceFacts) -> str | None:
    """Estimated from what the original uses, by the tiles that are loaded and the stages that hold them."""
    tiles = _all_tiles(choice.blocks) / max(1, _all_tiles(blocks_of(choice.launch)))
    estimate = choice.launch.compiled.shared_bytes * tiles * choice.stages
    most = device.shared_memory_per_block_bytes
    if estimate <= CLEARLY_BEYOND * most:
        return None
    return f"about {estimate / 1024:.0f} KiB of shared memory, a block has at most {most / 1024:.0f}"


def _all_tiles(blocks: Mapping[str, int]) -> int:
    """Elements of all two-dimensional tiles that the blocks form; of the one block, where there is no other."""
    if len(blocks) < 2:
        return math.prod(blocks.values())
    return sum(a * b for a, b in combinations(blocks.values(), 2))
