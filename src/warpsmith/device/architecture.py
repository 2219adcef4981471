"""From a compute capability to its architecture and the limits of one SM. Hardware facts only; asks no GPU.

Source of every row: NVIDIA/cccl, libcudacxx/include/cuda/__device/arch_traits.h; the same quantities stand in the CUDA
Programming Guide's appendix (https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html).
The Blackwell tuning guide prints 32 blocks and 128 KB (the whole L1 cache) for 12.0; the traits have 24 and 100 KB.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.contracts.errors import Unavailable

THREADS_PER_WARP = 32

_KIB = 1024

#: Of all capabilities below.
_REGISTERS_PER_SM = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class SmLimits:
    """What one SM can hold. Registers are 32 bits wide.

    `shared_memory_per_block_bytes` is what a block can have when it opts in: from 8.0 on, 1 KiB less than an SM has,
    which the driver keeps for itself in every block.
    """

    max_threads_per_sm: int
    max_blocks_per_sm: int
    registers_per_sm: int
    shared_memory_per_sm_bytes: int
    shared_memory_per_block_bytes: int

    @property
    def max_warps_per_sm(self) -> int:
        return self.max_threads_per_sm // THREADS_PER_WARP


def _limits(threads: int, blocks: int, shared_kib: int, reserved_kib: int = 1) -> SmLimits:
    return SmLimits(
        max_threads_per_sm=threads,
        max_blocks_per_sm=blocks,
        registers_per_sm=_REGISTERS_PER_SM,
        shared_memory_per_sm_bytes=shared_kib * _KIB,
        shared_memory_per_block_bytes=(shared_kib - reserved_kib) * _KIB,
    )


#: Capability -> architecture and limits.
_KNOWN: dict[tuple[int, int], tuple[str, SmLimits]] = {
    (7, 0): ("Volta", _limits(2048, 32, 96, reserved_kib=0)),
    (7, 5): ("Turing", _limits(1024, 16, 64, reserved_kib=0)),
    (8, 0): ("Ampere", _limits(2048, 32, 164)),
    (8, 6): ("Ampere", _limits(1536, 16, 100)),
    (8, 7): ("Ampere", _limits(1536, 16, 164)),
    (8, 8): ("Ampere", _limits(1536, 16, 100)),
    (8, 9): ("Ada", _limits(1536, 24, 100)),
    (9, 0): ("Hopper", _limits(2048, 32, 228)),
    (10, 0): ("Blackwell", _limits(2048, 32, 228)),
    (10, 3): ("Blackwell", _limits(2048, 32, 228)),
    (11, 0): ("Blackwell", _limits(1536, 24, 228)),
    (12, 0): ("Blackwell", _limits(1536, 24, 100)),
    (12, 1): ("Blackwell", _limits(1536, 24, 100)),
}


def architecture_of(capability: tuple[int, int]) -> str:
    """The architecture's name, such as "Hopper" for (9, 0). Raises Unavailable for an unknown capability."""
    return _known(capability)[0]


def limits_of(capability: tuple[int, int]) -> SmLimits:
    """The limits of one SM. Raises Unavailable for an unknown capability: limits are never guessed."""
    return _known(capability)[1]


def _known(capability: tuple[int, int]) -> tuple[str, SmLimits]:
    try:
        return _KNOWN[capability]
    except KeyError:
        known = ", ".join(f"{major}.{minor}" for major, minor in _KNOWN)
        major, minor = capability
        raise Unavailable(f"unknown compute capability {major}.{minor}; known are {known}") from None
