"""Facts by compute capability; an unknown one is an error and never a guess."""

from __future__ import annotations

import pytest

from warpsmith.contracts.errors import ExitCode, Unavailable
from warpsmith.device.architecture import SmLimits, architecture_of, limits_of


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [
        ((7, 0), "Volta"),
        ((7, 2), "Volta"),
        ((7, 5), "Turing"),
        ((8, 0), "Ampere"),
        ((8, 6), "Ampere"),
        ((8, 9), "Ada"),
        ((9, 0), "Hopper"),
        ((10, 0), "Blackwell"),
        ((10, 1), "Blackwell"),
        ((10, 3), "Blackwell"),
        ((11, 0), "Blackwell"),
        ((12, 0), "Blackwell"),
    ],
)
def test_a_capability_has_an_architecture(capability: tuple[int, int], architecture: str) -> None:
    assert architecture_of(capability) == architecture


@pytest.mark.parametrize(
    ("capability", "threads", "warps", "blocks", "shared_kib", "block_kib"),
    [
        ((7, 0), 2048, 64, 32, 96, 96),
        ((7, 2), 2048, 64, 32, 96, 96),
        ((7, 5), 1024, 32, 16, 64, 64),
        ((8, 0), 2048, 64, 32, 164, 163),
        ((8, 6), 1536, 48, 16, 100, 99),
        ((8, 7), 1536, 48, 16, 164, 163),
        ((8, 8), 1536, 48, 16, 100, 99),
        ((8, 9), 1536, 48, 24, 100, 99),
        ((9, 0), 2048, 64, 32, 228, 227),
        ((10, 0), 2048, 64, 32, 228, 227),
        ((10, 1), 1536, 48, 24, 228, 227),
        ((10, 3), 2048, 64, 32, 228, 227),
        ((11, 0), 1536, 48, 24, 228, 227),
        ((12, 0), 1536, 48, 24, 100, 99),
        ((12, 1), 1536, 48, 24, 100, 99),
    ],
)
def test_the_limits_of_an_sm(
    capability: tuple[int, int], threads: int, warps: int, blocks: int, shared_kib: int, block_kib: int
) -> None:
    limits = limits_of(capability)

    assert limits == SmLimits(
        max_threads_per_sm=threads,
        max_blocks_per_sm=blocks,
        registers_per_sm=65536,
        shared_memory_per_sm_bytes=shared_kib * 1024,
        shared_memory_per_block_bytes=block_kib * 1024,
        shared_memory_reserved_per_block_bytes=(shared_kib - block_kib) * 1024,
        shared_memory_unit_bytes=256 if capability < (8, 0) else 128,
        register_unit=256,
        partitions=4,
    )
    assert limits.max_warps_per_sm == warps


@pytest.mark.parametrize("capability", [(6, 1), (7, 1), (9, 9), (10, 7), (13, 0)])
def test_an_unknown_capability_names_what_is_known(capability: tuple[int, int]) -> None:
    for question in (architecture_of, limits_of):
        with pytest.raises(
            Unavailable, match=rf"{capability[0]}\.{capability[1]}; known are 7\.0, .*, 12\.1$"
        ) as caught:
            question(capability)
        assert caught.value.exit_code is ExitCode.UNAVAILABLE
