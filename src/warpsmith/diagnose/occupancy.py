"""Owns occupancy: how many blocks of a launch an SM holds at once, what limits that, and how many waves a grid makes.

The rules are those of NVIDIA's occupancy calculator (CUDA C++ Programming Guide, "Compute Capabilities").
Checked against ncu on an H200: 39 registers, 8 warps, 32 bytes of shared memory, 4096 blocks give 6 blocks an
SM, 75% and 5.17 waves. Pure; must not know where the figures come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.launch import CompiledFacts
from warpsmith.device.architecture import THREADS_PER_WARP, limits_of

#: Hardware facts, the same for every capability from 8.0 on.
REGISTERS_PER_WARP_UNIT = 256
#: An SM is four partitions with a quarter of the registers each; a warp lives in one of them.
PARTITIONS = 4
SHARED_UNIT_BYTES = 128
SHARED_RESERVED_PER_BLOCK_BYTES = 1024


@dataclass(frozen=True)
class Occupancy:
    """`share` is resident warps over the most an SM holds. `waves` is None where not even one block fits."""

    blocks_per_sm: int
    share: float
    limiter: str
    blocks: int
    waves: float | None


def occupancy(compiled: CompiledFacts, grid: Sequence[int], capability: tuple[int, int], sm_count: int) -> Occupancy:
    """Theoretical occupancy of one launch. The shared-memory carve-out is taken at its largest."""
    limits = limits_of(capability)
    shared_bytes = _rounded_up(compiled.shared_bytes + SHARED_RESERVED_PER_BLOCK_BYTES, SHARED_UNIT_BYTES)
    fits_shared = compiled.shared_bytes <= limits.shared_memory_per_block_bytes
    by_limit = {
        "blocks": limits.max_blocks_per_sm,
        "warps": limits.max_warps_per_sm // compiled.num_warps,
        "registers": _blocks_by_registers(compiled, limits.registers_per_sm),
        "shared memory": limits.shared_memory_per_sm_bytes // shared_bytes if fits_shared else 0,
    }
    limiter = min(by_limit, key=lambda name: by_limit[name])
    blocks_per_sm, blocks = by_limit[limiter], math.prod(grid)
    return Occupancy(
        blocks_per_sm=blocks_per_sm,
        share=blocks_per_sm * compiled.num_warps / limits.max_warps_per_sm,
        limiter=limiter,
        blocks=blocks,
        waves=blocks / (blocks_per_sm * sm_count) if blocks_per_sm else None,
    )


def _blocks_by_registers(compiled: CompiledFacts, registers_per_sm: int) -> int:
    """Registers are handed out to whole warps, in units, and from a warp's own partition."""
    per_warp = _rounded_up(max(1, compiled.registers) * THREADS_PER_WARP, REGISTERS_PER_WARP_UNIT)
    warps = PARTITIONS * (registers_per_sm // PARTITIONS // per_warp)
    return warps // compiled.num_warps


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
