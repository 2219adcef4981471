"""The smallest table that is as good as the best everywhere it was tuned, for any number of sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.search.tuning.axes import Axis
from warpsmith.search.tuning.bands import bands
from warpsmith.search.tuning.cover import contains, overlap
from warpsmith.search.tuning.narrowing import narrowed
from warpsmith.search.tuning.points import TOLERANCE, Cell, Point, cells_of
from warpsmith.search.tuning.space import ORIGINAL_KEY as ORIGINAL
from warpsmith.search.tuning.space import Key
from warpsmith.source.table import Band, Basis, SettingsTable
from warpsmith.source.table_text import Ranges

FOUR: Key = (("kernel.num_warps", 4),)
EIGHT: Key = (("kernel.num_warps", 8),)
WIDTH = Axis(covered_up_to=65536)
ROWS = Axis()
BY_ROWS = (WIDTH, ROWS)
SLOWEST = 2.0


def point(*sizes: int, weight: float = 1.0, **times_ms: float) -> Point:
    """A point where the original takes 2 ms, and 4 and 8 warps 1.5 ms, but for what is given."""
    times = {
        ORIGINAL: times_ms.get("original", SLOWEST),
        FOUR: times_ms.get("four", 1.5),
        EIGHT: times_ms.get("eight", 1.5),
    }
    return Point(sizes, 2, weight, times)


def band(*ranges: tuple[int, int], num_warps: int) -> Band:
    return Band(ranges=ranges, settings={"num_warps": num_warps})


def test_settings_that_are_best_everywhere_make_one_band_over_the_hull() -> None:
    tuned = [point(2048, 1024, four=1.0), point(4096, 8192, four=1.0), point(8192, 4096, four=1.0)]
    assert bands(tuned, BY_ROWS) == (band((2048, 8192), (1024, 8192), num_warps=4),)


def test_settings_within_the_tolerance_are_shared_and_beyond_it_are_not() -> None:
    assert bands([point(1024, four=1.0), point(4096, four=1.009, eight=1.0)], (ROWS,)) == (
        band((1024, 4096), num_warps=4),
    )
    assert bands([point(1024, four=1.0), point(4096, four=1.011, eight=1.0)], (ROWS,)) == (
        band((1024, 2048), num_warps=4),
        band((2049, 4096), num_warps=8),
    )


def test_settings_that_were_not_measured_at_a_case_do_not_hold_there() -> None:
    unmeasured = Point((4096,), 2, 1.0, {ORIGINAL: 2.0, EIGHT: 1.0})
    assert len(bands([point(1024, four=1.0), unmeasured], (ROWS,))) == 2


def test_two_dtypes_of_one_size_share_settings_that_suit_both() -> None:
    bf16, fp16 = point(1024, four=1.0, eight=1.005), point(1024, four=1.2, eight=1.0)
    assert bands([bf16, fp16], (ROWS,)) == (band((1024, 1024), num_warps=8),)
    assert bands([point(1024, four=1.0), point(1024, eight=1.0)], (ROWS,)) == ()


def test_a_band_runs_over_cases_where_the_original_would_do_only_where_that_saves_a_band() -> None:
    middle = point(2048, four=1.0, original=1.005)
    assert bands([point(1024, four=1.0), middle, point(4096, four=1.0)], (ROWS,)) == (band((1024, 4096), num_warps=4),)
    assert bands([point(1024, four=1.0), middle], (ROWS,)) == (band((1024, 1448), num_warps=4),)


def test_of_settings_that_suit_a_band_the_heavier_case_decides() -> None:
    light, heavy = point(1024, four=1.0, eight=1.008), point(4096, four=1.005, eight=1.0, weight=9.0)
    assert bands([light, heavy], (ROWS,)) == (band((1024, 4096), num_warps=8),)


def test_bands_of_equal_regret_share_their_settings() -> None:
    """Eight warps cost the first case 0.01%, which timing cannot tell, and alone suit the last."""
    tuned = [point(64, four=1.0, eight=1.0001), point(1024, original=1.0), point(4096, eight=1.0)]
    assert [each.settings for each in bands(tuned, (ROWS,))] == [{"num_warps": 8}, {"num_warps": 8}]


def test_widths_are_parted_at_the_power_of_two_and_rows_half_way() -> None:
    tuned = [point(3000, 1024, four=1.0), point(5000, 1024, eight=1.0), point(3000, 16384, eight=1.0)]
    assert bands(tuned, BY_ROWS) == (
        band((3000, 4096), (1024, 4096), num_warps=4),
        band((3000, 4096), (4097, 16384), num_warps=8),
        band((4097, 5000), (1024, 16384), num_warps=8),
    )


def test_a_covering_block_that_was_not_tuned_has_no_band() -> None:
    tuned = [point(1024, 64, four=1.0), point(4096, 64, four=1.0)]
    assert bands(tuned, BY_ROWS) == (
        band((1024, 1024), (64, 64), num_warps=4),
        band((2049, 4096), (64, 64), num_warps=4),
    )


def test_widths_beyond_the_widest_block_are_parted_half_way() -> None:
    tuned = [point(50_000, four=1.0), point(128_000, eight=1.0)]
    assert bands(tuned, (Axis(covered_up_to=32768),)) == (
        band((50_000, 80_000), num_warps=4),
        band((80_001, 128_000), num_warps=8),
    )


def test_three_sizes_make_boxes() -> None:
    tuned = [point(m, n, 4096, four=1.0 if m < 100 else 1.5, eight=1.0) for m in (16, 1024) for n in (1024, 4096)]
    assert bands(tuned, (ROWS, ROWS, ROWS)) == (band((16, 1024), (1024, 4096), (4096, 4096), num_warps=8),)


def test_no_sizes_make_one_band_where_one_choice_suits_every_case() -> None:
    assert bands([point(four=1.0), point(four=1.005, eight=1.0)], ()) == (Band(ranges=(), settings={"num_warps": 4}),)
    assert bands([point(four=1.0), point(eight=1.0)], ()) == ()


def table(*drawn: Band, tuned: tuple[tuple[int, ...], ...]) -> SettingsTable:
    axes = ("n_cols", "n_rows")
    return SettingsTable(
        jit_function="kernel", host_function="host", capability=(9, 0), sm_count=132, itemsize=2, tensor="x",
        axes=axes, bands=drawn,
        basis=Basis(tuned=tuned, products=(("N",), ("M",)), covered_up_to=(65536, 1)),
    )  # fmt: skip


def test_a_slower_case_between_tuned_ones_takes_the_ground_half_way_to_each() -> None:
    whole = table(
        band((2048, 4096), (64, 4096), num_warps=4), tuned=((2048, 64), (2048, 4096), (4096, 64), (4096, 4096))
    )
    assert narrowed(whole, (2048, 1024)).bands == (
        band((2048, 4096), (64, 256), num_warps=4),
        band((2048, 4096), (2049, 4096), num_warps=4),
    )


def test_a_slower_case_whose_band_has_no_other_tuned_case_takes_the_band() -> None:
    far = band((2049, 4096), (64, 64), num_warps=4)
    whole = table(band((1024, 1024), (64, 64), num_warps=8), far, tuned=((1024, 64), (4096, 64)))
    assert narrowed(whole, (1024, 64)).bands == (far,)
    assert narrowed(whole, (8192, 64)) == whole


def test_a_table_that_does_not_say_what_was_tuned_loses_the_band_of_a_slower_case() -> None:
    whole = table(band((1024, 4096), (64, 64), num_warps=4), tuned=()).model_copy(update={"basis": None})
    assert narrowed(whole, (2048, 64)).bands == ()


TIMES = st.sampled_from([1.0, 1.004, 1.008, 1.5])
AXES = st.lists(st.sampled_from([ROWS, WIDTH, Axis(covered_up_to=2048)]), min_size=0, max_size=3).map(tuple)


@st.composite
def landscapes(draw: st.DrawFn, most: int = 7) -> tuple[tuple[Axis, ...], list[Point]]:
    axes = draw(AXES)
    sizes = st.tuples(*(st.sampled_from([64, 700, 1000, 3000, 4096, 8192]) for _ in axes))
    points = st.builds(
        lambda at, times, weight: point(*at, weight=weight, original=times[0], four=times[1], eight=times[2]),
        sizes, st.tuples(TIMES, TIMES, TIMES), st.sampled_from([1.0, 3.0]),
    )  # fmt: skip
    return axes, draw(st.lists(points, min_size=1, max_size=most))


@settings(max_examples=300, deadline=None)
@given(landscapes(most=12))
def test_every_tuned_case_is_within_the_tolerance_and_bands_neither_overlap_nor_leave_the_hull(
    landscape: tuple[tuple[Axis, ...], list[Point]],
) -> None:
    axes, tuned = landscape
    found = bands(tuned, axes)
    for cell in cells_of(tuned):
        covering = [each for each in found if contains(each.ranges, cell.sizes)]
        key = tuple((f"kernel.{name}", v) for each in covering for name, v in each.settings.items())
        together = [p for p in tuned if p.sizes == cell.sizes]
        if any(
            all(p.times_ms[k] <= min(p.times_ms.values()) * (1 + TOLERANCE) for p in together)
            for k in (ORIGINAL, FOUR, EIGHT)
        ):
            assert all(p.times_ms[key] <= min(p.times_ms.values()) * (1 + TOLERANCE) for p in together)
        else:
            assert covering == []
    assert not any(overlap(a.ranges, b.ranges) for a, b in combinations(found, 2))
    for each in found:
        for axis, (low, high) in enumerate(each.ranges):
            assert min(p.sizes[axis] for p in tuned) <= low <= high <= max(p.sizes[axis] for p in tuned)
    assert bands(list(reversed(tuned)), axes) == found


@settings(max_examples=200, deadline=None)
@given(landscapes())
def test_no_table_has_fewer_bands(landscape: tuple[tuple[Axis, ...], list[Point]]) -> None:
    axes, tuned = landscape
    assert len(bands(tuned, axes)) == fewest(cells_of(tuned), axes)


@settings(max_examples=100, deadline=None)
@given(landscapes())
def test_no_band_mixes_covering_blocks_that_were_not_all_tuned(
    landscape: tuple[tuple[Axis, ...], list[Point]],
) -> None:
    axes, tuned = landscape
    for each in bands(tuned, axes):
        for index, axis in enumerate(axes):
            inside = {axis.block(p.sizes[index]) for p in tuned if contains(each.ranges, p.sizes)}
            low, high = (axis.block(size) for size in each.ranges[index])
            assert {low << i for i in range(high.bit_length() - low.bit_length() + 1)} <= inside


def fewest(cells: tuple[Cell, ...], axes: tuple[Axis, ...]) -> int:
    """By trying every way to group the cells that need a band."""
    needy = [cell for cell in cells if cell.needs_a_band]
    every = ([_around(group) for group in groups] for groups in partitions(needy))
    return min(
        len(boxes)
        for boxes in every
        if all(_valid(box, cells, axes) for box in boxes)
        if not any(overlap(a, b) for a, b in combinations(boxes, 2))
    )


def partitions(cells: list[Cell]) -> Iterator[list[list[Cell]]]:
    if not cells:
        yield []
        return
    first, *rest = cells
    for groups in partitions(rest):
        yield [[first], *groups]
        for index, group in enumerate(groups):
            yield [*groups[:index], [first, *group], *groups[index + 1 :]]


def _around(group: list[Cell]) -> Ranges:
    return tuple((min(sizes), max(sizes)) for sizes in zip(*(cell.sizes for cell in group), strict=True))


def _valid(box: Ranges, cells: tuple[Cell, ...], axes: tuple[Axis, ...]) -> bool:
    inside = [cell for cell in cells if contains(box, cell.sizes)]
    for index, axis in enumerate(axes):
        exponents = {int(math.log2(axis.block(cell.sizes[index]))) for cell in inside}
        if exponents != set(range(min(exponents), max(exponents) + 1)):
            return False
    return bool(frozenset.intersection(*(cell.acceptable for cell in inside)))
