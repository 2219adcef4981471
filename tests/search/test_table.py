"""The smallest table that is as good as the best everywhere it was tuned."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warpsmith.search.table import TOLERANCE, Key, Point, bands, narrowed
from warpsmith.source.table import Band, SettingsTable

FOUR: Key = (("kernel.num_warps", 4),)
EIGHT: Key = (("kernel.num_warps", 8),)
ORIGINAL: Key = ()


def point(width: int, rows: int, *, original: float = 2.0, four: float = 1.5, eight: float = 1.5) -> Point:
    return Point(width, rows, {ORIGINAL: original, FOUR: four, EIGHT: eight})


def band(width: tuple[int, int], rows: tuple[int, int], num_warps: int) -> Band:
    return Band(ranges=(width, rows), settings={"num_warps": num_warps})


def test_settings_that_are_best_everywhere_make_one_band_over_the_hull() -> None:
    tuned = [point(2048, 1024, four=1.0), point(4096, 8192, four=1.0), point(8192, 4096, four=1.0)]
    assert bands(tuned) == (band((2048, 8192), (1024, 8192), 4),)


def test_settings_within_the_tolerance_of_the_best_are_shared_and_beyond_it_are_not() -> None:
    shared = [point(2048, 1024, four=1.0), point(2048, 4096, four=1.009, eight=1.0)]
    assert bands(shared) == (band((2048, 2048), (1024, 4096), 4),)

    apart = [point(2048, 1024, four=1.0), point(2048, 4096, four=1.011, eight=1.0)]
    assert bands(apart) == (band((2048, 2048), (1024, 2048), 4), band((2048, 2048), (2049, 4096), 8))


def test_of_shared_settings_the_fastest_over_all_points_is_taken() -> None:
    tuned = [point(2048, 1024, four=1.0, eight=1.005), point(2048, 4096, four=1.001, eight=1.0)]
    assert bands(tuned) == (band((2048, 2048), (1024, 4096), 4),)


def test_the_original_is_kept_wherever_it_is_as_good_as_the_best() -> None:
    assert bands([point(2048, 1024, original=1.009, four=1.0), point(4096, 1024, original=1.0)]) == ()


def test_a_width_where_the_original_is_as_good_leaves_a_hole_in_the_table() -> None:
    tuned = [point(2048, 64, four=1.0), point(4096, 64, original=1.0), point(8192, 64, four=1.0)]
    assert bands(tuned) == (band((2048, 2048), (64, 64), 4), band((4097, 8192), (64, 64), 4))


def test_rows_are_split_at_the_geometric_mean_of_the_neighbours() -> None:
    tuned = [point(4096, 1024, four=1.0), point(4096, 16384, eight=1.0)]
    assert bands(tuned) == (band((4096, 4096), (1024, 4096), 4), band((4096, 4096), (4097, 16384), 8))


def test_widths_with_the_same_stretches_are_merged_and_others_are_not() -> None:
    tuned = [point(1024, 64, four=1.0), point(2048, 64, four=1.0), point(4096, 64, eight=1.0)]
    assert bands(tuned) == (band((1024, 2048), (64, 64), 4), band((2049, 4096), (64, 64), 8))


def test_a_power_of_two_that_was_not_tuned_has_no_band() -> None:
    tuned = [point(1024, 64, four=1.0), point(4096, 64, four=1.0)]
    assert bands(tuned) == (band((1024, 1024), (64, 64), 4), band((2049, 4096), (64, 64), 4))


def test_widths_within_one_power_of_two_are_told_apart_by_their_rows_alone() -> None:
    """The wider row has fewer rows: a band of few rows must be the wider one's."""
    tuned = [point(5120, 8192, four=1.0), point(8192, 2048, eight=1.0)]
    assert bands(tuned) == (band((5120, 8192), (2048, 4096), 8), band((5120, 8192), (4097, 8192), 4))


def test_shapes_that_the_key_cannot_tell_apart_and_that_disagree_keep_the_original() -> None:
    assert bands([point(5120, 64, four=1.0), point(8192, 64, eight=1.0)]) == ()


def test_narrowing_removes_the_bands_that_cover_the_shape_and_no_other() -> None:
    table = SettingsTable(
        jit_function="kernel",
        host_function="host",
        capability=(9, 0),
        sm_count=132,
        itemsize=2,
        tensor="x",
        axes=("n_cols", "n_rows"),
        bands=(band((1024, 2048), (64, 64), 4), band((2049, 4096), (64, 128), 8)),
    )
    assert narrowed(table, 4096, 128).bands == table.bands[:1]
    assert narrowed(table, 2048, 128) == table


TIMES = st.floats(min_value=1.0, max_value=1.5)
POINTS = st.lists(
    st.builds(
        lambda width, rows, times: point(width, rows, original=times[0], four=times[1], eight=times[2]),
        st.sampled_from([1000, 1024, 3000, 4096, 8000, 8192]),
        st.integers(1, 100_000),
        st.tuples(TIMES, TIMES, TIMES),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda p: p.rows,
)


@given(POINTS)
def test_every_tuned_shape_gets_settings_within_the_tolerance_of_its_best_and_no_band_leaves_the_hull(
    tuned: list[Point],
) -> None:
    table = bands(tuned)
    for each in tuned:
        covering = [
            b
            for b in table
            if all(low <= size <= high for size, (low, high) in zip((each.width, each.rows), b.ranges, strict=True))
        ]
        assert len(covering) <= 1
        key = tuple((f"kernel.{name}", v) for b in covering for name, v in b.settings.items())
        assert each.times_ms[key] <= min(each.times_ms.values()) * (1 + TOLERANCE)
    for b in table:
        (narrowest, widest), (fewest, most) = b.ranges
        assert min(p.width for p in tuned) <= narrowest <= widest <= max(p.width for p in tuned)
        assert min(p.rows for p in tuned) <= fewest <= most <= max(p.rows for p in tuned)
