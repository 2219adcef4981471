"""The picture of a sweep: a heat map of the two knobs that matter most, or lines where there is one.

Colours are of cividis, made for colour-blind readers (Nunez et al. 2018, doi.org/10.1371/journal.pone.0199239). Owns
what is drawn; which figures, `sweep_view` says.
"""

from __future__ import annotations

import math
import textwrap

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from warpsmith.report.plots import BLACK, BLUE, CAPTION_LETTERS, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from warpsmith.report.quantities import case_label, time
from warpsmith.report.sweep_view import CasePanel, SweepView

#: Chosen: from here on slower is slow; the colours are for what lies near the best.
SLOWEST_SHOWN = 3.0
COLUMNS = 3
NOTHING = "#EDEDED"
NOT_RUN, NOT_TRIED = "did not run or compile", "not tried"
ORIGINAL_MARK, WINNER_MARK = "original", "fastest measured"
_LINES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PURPLE, "D"), (SKY, "v"), (BLACK, "P"))


def sweep_figure(view: SweepView, caption: str) -> Figure:
    """One panel a case, the heaviest first; with a single knob, one line a case."""
    return _heat_maps(view, caption) if len(view.knobs) > 1 else _lines(view, caption)


def _heat_maps(view: SweepView, caption: str) -> Figure:
    count = len(view.panels)
    columns, rows = min(COLUMNS, count), math.ceil(count / COLUMNS)
    (across, across_values), (up, up_values) = view.knobs
    width, height = 0.7 + 0.35 * len(across_values), 0.75 + 0.36 * len(up_values)
    figure = Figure(figsize=(max(5.6, columns * width + 1.1), rows * height + 1.15), layout="constrained", dpi=100)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    slowest = max(float(np.nanmax(panel.relative)) for panel in view.panels)
    most = min(SLOWEST_SHOWN, max(1.05, slowest))
    norm = LogNorm(1.0, most, clip=True)
    for axes, panel in zip(grid.flat, view.panels, strict=False):
        _heat_map(axes, panel, norm)
        axes.set_xticks(range(len(across_values)), [str(v) for v in across_values], fontsize=7.5)
        axes.set_yticks(range(len(up_values)), [str(v) for v in up_values], fontsize=7.5)
    for axes in list(grid.flat)[count:]:
        axes.set_visible(False)
    for index in range(columns):
        lowest = (count - 1 - index) // columns
        grid[lowest, index].set_xlabel(_name(across), fontsize=8)
        grid[lowest, index].tick_params(labelbottom=True)
    for line in grid:
        line[0].set_ylabel(_name(up), fontsize=8)
    bar = figure.colorbar(ScalarMappable(norm, colormaps["cividis_r"]), ax=grid, shrink=0.9, pad=0.02)
    bar.set_label("time over the best of the case", fontsize=8)
    ticks = [t for t in (1, 1.1, 1.2, 1.5, 2, 3) if t <= most]
    bar.ax.yaxis.set_major_locator(FixedLocator(ticks))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}×{' or more' if v == SLOWEST_SHOWN else ''}"))
    bar.ax.tick_params(labelsize=7)
    _finish(figure, view, caption)
    return figure


def _heat_map(axes: Axes, panel: CasePanel, norm: LogNorm) -> None:
    """The cells with their figures; the marks stand in the corners of a cell, so that they hide neither it nor each
    other."""
    rows, columns = panel.relative.shape
    axes.set_facecolor(NOTHING)
    for row, column in np.argwhere(panel.refused):
        axes.add_patch(_hatched((column, row)))
    shown = np.ma.masked_invalid(panel.relative)
    axes.imshow(shown, cmap="cividis_r", norm=norm, aspect="auto", origin="lower", zorder=2)
    for (row, column), value in np.ndenumerate(panel.relative):
        if not np.isnan(value):
            light = norm(value) < 0.5
            axes.text(column, row - 0.16, f"{value:.2f}", ha="center", va="center", fontsize=6.5, zorder=4,
                      color=BLACK if light else "white")  # fmt: skip
    for mark, place, side in ((_original_mark, panel.original, -0.24), (_winner_mark, panel.winner, 0.24)):
        if place is not None:
            axes.add_line(mark([place[0] + side], [place[1] + 0.25]))
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.0)
    axes.set_axisbelow(False)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(-0.5, rows - 0.5)
    axes.set_title(_title(panel), fontsize=7.5)


def _lines(view: SweepView, caption: str) -> Figure:
    ((knob, values),) = view.knobs
    figure = Figure(figsize=(5.6, 3.6), layout="constrained", dpi=100)
    axes = figure.subplots()
    for panel, (colour, marker) in zip(view.panels, _LINES, strict=False):
        relative = panel.relative[0]
        axes.plot(range(len(values)), relative, color=colour, marker=marker, markersize=4, linewidth=1.2,
                  label=_title(panel), zorder=3)  # fmt: skip
        for mark, place in ((_original_mark, panel.original), (_winner_mark, panel.winner)):
            if place is not None and not np.isnan(relative[place[0]]):
                axes.add_line(mark([place[0]], [float(relative[place[0]])]))
    axes.set_xticks(range(len(values)), [str(v) for v in values], fontsize=7.5)
    axes.set_xlabel(_name(knob), fontsize=8)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator([1, 1.1, 1.2, 1.5, 2, 3, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("time over the best of the case", fontsize=8)
    axes.tick_params(labelsize=7.5, length=2.5)
    axes.grid(axis="y", color="#E3E3E3", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    _finish(figure, view, caption)
    return figure


def _finish(figure: Figure, view: SweepView, caption: str) -> None:
    entries: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if any(panel.original is not None for panel in view.panels):
        entries[ORIGINAL_MARK] = _original_mark([], [])
    if any(panel.winner is not None for panel in view.panels):
        entries[WINNER_MARK] = _winner_mark([], [])
    if len(view.knobs) > 1 and any(panel.refused.any() for panel in view.panels):
        entries[NOT_RUN] = Patch(facecolor=NOTHING, edgecolor=GREY, hatch="////", linewidth=0)
    if len(view.knobs) > 1 and any((np.isnan(panel.relative) & ~panel.refused).any() for panel in view.panels):
        entries[NOT_TRIED] = Patch(facecolor=NOTHING, linewidth=0)
    figure.legend(
        list(entries.values()), list(entries), loc="outside upper center", ncols=3, fontsize=7.5, frameon=False
    )
    more = (
        [f"each cell with the best of {', '.join(map(_name, view.others))} that was tried there"] if view.others else []
    )
    more += [f"{view.left_out} lighter cases not shown"] if view.left_out else []
    letters = int(CAPTION_LETTERS * figure.get_figwidth())
    told = textwrap.fill("; ".join([caption, *more]), letters, break_on_hyphens=False)
    figure.supxlabel(told, fontsize=7, color=GREY)


def _title(panel: CasePanel) -> str:
    over = "" if panel.original_ms is None else f"; original {panel.original_ms / panel.best_ms:.2f}×"
    return f"{case_label(panel.case)}\nbest {time(panel.best_ms)}{over}"


def _name(knob: str) -> str:
    return knob.rpartition(".")[2]


def _hatched(cell: tuple[int, int]) -> Patch:
    return Rectangle(
        (cell[0] - 0.5, cell[1] - 0.5), 1, 1, facecolor="none", edgecolor=GREY, hatch="////", linewidth=0, zorder=1
    )


def _original_mark(x: list[float], y: list[float]) -> Line2D:
    return Line2D(x, y, linestyle="", marker="o", markersize=5, markerfacecolor="white", markeredgecolor=BLACK,
                  markeredgewidth=1.2, zorder=6)  # fmt: skip


def _winner_mark(x: list[float], y: list[float]) -> Line2D:
    return Line2D(x, y, linestyle="", marker="*", markersize=8, markerfacecolor=VERMILLION, markeredgecolor="white",
                  markeredgewidth=0.6, zorder=7)  # fmt: skip
