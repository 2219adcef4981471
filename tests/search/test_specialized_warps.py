"""Warps that only load, on the simulated GPU: on where that is faster, and where a kernel has no place for it, told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from search.test_grouped_ordering import TILED
from search.test_strategies import ground
from simulated_gpu import SimulatedGpu
from simulated_kernel import BACKWARD

from warpsmith.search.bench import Bench
from warpsmith.search.strategies import CATALOGUE
from warpsmith.search.strategies.base import Inapplicable, Proposal

SWITCH = f"{BACKWARD}.WARP_SPECIALIZE"
A = "        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < left), other=0.0)\n"
B = "        b = tl.load(b_ptrs, mask=(inner[:, None] < left) & (cols[None, :] < N), other=0.0)\n"
LOOP = "    for k in range(0, tl.cdiv(K, BLOCK_K)):\n"
#: The same product from tiles that descriptors load.
BY_DESCRIPTOR = (
    TILED.replace(A, "        a = a_desc.load([pid_m * BLOCK_M, k * BLOCK_K])\n")
    .replace(B, "        b = b_desc.load([k * BLOCK_K, pid_n * BLOCK_N])\n")
    .replace(
        LOOP,
        "    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])\n"
        f"    b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK_N])\n{LOOP}",
    )
)
#: By strategy: a capability that it is for, a kernel that it is for, and one that it must leave alone.
STRATEGIES = {
    "specialized_warps_by_descriptor": ((9, 0), BY_DESCRIPTOR, TILED),
    "specialized_warps": ((10, 0), TILED, None),
}
EACH = pytest.mark.parametrize(("strategy", "where"), STRATEGIES.items(), ids=STRATEGIES)
Where = tuple[tuple[int, int], str, str | None]


def proposed(bench: Bench, strategy: str, capability: tuple[int, int], text: str | None) -> Proposal:
    on = replace(bench, device=bench.device.model_copy(update={"capability": capability}))
    return CATALOGUE[strategy].propose(ground(on, text=text))


def switched(gpu: SimulatedGpu, factor: float) -> None:
    """Compiled to other code where the switch is on, and then so much slower; more warps are always faster."""
    gpu.also_in_code = lambda work: work.settings.get(SWITCH, 0)
    gpu.slowdown = lambda work: (factor if work.settings.get(SWITCH) else 1.0) / work.warps(BACKWARD)


@EACH
def test_warps_are_specialized_where_that_is_faster(
    bench: Bench, gpu: SimulatedGpu, strategy: str, where: Where
) -> None:
    switched(gpu, 0.8)
    proposal = proposed(bench, strategy, where[0], where[1])

    assert "for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=WARP_SPECIALIZE):" in proposal.source
    assert {band.settings["WARP_SPECIALIZE"] for table in proposal.tables for band in table.bands} == {1}
    assert {table.capability for table in proposal.tables} == {where[0]}


@EACH
def test_no_variant_is_made_where_that_is_slower_although_other_settings_win(
    bench: Bench, gpu: SimulatedGpu, strategy: str, where: Where
) -> None:
    switched(gpu, 1.2)
    with pytest.raises(Inapplicable, match=f"WARP_SPECIALIZE=1 is not the best of {BACKWARD} at any tuning case"):
        proposed(bench, strategy, where[0], where[1])


@EACH
def test_a_kernel_without_such_a_product_is_not_measured(
    bench: Bench, gpu: SimulatedGpu, strategy: str, where: Where
) -> None:
    with pytest.raises(Inapplicable, match="no launched kernel multiplies tiles"):
        proposed(bench, strategy, where[0], where[2])
    assert gpu.asked == []
