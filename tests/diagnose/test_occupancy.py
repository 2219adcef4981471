"""Occupancy and waves, against figures that ncu reports."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.diagnose.occupancy import Occupancy, occupancy

H100 = (9, 0)


def found(made: Any, blocks: int = 4096, **facts: Any) -> Occupancy:
    return occupancy(made.launch(blocks=blocks, **facts).compiled, (blocks, 1, 1), H100, 132)


def test_the_figures_are_those_of_ncu_for_a_real_launch(made: Any) -> None:
    """RMSNorm forward 4096×4096 on an H200, ncu 2025.3.1: register limit 6 blocks, 75%, 5.17 waves."""
    result = found(made, registers=39, num_warps=8, shared_bytes=32)

    assert result == Occupancy(
        blocks_per_sm=6, share=0.75, limiter="registers", blocks=4096, waves=pytest.approx(5.17, abs=0.01)
    )


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
