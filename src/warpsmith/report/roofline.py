"""The roofline plot of a profile: each case and mode against the ceilings.

Left the classical roofline (Williams, Waterman and Patterson, 2009): operations a byte against operations a second.
Kernels that are bound by memory stand at one place there, so on the right is how fast they move their bytes against how
many there are, below the copy ceiling measured at that footprint. Colour is the mode, shape is the case; colours are
Okabe and Ito's. Owns what is drawn; must not know where the folder lies.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Profile
from warpsmith.report import quantities
from warpsmith.report.device_view import ceilings_origin
from warpsmith.report.figures import save
from warpsmith.report.plots import CAPTION_LETTERS, GREY
from warpsmith.report.roofline_axes import (
    DPI,
    HEIGHT,
    LEAST_WIDTH,
    MODE_COLOURS,
    WIDTHS,
    OperationsFrame,
    bandwidth_frame,
    draw_mark,
    legend_entry,
    looks,
    mark_legend,
)
from warpsmith.report.roofline_panels import Mark, Panel, marks, roofline_panels

STEM = "roofline"
COUNTED = "by counted bytes"

#: Draws one panel.
Drawing = Callable[[Axes], None]


def save_roofline(profile: Profile, directory: Path) -> Path | None:
    """Draws roofline.png (and .svg) into `directory`, which is made where it is missing. Returns the PNG's path.

    None where nothing can be drawn: no ceilings, or no case of which both work and ceiling are known.
    """
    figure = roofline_figure(profile)
    if figure is None:
        return None
    return save(figure, directory, STEM, f"Roofline of {profile.kernel}, by case and mode").png


def roofline_figure(profile: Profile) -> Figure | None:
    """The plot, a panel for each view that there is data for; None where there is none."""
    panels = roofline_panels(profile)
    if not panels:
        return None
    found = marks(profile)
    drawings: dict[Panel, Drawing] = {
        Panel.OPERATIONS: lambda axes: _operations(axes, profile, found),
        Panel.BANDWIDTH: lambda axes: _bandwidth(axes, profile, found),
    }
    figure = framed({panel: drawings[panel] for panel in panels}, _caption(profile, panels))
    counted = Panel.BANDWIDTH in panels and any(mark.headroom.counted_bytes for mark in found)
    mark_legend(figure, found, [legend_entry(COUNTED, GREY, "o", "none")] if counted else [])
    return figure


def framed(drawings: Mapping[Panel, Drawing], caption: str) -> Figure:
    """A figure with the panels side by side and its caption below on as many lines as fit."""
    width = max(LEAST_WIDTH, sum(WIDTHS[panel] for panel in drawings))
    figure = Figure(figsize=(width, HEIGHT), layout="constrained", dpi=DPI)
    grid = figure.subplots(1, len(drawings), squeeze=False, width_ratios=[WIDTHS[panel] for panel in drawings])
    for axes, draw in zip(grid[0], drawings.values(), strict=True):
        axes.tick_params(labelsize=7.5, length=2.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#E3E3E3", linewidth=0.6)
        axes.set_axisbelow(True)
        draw(axes)
    letters = int(CAPTION_LETTERS * width)
    figure.supxlabel(textwrap.fill(caption, letters, break_on_hyphens=False), fontsize=7, color=GREY)
    return figure


def _caption(profile: Profile, panels: Sequence[Panel]) -> str:
    origin, ceilings = quantities.origin_told(profile.origin, profile.device), ceilings_origin(profile)
    parts = [f"{profile.kernel}, {origin}", *([] if ceilings == origin else [f"ceilings: {ceilings}"])]
    if profile.is_predicted:
        parts.append("hollow: the most that the ceilings allow, nothing was run")
    else:
        parts.append("bytes and operations are the least possible, times are medians")
    if Panel.BANDWIDTH in panels:
        parts.append("per cent: the case of each mode with most left to win")
    return "; ".join(parts)


def _operations(axes: Axes, profile: Profile, found: Sequence[Mark]) -> None:
    """The roofs, and each mark at its intensity; not timed, it is a line up to the roof that it can reach."""
    frame, look_of = OperationsFrame.of(profile.device, found), looks(found)
    for mark in found:
        if not (x := mark.intensity):
            continue
        look = look_of[mark]
        if mark.tflops:
            draw_mark(axes, (x, mark.tflops), look)
        else:
            most = min(frame.tb_s * x, frame.highest)
            axes.vlines(x, frame.bottom, most, colors=look.colour, linestyles=":", linewidth=1.2, zorder=3)
            draw_mark(axes, (x, most), look, hollow=True)
    frame.draw(axes)
    axes.set_title("Operations: the roofline", fontsize=9, fontweight="bold")


def _bandwidth(axes: Axes, profile: Profile, found: Sequence[Mark]) -> None:
    """Bytes a second against bytes, with a line from each mark up to the copy ceiling: what is left to win."""
    look_of = looks(found)
    bound = [m for m in found if m.headroom.bound == "copy" and m.tb_s]
    bandwidth_frame(axes, profile.device, bound)
    x_of = {m: m.headroom.least_bytes / 2**20 for m in bound}
    for mark in bound:
        look, height = look_of[mark], mark.tb_s or 0.0
        at_ceiling = height / mark.headroom.share if mark.headroom.share else height
        axes.vlines(x_of[mark], height, at_ceiling, colors=look.colour, linewidth=0.9, alpha=0.45, zorder=3)
        if mark.counted_tb_s and mark.headroom.counted_bytes:
            draw_mark(axes, (mark.headroom.counted_bytes / 2**20, mark.counted_tb_s), look, hollow=True)
        draw_mark(axes, (x_of[mark], height), look)
    _name_the_worst(axes, bound, x_of)
    axes.set_title("Bandwidth: what is left below the copy ceiling", fontsize=9, fontweight="bold")


def _name_the_worst(axes: Axes, bound: Sequence[Mark], x_of: Mapping[Mark, float]) -> None:
    """The share of the ceiling at the case of each mode that has most headroom."""
    for mode in Mode:
        here = [m for m in bound if m.mode is mode and m.headroom.share and m.headroom.headroom_us]
        if here:
            worst = max(here, key=lambda m: m.headroom.weight * (m.headroom.headroom_us or 0.0))
            axes.annotate(
                f"{100 * (worst.headroom.share or 0.0):.0f}%", (x_of[worst], worst.tb_s or 0.0), xytext=(6, -9),
                textcoords="offset points", fontsize=7.5, color=MODE_COLOURS[mode], fontweight="bold",
            )  # fmt: skip
