"""From a compute capability to its architecture and the limits of one SM. Hardware facts only; asks no GPU.

Sources, each row checked against both where both have it:
- NVIDIA/cccl, libcudacxx/include/cuda/__device/arch_traits.h: threads, blocks, registers, shared memory and what the
  driver keeps of it. The same stands in the CUDA Programming Guide's appendix
  (https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html).
- cuda_occupancy.h of the CUDA toolkit (12.8 and 13.0): blocks, and the units in which registers and shared memory are
  handed out.

The traits lack 7.2 and 10.1. 7.2 (Xavier) is as 7.0 in the table of the CUDA C++ Programming Guide up to 12.9 and in
cuda_occupancy.h. 10.1 (Thor) is what CUDA 12.8 and 12.9 call 11.0, renamed in 13.0 (release notes of nvCOMPDx 0.1.1).
The Blackwell tuning guide prints 32 blocks and 128 KB (the whole L1 cache) for 12.0; the traits have 24 and 100 KB.
10.7 (Rubin) is left out: no document of its limits was found.
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
    """What one SM can hold, and the units in which it hands that out. Registers are 32 bits wide.

    `shared_memory_per_block_bytes` is what a block can have when it opts in: all that an SM has but for
    `shared_memory_reserved_per_block_bytes`, which from 8.0 on the driver keeps for itself in every block.
    A warp gets registers in multiples of `register_unit`, all from the one of the SM's `partitions` that it lives in:
    as warps are spread over these evenly, they are allocated in multiples of that number.
    """

    max_threads_per_sm: int
    max_blocks_per_sm: int
    registers_per_sm: int
    shared_memory_per_sm_bytes: int
    shared_memory_per_block_bytes: int
    shared_memory_reserved_per_block_bytes: int
    shared_memory_unit_bytes: int
    register_unit: int
    partitions: int

    @property
    def max_warps_per_sm(self) -> int:
        return self.max_threads_per_sm // THREADS_PER_WARP


def _limits(threads: int, blocks: int, shared_kib: int, *, reserved_kib: int = 1, unit_bytes: int = 128) -> SmLimits:
    return SmLimits(
        max_threads_per_sm=threads,
        max_blocks_per_sm=blocks,
        registers_per_sm=_REGISTERS_PER_SM,
        shared_memory_per_sm_bytes=shared_kib * _KIB,
        shared_memory_per_block_bytes=(shared_kib - reserved_kib) * _KIB,
        shared_memory_reserved_per_block_bytes=reserved_kib * _KIB,
        shared_memory_unit_bytes=unit_bytes,
        register_unit=256,
        partitions=4,
    )


def _before_ampere(threads: int, blocks: int, shared_kib: int) -> SmLimits:
    return _limits(threads, blocks, shared_kib, reserved_kib=0, unit_bytes=256)


#: Capability -> architecture and limits.
_KNOWN: dict[tuple[int, int], tuple[str, SmLimits]] = {
    (7, 0): ("Volta", _before_ampere(2048, 32, 96)),
    (7, 2): ("Volta", _before_ampere(2048, 32, 96)),
    (7, 5): ("Turing", _before_ampere(1024, 16, 64)),
    (8, 0): ("Ampere", _limits(2048, 32, 164)),
    (8, 6): ("Ampere", _limits(1536, 16, 100)),
    (8, 7): ("Ampere", _limits(1536, 16, 164)),
    (8, 8): ("Ampere", _limits(1536, 16, 100)),
    (8, 9): ("Ada", _limits(1536, 24, 100)),
    (9, 0): ("Hopper", _limits(2048, 32, 228)),
    (10, 0): ("Blackwell", _limits(2048, 32, 228)),
    (10, 1): ("Blackwell", _limits(1536, 24, 228)),
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
