"""Which values a knob takes at a case, how points of a space lie to each other, and what is not worth compiling."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
from landscapes import KERNEL, Landscape, case_of, knob, space_of
from searched_kernels import matrix_product, row_kernel
from simulated_gpu import DEVICE

from warpsmith.contracts.audit import Knob, KnobKind
from warpsmith.contracts.base import Settings
from warpsmith.diagnose.occupancy import occupancy
from warpsmith.search.tuning.constraints import why_not
from warpsmith.search.tuning.space import Axis, Space
from warpsmith.search.tuning.values import searchable, space_at

CASE = case_of(M=4096, N=4096, K=4096)


def axis_of(added: Knob, landscape: Landscape, **own: int) -> Axis | None:
    """The axis of one knob more, where the original has these values."""
    original = {**landscape.original(CASE), **own}
    landscape = replace(landscape, knobs=(added,), original=lambda case: original)
    return next(iter(space_of(landscape, CASE).axes), None)


def values_of(added: Knob, landscape: Landscape | None = None, **own: int) -> tuple[int | None, ...]:
    axis = axis_of(added, landscape or row_kernel(), **own)
    assert axis is not None
    return axis.values


@pytest.mark.parametrize(
    ("name", "kind", "own", "expected"),
    [
        ("num_warps", KnobKind.NUM_WARPS, 8, (1, 2, 4, 8, 16, 32)),
        ("num_stages", KnobKind.NUM_STAGES, 7, (1, 2, 3, 4, 5, 7)),
        ("LOOP_STAGES", KnobKind.LOOP_STAGES, 1, (1, 2, 3, 4)),
        ("GROUP_TILES", KnobKind.TILE_GROUP, 1, (1, 2, 4, 8, 16)),
        ("programs_per_sm", KnobKind.PROGRAMS_PER_SM, 1, (1, 2, 4, 8, 16)),
        ("PROGRAMS", KnobKind.PROGRAMS, 1000, (132, 264, 528, 1000, 1056, 2112)),
        ("BLOCK_T", KnobKind.BLOCK_TILING, 64, (8, 16, 32, 64, 128, 256, 512)),
        ("BLOCK_T", KnobKind.BLOCK_TILING, 4, (1, 2, 4, 8, 16, 32)),
        ("BLOCK_T", KnobKind.BLOCK_TILING, 96, (8, 16, 32, 64, 96, 128, 256, 512)),
    ],
)
def test_values_follow_the_kind_and_have_the_originals_own_among_them(
    name: str, kind: KnobKind, own: int, expected: tuple[int, ...]
) -> None:
    axis = axis_of(knob(name, kind), row_kernel(), **{name: own})
    assert axis is not None
    assert axis.values == expected
    assert axis.values[axis.original] == own


def test_a_tile_of_a_matrix_product_is_never_below_16() -> None:
    assert values_of(knob("BLOCK_SIZE_K", KnobKind.BLOCK_TILING), matrix_product()) == (16, 32, 64, 128, 256)


def test_what_autotune_lists_is_tried_beside_the_usual_values() -> None:
    listed = knob("num_stages", KnobKind.NUM_STAGES, listed=(3, 8))
    assert values_of(listed) == (1, 2, 3, 4, 5, 8)


def test_a_number_of_programs_that_is_not_known_is_left_to_the_source_and_stands_where_its_grid_does() -> None:
    unknown = knob("PROGRAMS", KnobKind.PROGRAMS).model_copy(update={"variable": None})
    landscape = replace(row_kernel(), programs=lambda case, values: 600)
    axis = axis_of(unknown, landscape)
    assert axis is not None
    assert axis.values == (132, 264, 528, None, 1056, 2112)
    assert Space((axis,)).settings((3,)) == {}


def test_registers_are_capped_where_they_limit_the_occupancy_and_each_cap_lets_more_blocks_fit() -> None:
    capped = knob("maxnreg", KnobKind.MAXNREG)
    landscape = replace(row_kernel(), registers=128)
    *caps, own = values_of(capped, landscape)
    assert own is None
    compiled = landscape.launches(CASE, {})[0].compiled
    fits = [
        occupancy(compiled.model_copy(update={"registers": r}), (1,), DEVICE.capability, DEVICE.sm_count).blocks_per_sm
        for r in (128, *reversed([cap for cap in caps if cap is not None]))
    ]
    assert fits == [2, 3, 4]
    assert axis_of(capped, replace(row_kernel(), registers=16)) is None


def test_knobs_of_a_function_that_is_not_launched_there_have_no_axis() -> None:
    other = knob("num_warps", KnobKind.NUM_WARPS).model_copy(update={"jit_function": "other"})
    assert space_at([other], row_kernel().launches(CASE, {}), DEVICE).axes == ()


def test_only_knobs_that_can_be_changed_and_have_values_are_searched() -> None:
    warps, covering = knob("num_warps", KnobKind.NUM_WARPS), knob("BLOCK_SIZE", KnobKind.BLOCK_COVERING)
    refused = warps.model_copy(update={"tunable": False})
    assert searchable([warps, covering, refused], [KERNEL]) == (warps,)
    assert searchable([warps], ["other"]) == ()


def test_neighbours_are_one_step_of_one_knob_and_diagonals_one_of_two() -> None:
    space = space_of(row_kernel(), CASE)
    origin = space.origin
    neighbours = space.neighbours(origin)
    assert all(sum(abs(a - b) for a, b in zip(origin, each, strict=True)) == 1 for each in neighbours)
    assert len(neighbours) == 2 + 2 + 1  # the source's one program a SM is the least
    diagonals = space.diagonals(origin)
    assert all(sum(a != b for a, b in zip(origin, each, strict=True)) == 2 for each in diagonals)
    assert len(diagonals) == 4 + 2 + 2


def test_points_that_change_least_come_first_and_those_of_one_machine_code_together() -> None:
    space = space_of(row_kernel(), CASE)
    points = [tuple(space.settings(point).values()) for point in space.by_changes()]
    assert points[:6] == [(8, 3, 1), (8, 3, 2), (8, 3, 4), (8, 3, 8), (8, 3, 16), (1, 3, 1)]
    assert len(set(points)) == space.size


def test_settings_of_another_case_become_the_nearest_point() -> None:
    space = space_of(matrix_product(), CASE)
    foreign = {f"{KERNEL}.BLOCK_SIZE_M": 4096, f"{KERNEL}.num_warps": 5, "other.num_warps": 32}
    expected = {**matrix_product().original(CASE), "BLOCK_SIZE_M": 512, "num_warps": 4}
    settings = space.settings(space.nearest(foreign))
    assert {name.rpartition(".")[2]: value for name, value in settings.items()} == expected


def test_a_few_spread_points_reach_every_value_of_a_knob_and_repeat_none() -> None:
    space = space_of(matrix_product(), CASE)
    points = list(islice(space.spread(), 16))
    assert len(set(points)) == 16
    for place, axis in enumerate(space.axes):
        assert {point[place] for point in points} == set(range(len(axis.values)))


def why_not_product(**values: int) -> str | None:
    landscape = matrix_product()
    settings: Settings = {f"{KERNEL}.{name}": value for name, value in values.items()}
    return why_not(space_of(landscape, CASE), settings, CASE, DEVICE)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"num_warps": 64}, "2048 threads, a block has at most 1024"),
        ({"BLOCK_SIZE_M": 512, "BLOCK_SIZE_N": 256, "num_warps": 4}, "1024 elements a thread do not fit its registers"),
        ({"BLOCK_SIZE_M": 256, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 256, "num_warps": 16, "num_stages": 5},
         "about 960 KiB of shared memory, a block has at most 227"),
        ({"BLOCK_SIZE_M": 8192, "BLOCK_SIZE_N": 16, "num_warps": 32},
         "BLOCK_SIZE_M 8192 is twice as long as M, 4096, or longer"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_not_compiled_and_the_reason_is_told(values: dict[str, int], reason: str) -> None:
    assert why_not_product(**values) == f"not compiled: {reason}"


def test_what_may_spill_or_just_not_fit_is_compiled() -> None:
    assert why_not_product(BLOCK_SIZE_M=256, BLOCK_SIZE_N=128, num_warps=4) is None
    assert why_not_product(BLOCK_SIZE_M=128, BLOCK_SIZE_N=256, BLOCK_SIZE_K=64, num_warps=8, num_stages=4) is None


def test_a_row_that_the_original_holds_in_few_threads_is_no_reason_against_as_few() -> None:
    case = case_of(M=4096, N=65536)
    landscape = row_kernel()
    space = space_of(landscape, case)
    assert why_not(space, {f"{KERNEL}.num_warps": 8}, case, DEVICE) is None
    assert why_not(space, {f"{KERNEL}.num_warps": 4}, case, DEVICE) == (
        "not compiled: 512 elements a thread do not fit its registers"
    )
