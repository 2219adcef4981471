"""Occupancy and waves, against figures that ncu reports."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.errors import Unavailable
from warpsmith.diagnose.occupancy import Occupancy, occupancy, tail_share

H100 = (9, 0)


def found(made: Any, blocks: int = 4096, capability: tuple[int, int] = H100, **facts: Any) -> Occupancy:
    return occupancy(made.launch(blocks=blocks, **facts).compiled, (blocks, 1, 1), capability, 132)


def test_the_figures_are_those_of_ncu_for_a_real_launch(made: Any) -> None:
    """RMSNorm forward 4096×4096 on an H200, ncu 2025.3.1: register limit 6 blocks, 75%, 5.17 waves."""
    result = found(made, registers=39, num_warps=8, shared_bytes=32)

    assert result == Occupancy(
        blocks_per_sm=6, share=0.75, limiter="registers", blocks=4096, waves=pytest.approx(5.17, abs=0.01)
    )
    # its own limits by blocks and warps: 32 and 8
    assert found(made, registers=16, num_warps=1, shared_bytes=32).blocks_per_sm == 32
    assert found(made, registers=32, num_warps=8, shared_bytes=32).blocks_per_sm == 8


@pytest.mark.parametrize(
    ("facts", "blocks_per_sm", "limiter"),
    [
        ({"registers": 32, "num_warps": 8}, 8, "warps"),
        ({"registers": 16, "num_warps": 1}, 32, "blocks"),
        ({"registers": 255, "num_warps": 8}, 1, "registers"),
        ({"registers": 168, "num_warps": 4}, 3, "registers"),
        # 51 warps' registers in all, but 12 a partition
        ({"registers": 40, "num_warps": 2}, 24, "registers"),
        ({"registers": 32, "num_warps": 4, "shared_bytes": 100 * 1024}, 2, "shared memory"),
        ({"registers": 32, "num_warps": 4, "shared_bytes": 227 * 1024}, 1, "shared memory"),
    ],
)
def test_each_limit_is_named_where_it_holds(made: Any, facts: Any, blocks_per_sm: int, limiter: str) -> None:
    result = found(made, **facts)

    assert (result.blocks_per_sm, result.limiter) == (blocks_per_sm, limiter)


def test_a_block_that_does_not_fit_makes_no_waves(made: Any) -> None:
    result = found(made, registers=32, shared_bytes=228 * 1024)

    assert (result.blocks_per_sm, result.share, result.limiter, result.waves) == (0, 0.0, "shared memory", None)


def test_one_program_per_sm_is_a_fraction_of_a_wave(made: Any) -> None:
    assert found(made, blocks=132, registers=32, num_warps=8).waves == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    ("capability", "facts", "blocks_per_sm", "limiter"),
    [
        # 7.x hands out shared memory by 256 bytes and keeps none for the driver
        ((7, 0), {"registers": 32, "num_warps": 2, "shared_bytes": 3100}, 29, "shared memory"),
        ((7, 0), {"registers": 32, "num_warps": 4, "shared_bytes": 96 * 1024}, 1, "shared memory"),
        ((7, 0), {"registers": 33, "num_warps": 8, "shared_bytes": 0}, 6, "registers"),
        ((7, 5), {"registers": 32, "num_warps": 4, "shared_bytes": 16 * 1024}, 4, "shared memory"),
        ((7, 5), {"registers": 32, "num_warps": 4, "shared_bytes": 0}, 8, "warps"),
        ((7, 5), {"registers": 16, "num_warps": 1, "shared_bytes": 0}, 16, "blocks"),
        ((8, 0), {"registers": 32, "num_warps": 4, "shared_bytes": 16 * 1024}, 9, "shared memory"),
        ((8, 6), {"registers": 32, "num_warps": 4, "shared_bytes": 0}, 12, "warps"),
        ((8, 6), {"registers": 16, "num_warps": 1, "shared_bytes": 0}, 16, "blocks"),
        ((8, 9), {"registers": 16, "num_warps": 1, "shared_bytes": 0}, 24, "blocks"),
        ((10, 0), {"registers": 64, "num_warps": 4, "shared_bytes": 72 * 1024}, 3, "shared memory"),
        ((12, 0), {"registers": 64, "num_warps": 4, "shared_bytes": 72 * 1024}, 1, "shared memory"),
        ((12, 0), {"registers": 40, "num_warps": 4, "shared_bytes": 0}, 12, "warps"),
        ((12, 0), {"registers": 48, "num_warps": 4, "shared_bytes": 0}, 10, "registers"),
    ],
)
def test_each_generation_has_its_own_limits(
    made: Any, capability: tuple[int, int], facts: Any, blocks_per_sm: int, limiter: str
) -> None:
    result = found(made, capability=capability, **facts)

    assert (result.blocks_per_sm, result.limiter) == (blocks_per_sm, limiter)


def test_an_unknown_capability_has_no_occupancy(made: Any) -> None:
    with pytest.raises(Unavailable, match=r"6\.1"):
        found(made, capability=(6, 1))


@pytest.mark.parametrize(
    ("blocks", "tail"),
    [
        (4096, 1 - 4096 / (6 * 792)),
        (793, 1 - 793 / (2 * 792)),
        (2 * 792, 0.0),
        # one wave and less: nothing runs after it
        (792, 0.0),
        (132, 0.0),
    ],
)
def test_the_last_wave_tells_what_the_tail_may_cost(made: Any, blocks: int, tail: float) -> None:
    result = found(made, blocks=blocks, registers=39, num_warps=8)

    assert result.waves is not None
    assert tail_share(result.waves) == pytest.approx(tail)


def test_where_no_block_fits_there_are_no_waves_to_tell(made: Any) -> None:
    assert found(made, shared_bytes=228 * 1024).waves is None


def test_each_program_of_a_cluster_counts_all_its_blocks(made: Any) -> None:
    one, two = (found(made, blocks=792, registers=39, num_ctas=ctas) for ctas in (1, 2))

    assert (one.blocks, two.blocks) == (792, 1584)
    assert (one.waves, two.waves) == (1.0, 2.0)
