"""The figures: what their axes say and what is drawn, read from the Figure objects."""

from __future__ import annotations

import measured_fixtures as measured
import pytest
import report_fixtures as run
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from warpsmith.contracts.case import Mode
from warpsmith.report.plots import VERMILLION, memory_figure, speed_figure, speedup_figure

CAPTION = "rms_norm, measured on NVIDIA H200, 2026-11-29"
INTERVAL = "median and 95% interval"
MODES = ["forward", "backward", "full"]
SIZES = ["2048×2048", "8192×4096", "8192×8192", "4096×16384", "32768×2048"]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def x_labels(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_speed_has_a_panel_a_mode_and_a_line_a_provider() -> None:
    figure = speed_figure(run.provider_rows(), CAPTION)

    assert titles(figure) == MODES
    assert figure.axes[0].get_ylabel() == "time (µs), lower is better"
    assert legend(figure) == ["original", "optimized", "liger", "torch", "torch_compile"]
    assert figure.get_supxlabel() == CAPTION


@pytest.mark.parametrize("modes", [[Mode.FORWARD], list(Mode)])
def test_a_caption_fits_under_its_figure_however_few_panels_there_are(modes: list[Mode]) -> None:
    caption = f"rms_norm, recorded on NVIDIA RTX PRO 6000 Blackwell Server Edition, 2026-11-29; L2 cold; {INTERVAL}"
    rows = [row for row in run.provider_rows() if row.mode in modes]
    figures = (
        speed_figure(rows, caption),
        memory_figure(rows, caption),
        speedup_figure(run.case_speedups(modes=modes), caption),
    )
    for figure in figures:
        FigureCanvasAgg(figure).draw()
        shown = figure._supxlabel.get_window_extent()
        assert shown.x0 >= 0 and shown.x1 <= figure.bbox.x1 and shown.y0 >= 0
        assert " ".join(figure.get_supxlabel().split()) == caption


def test_speed_runs_along_the_tuning_cases_alone() -> None:
    axes = speed_figure(run.provider_rows(), CAPTION).axes[1]

    assert x_labels(axes) == SIZES
    assert axes.get_xlabel() == "case (bf16)"


def test_speed_is_drawn_in_microseconds_on_a_logarithmic_axis() -> None:
    axes = speed_figure(run.provider_rows(), CAPTION).axes[1]
    original = axes.containers[0]

    assert list(original[0].get_ydata()) == pytest.approx([14.2, 93.7, 121.3, 124.2, 170.4])
    assert axes.get_yscale() == "log"
    assert original.has_yerr


def test_the_ceiling_stands_last_in_the_legend() -> None:
    least = {(measured.TUNING[0].name, Mode.FORWARD): 0.005}

    assert legend(speed_figure(run.provider_rows(), CAPTION, least))[-1] == "at the ceiling"


def test_a_provider_looks_the_same_in_speed_and_memory() -> None:
    speed = speed_figure(run.provider_rows(), CAPTION).axes[0]
    memory = memory_figure(run.provider_rows(), CAPTION).axes[0]

    lines = {c.get_label(): c[0].get_color() for c in speed.containers}
    bars = {c.get_label(): c.patches[0].get_facecolor() for c in memory.containers}
    assert {name: to_rgba(colour) for name, colour in lines.items()} == bars


def test_memory_is_drawn_in_mebibytes_from_zero() -> None:
    axes = memory_figure(run.provider_rows(), CAPTION).axes[0]

    assert axes.get_ylabel() == "peak memory above inputs (MiB)"
    assert [bar.get_height() for bar in axes.containers[0]] == [8, 64, 128, 128, 128]
    assert axes.get_ylim()[0] == 0


def test_speedups_tell_tuning_from_held_out_and_show_the_noise() -> None:
    figure = speedup_figure(run.case_speedups(), CAPTION, 0.0012)

    assert titles(figure) == MODES
    assert legend(figure) == ["tuning", "held-out", "noise floor of the goal, ±0.12%"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["speed-up over the original"] * 3
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][-1] == "4096×4096 bf16 layout=row_strided"


def test_every_mode_is_drawn_on_the_same_scale_so_that_noise_does_not_look_like_a_gain() -> None:
    limits = {axes.get_xlim() for axes in speedup_figure(run.case_speedups(), CAPTION).axes}

    assert len(limits) == 1


def test_speedup_bars_start_at_one() -> None:
    axes = speedup_figure(run.case_speedups(modes=[Mode.BACKWARD]), CAPTION).axes[0]
    bar = axes.containers[1].patches[0]

    assert bar.get_x() == 1
    assert bar.get_x() + bar.get_width() == pytest.approx(14.2 / 11.9)


def test_a_regression_has_a_colour_of_its_own() -> None:
    first, *rest = run.case_speedups(modes=[Mode.FORWARD])
    figure = speedup_figure([first.model_copy(update={"regressed": True}), *rest], CAPTION)

    assert legend(figure) == ["tuning", "held-out", "regressed"]
    colours = {text.get_text(): handle.get_facecolor() for text, handle in _legend_entries(figure)}
    assert colours["regressed"] == to_rgba(VERMILLION)


def test_the_legend_names_what_only_a_later_panel_shows() -> None:
    cases = run.case_speedups(modes=[Mode.FORWARD, Mode.BACKWARD])
    regressed = cases[-1].model_copy(update={"regressed": True})

    assert "regressed" in legend(speedup_figure([*cases[:-1], regressed], CAPTION))


def _legend_entries(figure: Figure) -> list[tuple]:
    return list(zip(figure.legends[0].get_texts(), figure.legends[0].legend_handles, strict=True))


def test_a_figure_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        speed_figure((), CAPTION)
