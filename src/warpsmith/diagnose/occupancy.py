"""Owns occupancy: how many blocks of a launch an SM holds at once, what limits that, and how many waves a grid makes.

The rules are those of NVIDIA's occupancy calculator: cuda_occupancy.h, which comes with the CUDA toolkit (here as of
13.0), and CUDA C++ Programming Guide, "Compute Capabilities". Checked against ncu on an H200: 39 registers, 8 warps, 32
bytes of shared memory, 4096 blocks give 6 blocks an SM, 75% and 5.17 waves. Pure; must not know where the figures come
from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.launch import CompiledFacts
from warpsmith.device.architecture import THREADS_PER_WARP, SmLimits, limits_of


@dataclass(frozen=True)
class Occupancy:
    """`share` is resident warps over the most an SM holds. `waves` is None where not even one block fits.

    `limiter` is "registers", "shared memory", "warps" or "blocks". Blocks of a cluster are counted one by one; that
    they have to lie on one GPC, which can leave SMs idle, is not in these figures.
    """

    blocks_per_sm: int
    share: float
    limiter: str
    blocks: int
    waves: float | None


def tail_share(waves: float) -> float:
    """What the last wave costs at most, as a share of the kernel's time: 0.25 at 1.5 waves, 0 up to one wave.

    It is the room for blocks that stays empty, if all blocks take the same time: 1 - waves / ceil(waves). It costs less
    where an SM that holds fewer blocks runs each of them faster.
    """
    return 0.0 if waves <= 1 else 1 - waves / math.ceil(waves)


def occupancy(compiled: CompiledFacts, grid: Sequence[int], capability: tuple[int, int], sm_count: int) -> Occupancy:
    """Theoretical occupancy of one launch. The shared-memory carve-out is taken at its largest.

    Raises Unavailable for an unknown compute capability.
    """
    limits = limits_of(capability)
    by_limit = {
        "blocks": limits.max_blocks_per_sm,
        "warps": limits.max_warps_per_sm // compiled.num_warps,
        "registers": _blocks_by_registers(compiled, limits),
        "shared memory": _blocks_by_shared_memory(compiled, limits),
    }
    limiter = min(by_limit, key=lambda name: by_limit[name])
    blocks_per_sm, blocks = by_limit[limiter], math.prod(grid) * compiled.num_ctas
    return Occupancy(
        blocks_per_sm=blocks_per_sm,
        share=blocks_per_sm * compiled.num_warps / limits.max_warps_per_sm,
        limiter=limiter,
        blocks=blocks,
        waves=blocks / (blocks_per_sm * sm_count) if blocks_per_sm else None,
    )


def _blocks_by_registers(compiled: CompiledFacts, limits: SmLimits) -> int:
    """Registers are handed out to whole warps, in units, and from a warp's own partition."""
    per_warp = _rounded_up(max(1, compiled.registers) * THREADS_PER_WARP, limits.register_unit)
    warps = limits.partitions * (limits.registers_per_sm // limits.partitions // per_warp)
    return warps // compiled.num_warps


def _blocks_by_shared_memory(compiled: CompiledFacts, limits: SmLimits) -> int:
    """In every block, the driver keeps some for itself."""
    if compiled.shared_bytes > limits.shared_memory_per_block_bytes:
        return 0
    wanted = compiled.shared_bytes + limits.shared_memory_reserved_per_block_bytes
    a_block = _rounded_up(wanted, limits.shared_memory_unit_bytes)
    return limits.shared_memory_per_sm_bytes // a_block if a_block else limits.max_blocks_per_sm


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
