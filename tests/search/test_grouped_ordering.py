"""Tiles in groups on the simulated GPU: kept where they are faster, swept or under Triton's tuner, and told why not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from search.test_strategies import NEAR_PEAK, ground
from simulated_gpu import SimulatedGpu
from simulated_kernel import BACKWARD, FORWARD, Work
from source.tiled_kernels import TWO_AXES

from warpsmith.search.bench import Bench
from warpsmith.search.strategies import CATALOGUE
from warpsmith.search.strategies.base import Inapplicable, Proposal

KNOB = f"{BACKWARD}.GROUP_TILES"
#: The kernel of two axes under the simulated GPU's names, beside a pass forward that has no tiles.
TILED = (
    TWO_AXES.replace("_scaled_mm_kernel", BACKWARD)
    .replace("def host(a,", "def rms_norm_backward(x,")
    .replace("M, K = a.shape", "n_rows, K = x.shape")
    .replace("device=a.device", "device=x.device")
    .replace("[grid](a,", "[grid](x,")
    .replace("N = b.shape[1]", "n_cols = b.shape[1]")
    .replace("(M, N), dtype", "(n_rows, n_cols), dtype")
    .replace("cdiv(M, 16)", "cdiv(n_rows, 16)")
    .replace("cdiv(N, 16)", "cdiv(n_cols, 16)")
    .replace("scale, c, M, N, K,", "scale, c, n_rows, n_cols, K,")
    + f"\n\n@triton.jit\ndef {FORWARD}(x_ptr):\n    tl.store(x_ptr, 0.0)\n"
)
CONFIG = 'triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}, num_warps=4)'
TUNED = TILED.replace(
    f"@triton.jit\ndef {BACKWARD}", f'@triton.autotune(configs=[{CONFIG}], key=["M"])\n@triton.jit\ndef {BACKWARD}'
).replace(", BLOCK_M=16, BLOCK_N=16, BLOCK_K=16)", ")")


def group_of(work: Work) -> int:
    return work.knob(BACKWARD, "GROUP_TILES", 1)


def proposed(bench: Bench, text: str = TILED) -> Proposal:
    return CATALOGUE["grouped_ordering"].propose(ground(bench, text=text))


@pytest.fixture
def gpu_with_groups(gpu: SimulatedGpu) -> SimulatedGpu:
    gpu.also_in_code = group_of
    return gpu


def test_a_group_that_is_faster_is_written_with_the_other_settings(bench: Bench, gpu_with_groups: SimulatedGpu) -> None:
    gpu_with_groups.slowdown = lambda work: 0.8 if group_of(work) == 8 else 1.0
    proposal = proposed(bench)

    assert "pid_n, pid_m = tl.swizzle2d(pid_n, pid_m, tl.num_programs(1), tl.num_programs(0), GROUP_TILES)" in (
        proposal.source
    )
    assert {band.settings["GROUP_TILES"] for table in proposal.tables for band in table.bands} == {8}


def test_a_group_that_no_case_wants_makes_no_variant_although_other_settings_win(
    bench: Bench, gpu_with_groups: SimulatedGpu
) -> None:
    gpu_with_groups.slowdown = lambda work: (1 if group_of(work) == 1 else 1.3) / work.knob(BACKWARD, "num_warps", 4)

    with pytest.raises(Inapplicable, match=f"no tuning case is fastest with tiles in groups, of {BACKWARD}"):
        proposed(bench)


def test_under_tritons_tuner_a_few_sizes_are_compared_and_the_best_becomes_the_default(
    bench: Bench, gpu: SimulatedGpu
) -> None:
    gpu.slowdown = lambda work: 0.9 if "GROUP_TILES: tl.constexpr = 16" in work.text else 1.0
    proposal = proposed(bench, TUNED)

    assert proposal.changes == (f"{BACKWARD}: tiles in groups of 16",)
    assert "GROUP_TILES: tl.constexpr = 16" in proposal.source
    assert CONFIG in proposal.source


def test_under_tritons_tuner_groups_that_bring_nothing_are_told(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.slowdown = lambda work: 1.1 if "GROUP_TILES" in work.text else 1.0

    with pytest.raises(Inapplicable, match=rf"groups of tiles bring nothing to {BACKWARD} in backward: 0\.9"):
        proposed(bench, TUNED)


def test_a_kernel_without_shared_tiles_is_not_measured(bench: Bench, gpu: SimulatedGpu) -> None:
    with pytest.raises(Inapplicable, match="no launched kernel has tiles that share operands"):
        CATALOGUE["grouped_ordering"].propose(ground(bench))
    with pytest.raises(Inapplicable, match="backward was left alone"):
        CATALOGUE["grouped_ordering"].propose(ground(bench, NEAR_PEAK, TILED))
    assert gpu.asked == []


def test_a_source_that_changed_since_its_audit_is_told(bench: Bench, gpu: SimulatedGpu) -> None:
    audited = ground(bench, text=TILED)
    changed = replace(audited, source=TILED.replace("GROUP", "G").replace("tl.dot(a, b, acc)", "acc"))

    with pytest.raises(Inapplicable, match=f"{BACKWARD}: {BACKWARD} has no product"):
        CATALOGUE["grouped_ordering"].propose(changed)
    assert gpu.asked == []
