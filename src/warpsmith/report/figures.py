"""Draws figures and saves them as PNG and SVG, byte for byte the same for the same figures.

Owns file formats and names; the caller says in which folder.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from warpsmith.contracts.bench import BenchResult
from warpsmith.contracts.case import Role
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.profile import Profile
from warpsmith.report.bench_rows import plotted
from warpsmith.report.context import Plot
from warpsmith.report.plots import memory_figure, speed_figure
from warpsmith.report.quantities import origin_told
from warpsmith.report.sweep_plot import sweep_figure
from warpsmith.report.sweep_view import SweepView
from warpsmith.workspace.documents import write_bytes

PNG_DPI = 200


def save_bench_plots(folder: Path, result: BenchResult) -> tuple[Plot, ...]:
    """Time with L2 cold and warm, and peak memory, for what there is data for: speed, speed_warm, memory.

    At the tuning cases, or at the held-out ones where no tuning case was asked for.
    """
    told = f"{result.kernel}, {origin_told(result.origin, result.device)}"
    role = Role.TUNING if any(row.role is Role.TUNING for row in result.rows) else Role.HELD_OUT
    plots = []
    for l2, stem in ((L2.COLD, "speed"), (L2.WARM, "speed_warm")):
        if any(row.role is role for row in plotted(result.rows, l2)):
            caption = f"{told}; L2 {l2.value}; median and 95% interval"
            figure = speed_figure(plotted(result.rows, l2), caption, role=role)
            plots.append(save(figure, folder, stem, f"Time of {result.kernel}, L2 {l2.value}, by case and mode"))
    known = [row for row in result.rows if row.role is role and row.peak_bytes is not None and row.method is not None]
    if known:
        figure = memory_figure(plotted(known, known[0].l2), told, role)
        plots.append(save(figure, folder, "memory", f"Peak memory of {result.kernel}, by case and mode"))
    return tuple(plots)


def save_sweep_plot(folder: Path, view: SweepView, stem: str, profile: Profile) -> Plot:
    """The times of one sweep by its knobs."""
    name, mode = view.function.jit_function, view.function.mode.value
    caption = f"{profile.kernel}, {name}, {mode}; {origin_told(profile.origin, profile.device)}"
    title = f"Times of {name} in {mode} by its settings"
    return save(sweep_figure(view, caption), folder, stem, title)


def save(figure: Figure, folder: Path, stem: str, title: str) -> Plot:
    """One figure as <stem>.png and <stem>.svg in the folder, with no dates, versions or random ids in the files.

    The folder is made where it is missing. Text in the SVG stays text, so that it can be searched and edited.
    """
    plot = Plot(title=title, png=folder / f"{stem}.png", svg=folder / f"{stem}.svg")
    FigureCanvasAgg(figure)
    fonts = ["DejaVu Sans", "Verdana", "sans-serif"]
    with matplotlib.rc_context({"svg.hashsalt": "warpsmith", "svg.fonttype": "none", "font.sans-serif": fonts}):
        _write(figure, plot.png, dpi=PNG_DPI, metadata={"Software": None})
        _write(figure, plot.svg, metadata={"Date": None, "Creator": None})
    return plot


def _write(figure: Figure, path: Path, **options: Any) -> None:
    """Drawn in memory, so that a full disk or a kill leaves no half of a figure. Raises Unavailable."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix("."), **options)
    write_bytes(path, drawn.getvalue())
