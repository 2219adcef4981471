"""A row for each launch, its counters in their units."""

from __future__ import annotations

import profile_fixtures as profiles

from warpsmith.report.counter_view import COUNTER_COLUMNS, counter_lines


def test_a_call_of_two_launches_has_two_rows() -> None:
    lines = counter_lines(profiles.profile())

    assert [(line.mode.value, line.kernel, line.grid) for line in lines] == [
        ("forward", "_rms_norm_forward_kernel", "8192"),
        ("backward", "_rms_norm_backward_kernel", "132"),
        ("backward", "reduce_kernel<sum_functor>", "16"),
    ]


def test_a_counter_is_in_its_unit_and_a_missing_one_a_dash() -> None:
    (forward, *_) = counter_lines(profiles.profile())
    told = dict(zip((title for _, title, _ in COUNTER_COLUMNS), forward.cells, strict=True))

    assert (told["duration"], told["read"], told["DRAM"]) == ("34.56 µs", "63.9 MiB", "3328 GB/s")
    assert (told["SM of peak"], told["registers"], told["L2 hits"]) == ("36.1%", "40", "–")
