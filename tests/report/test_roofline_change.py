"""The roofline before and after: two marks a case and mode, read from the Figure object."""

from __future__ import annotations

import measured_fixtures as measured
import profile_fixtures as profiles
import pytest
import report_fixtures as run
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from warpsmith.contracts.case import Mode
from warpsmith.report.roofline_change import moves, roofline_change_figure


def drawn() -> Figure:
    figure = roofline_change_figure(profiles.profile(), run.case_speedups())
    assert figure is not None
    return figure


def points(figure: Figure, axes: int, *, hollow: bool) -> list[tuple[float, float]]:
    found = (c for c in figure.axes[axes].collections if isinstance(c, PathCollection))
    return [tuple(c.get_offsets()[0]) for c in found if (len(c.get_facecolor()) == 0) is hollow]


def test_each_case_and_mode_stands_where_it_was_and_where_it_is() -> None:
    figure = drawn()

    for axes in (0, 1):
        assert len(points(figure, axes, hollow=True)) == len(points(figure, axes, hollow=False)) == 15
    # backward at 2048²: 3 · 2048² · 2 bytes, 14.2 µs before and 11.9 µs after
    place = next(index for index, move in enumerate(moves(profiles.profile(), run.case_speedups()))
             if move.before.mode is Mode.BACKWARD)  # fmt: skip
    before, after = points(figure, 1, hollow=True)[place], points(figure, 1, hollow=False)[place]
    assert before[0] == after[0] == pytest.approx(24.0)
    assert (before[1], after[1]) == pytest.approx((24 * 2**20 / 14.2e6, 24 * 2**20 / 11.9e6))


def test_the_case_that_gained_most_is_named_with_both_shares() -> None:
    told = [text.get_text() for text in drawn().axes[1].texts if "→" in text.get_text()]

    assert [line.partition(":")[0] for line in told] == ["forward", "backward", "full"]
    assert told[1] == "backward: 57% → 100%, 32768×2048 bf16"


def test_shares_are_of_the_fresh_times_and_no_count_is_taken_over() -> None:
    move = moves(profiles.profile(), run.case_speedups())[0]

    assert move.before.headroom.time_ms == pytest.approx(0.0061)
    assert move.after.headroom.share == pytest.approx(move.after.headroom.least_ms / 0.00608)
    assert move.before.counted_tb_s is None


def test_marks_of_before_and_after_are_explained_with_gpu_and_date() -> None:
    figure = drawn()

    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"original", "optimized", "forward", "backward", "full"} < set(shown)
    assert figure.get_supxlabel().startswith("rms_norm, measured on NVIDIA H200, 2026-11-29;")
    FigureCanvasAgg(figure).draw()
    for box in (figure.legends[0].get_window_extent(), figure._supxlabel.get_window_extent()):
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1


def test_nothing_is_drawn_without_a_fresh_measurement_or_a_ceiling() -> None:
    no_ceiling = profiles.profile(device=measured.device().model_copy(update={"copy_ceilings": ()}))

    assert roofline_change_figure(profiles.profile(), ()) is None
    assert roofline_change_figure(no_ceiling, run.case_speedups()) is None
