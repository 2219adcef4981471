"""The progress of a search: what stands where, read from the Figure object."""

from __future__ import annotations

import itertools

import pytest
import report_fixtures as run
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.case import Mode
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import Interval, Outcome
from warpsmith.report.progress_plot import BEST, LOOKS, Progress, best_so_far, progress_figure

CAPTION = "rms_norm, measured on NVIDIA H200, 2026-11-29; trimmed mean over rounds and 95% interval"
AFRESH = Interval(value=1.305, low=1.299, high=1.311)


def drawn(**changes: object) -> Figure:
    given: dict[str, object] = {"variants": run.variants(), "goal": Mode.FULL, "confirmation": AFRESH} | changes
    figure = progress_figure(Progress(**given), CAPTION)  # type: ignore[arg-type]
    assert figure is not None
    return figure


def judged(outcome: Outcome, value: float, number: int) -> Variant:
    verdict = run.accepted().model_copy(
        update={"outcome": outcome, "goal": Interval(value=value, low=value - 0.005, high=value + 0.005)}
    )
    return run.variants()[0].model_copy(update={"number": number, "verdict": verdict})


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_best_so_far_rises_with_what_was_accepted_alone() -> None:
    outcomes = [
        (Outcome.REJECTED, 1.4), (Outcome.ACCEPTED, 1.1), (Outcome.INCONCLUSIVE, 1.2), (Outcome.ACCEPTED, 1.3),
    ]  # fmt: skip
    variants = [judged(outcome, value, number) for number, (outcome, value) in enumerate(outcomes, start=1)]
    assert best_so_far(variants) == (1.0, 1.1, 1.1, 1.3)

    (line,) = (line for line in drawn(variants=tuple(variants)).axes[0].lines if line.get_label() == BEST)
    assert list(line.get_ydata()) == [1.0, 1.0, 1.1, 1.1, 1.3]


def test_every_variant_has_a_mark_of_its_verdict_with_its_interval() -> None:
    variants = tuple(judged(outcome, 1.1, index) for index, outcome in enumerate(Outcome, start=1))
    marks = {c.get_label(): c for c in drawn(variants=variants).axes[0].containers}

    assert {outcome.value for outcome in Outcome} < set(marks)
    for outcome, (colour, marker) in LOOKS.items():
        line, _, (bars,) = marks[outcome.value]
        assert (to_rgba(line.get_color()), line.get_marker()) == (to_rgba(colour), marker)
        low, high = (point[1] for point in bars.get_segments()[0])
        assert (low, high) == pytest.approx((1.095, 1.105))
    assert len({marker for _, marker in LOOKS.values()}) == len({colour for colour, _ in LOOKS.values()}) == len(LOOKS)


def test_what_was_not_measured_is_named_with_how_it_ended() -> None:
    figure = drawn()

    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels[3] == "v3\npipelined\nloop\n(compile failed)"
    assert "not measured" in legend(figure)
    assert [label.partition("\n")[0] for label in labels] == ["original", "v1", "v2", "v3", "measured"]


def test_the_confirmation_stands_last_and_only_where_there_was_one() -> None:
    found = {c.get_label(): c[0] for c in drawn().axes[0].containers}["measured afresh"]

    assert (list(found.get_xdata()), list(found.get_ydata())) == ([4], [1.305])
    assert "measured afresh" not in legend(drawn(confirmation=None))


def test_predictions_are_drawn_of_speed_alone() -> None:
    bars = [c for c in drawn().axes[0].collections if isinstance(c, LineCollection) and c.get_label() == "predicted"]
    ends = [tuple(point[1] for point in bar.get_segments()[0]) for bar in bars]
    assert ends[0] == (1.10, 1.45)

    memory = drawn(objective=Objective.MEMORY)
    assert "predicted" not in legend(memory)
    assert memory.axes[0].get_ylabel() == "peak memory, original over variant\nin full, higher is better"


def test_a_search_that_tried_nothing_has_no_progress() -> None:
    assert progress_figure(Progress(variants=(), goal=Mode.FULL), CAPTION) is None


@pytest.mark.parametrize("count", [1, 3, 12])
def test_labels_legend_and_caption_keep_off_each_other(count: int) -> None:
    variants = tuple(run.variants()[n % 3].model_copy(update={"number": n + 1}) for n in range(count))
    figure = drawn(variants=variants)
    FigureCanvasAgg(figure).draw()

    for shown in (figure.legends[0].get_window_extent(), figure._supxlabel.get_window_extent()):
        assert shown.x0 >= 0 and shown.x1 <= figure.bbox.x1 and shown.y0 >= 0 and shown.y1 <= figure.bbox.y1
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
