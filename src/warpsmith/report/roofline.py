"""The roofline plot of a profile: each case and mode against the ceilings.

Left the classical roofline (Williams, Waterman and Patterson, 2009): operations a byte against operations a second.
Kernels that are bound by memory stand at one place there, so on the right is how fast they move their bytes against how
many there are, below the copy ceiling measured at that footprint. Colour is the mode, shape is the case; colours are
Okabe and Ito's. Owns what is drawn; must not know where the folder lies.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from matplotlib.transforms import Affine2D

from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Profile
from warpsmith.diagnose.roofline import operand_ceiling
from warpsmith.report import quantities
from warpsmith.report.device_view import MEASURED, ceilings_origin
from warpsmith.report.figures import save
from warpsmith.report.plots import BLACK, BLUE, CAPTION_LETTERS, GREEN, GREY, VERMILLION
from warpsmith.report.roofline_panels import Mark, Panel, marks, roofline_panels

STEM = "roofline"
MODE_COLOURS = {Mode.FORWARD: BLUE, Mode.BACKWARD: VERMILLION, Mode.FULL: GREEN}
#: As many cases can be told apart; of more, shapes come again.
CASE_SHAPES = ("o", "s", "^", "D", "v", "P", "X", "p", "h", "<", ">", "*")
COUNTED = "by counted bytes"
#: Inches. A figure with one panel is not narrower than its legend needs.
WIDTHS, HEIGHT, LEAST_WIDTH = {Panel.OPERATIONS: 4.2, Panel.BANDWIDTH: 5.2}, 4.0, 6.4
#: Chosen: letters of a legend that fit an inch, and inches for a mark and the gap beside it.
LEGEND_LETTERS, LEGEND_MARK = 14, 0.42
DPI = 100
#: Points: a letter of a roof's name and its height, the largest mark with its edge, and how far above a roof its name
#: may stand, in the order of what is tried.
LABEL_LETTER, LABEL_HEIGHT, MARK_RADIUS, ROOF_LABELS = 4.2, 7.0, 6.0, (3, 8, 14, 20, 26)
#: Of a mark in points squared, smallest and largest footprint.
SIZES = (28.0, 75.0)


@dataclass(frozen=True)
class Look:
    """How a mark is drawn: colour of its mode, shape of its case, area (points squared) by its bytes."""

    colour: str
    shape: str
    size: float


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
    width = max(LEAST_WIDTH, sum(WIDTHS[panel] for panel in panels))
    figure = Figure(figsize=(width, HEIGHT), layout="constrained", dpi=DPI)
    grid = figure.subplots(1, len(panels), squeeze=False, width_ratios=[WIDTHS[panel] for panel in panels])
    found = marks(profile)
    for axes, panel in zip(grid[0], panels, strict=True):
        axes.tick_params(labelsize=7.5, length=2.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#E3E3E3", linewidth=0.6)
        axes.set_axisbelow(True)
        _PANELS[panel](axes, profile, found)
    _legend(figure, found, counted=Panel.BANDWIDTH in panels)
    letters = int(CAPTION_LETTERS * width)
    caption = textwrap.fill(_caption(profile, panels), letters, break_on_hyphens=False)
    figure.supxlabel(caption, fontsize=7, color=GREY)
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
    device, looks = profile.device, _looks(found)
    best = max(device.copy_ceilings, key=lambda ceiling: ceiling.footprint_bytes)
    tb_s, placed = best.gb_s / 1e3, [m for m in found if m.intensity]
    named = {m.headroom.operands for m in found}
    roofs = {dtype.short: tflops for dtype, tflops in device.matmul_tflops.items()}
    for operands in device.operand_tflops:
        if operands in named and (ceiling := operand_ceiling(operands, device)):
            roofs[operands] = ceiling.tflops
    intensities = [m.intensity or 0.0 for m in placed] + [tflops / tb_s for tflops in roofs.values()]
    left, right = min(intensities) / 4, max(intensities) * 4
    _roofs(axes, roofs, tb_s, (left, right), measured=device.ceilings_from == MEASURED)
    highest = max(roofs.values(), default=tb_s * right)
    heights = [m.tflops for m in placed if m.tflops]
    bottom = min([*heights, tb_s * left * 2]) / 2
    for mark in placed:
        x, look = mark.intensity or 0.0, looks[mark]
        if mark.tflops:
            _draw(axes, (x, mark.tflops), look)
        else:
            most = min(tb_s * x, highest)
            axes.vlines(x, bottom, most, colors=look.colour, linestyles=":", linewidth=1.2, zorder=3)
            _draw(axes, (x, most), look, hollow=True)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, highest * 3))
    _name_roofs(axes, roofs, right)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("arithmetic intensity (operations a byte)", fontsize=8)
    axes.set_ylabel("TFLOP/s, higher is better", fontsize=8.5)
    axes.set_title("Operations: the roofline", fontsize=9, fontweight="bold")


def _roofs(axes: Axes, roofs: Mapping[str, float], tb_s: float, ends: tuple[float, float], *, measured: bool) -> None:
    """The slope of the copy ceiling up to the highest roof, and a roof for each dtype from where it meets the slope."""
    style = "-" if measured else "--"
    top = max((tflops / tb_s for tflops in roofs.values()), default=ends[1])
    axes.plot([ends[0], top], [tb_s * ends[0], tb_s * top], color=GREY, linestyle=style, linewidth=1.3, zorder=2)
    upper = ends[0] ** 0.3 * top**0.7
    axes.annotate(
        f"{'copy' if measured else 'memory'} {tb_s:.2f} TB/s", (upper, tb_s * upper), xytext=(-4, 4),
        textcoords="offset points", ha="right", fontsize=7, color=BLACK,
    )  # fmt: skip
    for tflops, _ in _by_height(roofs):
        axes.plot([tflops / tb_s, ends[1]], [tflops, tflops], color=GREY, linestyle=style, linewidth=1.3, zorder=2)


def _name_roofs(axes: Axes, roofs: Mapping[str, float], right: float) -> None:
    """The name of each roof at its right end, above it by as much as keeps it off the marks that are drawn."""
    to_points = axes.transData + Affine2D().scale(72 / DPI)
    drawn = [np.asarray(each.get_offsets())[0] for each in axes.collections if isinstance(each, PathCollection)]
    marks = [to_points.transform(each) for each in drawn]
    for tflops, names in _by_height(roofs):
        label = f"{', '.join(names)} {tflops:.0f} TFLOP/s"
        end_x, roof_y = to_points.transform((right, tflops))
        beside = [y - roof_y for x, y in marks if x > end_x - LABEL_LETTER * len(label) - MARK_RADIUS]
        free = (up for up in ROOF_LABELS if not any(-MARK_RADIUS < y - up < LABEL_HEIGHT + MARK_RADIUS for y in beside))
        axes.annotate(
            label, (right, tflops), xytext=(-2, next(free, ROOF_LABELS[0])), textcoords="offset points", ha="right",
            fontsize=7, color=BLACK,
        )  # fmt: skip


def _by_height(roofs: Mapping[str, float]) -> list[tuple[float, list[str]]]:
    """Roofs within 5% of each other as one, at the higher: two lines could not be told apart."""
    merged: list[tuple[float, list[str]]] = []
    for name, tflops in sorted(roofs.items(), key=lambda roof: -roof[1]):
        if merged and tflops > 0.95 * merged[-1][0]:
            merged[-1][1].append(name)
        else:
            merged.append((tflops, [name]))
    return merged


def _bandwidth(axes: Axes, profile: Profile, found: Sequence[Mark]) -> None:
    """Bytes a second against bytes, with a line from each mark up to the copy ceiling: what is left to win."""
    looks = _looks(found)
    bound = [m for m in found if m.headroom.bound == "copy" and m.tb_s]
    ceilings = sorted(profile.device.copy_ceilings, key=lambda ceiling: ceiling.footprint_bytes)
    ceiling_mib = [c.footprint_bytes / 2**20 for c in ceilings]
    x_of = {m: m.headroom.least_bytes / 2**20 for m in bound}
    ends = min([*ceiling_mib, *x_of.values()]) / 1.5, max([*ceiling_mib, *x_of.values()]) * 1.5
    heights = [c.gb_s / 1e3 for c in ceilings]
    # As DeviceFacts.copy_ceiling_gb_s has it: straight between neighbours over the logarithm, level beyond the ends.
    axes.plot(
        [ends[0], *ceiling_mib, ends[1]], [heights[0], *heights, heights[-1]], color=GREY,
        linestyle="-" if profile.device.ceilings_from == MEASURED else "--", linewidth=1.3, zorder=2,
    )  # fmt: skip
    axes.annotate(
        "copy ceiling", (ends[1], heights[-1]), xytext=(-2, 4), textcoords="offset points", ha="right", fontsize=7
    )
    for mark in bound:
        look, height = looks[mark], mark.tb_s or 0.0
        at_ceiling = height / mark.headroom.share if mark.headroom.share else height
        axes.vlines(x_of[mark], height, at_ceiling, colors=look.colour, linewidth=0.9, alpha=0.45, zorder=3)
        if mark.counted_tb_s and mark.headroom.counted_bytes:
            _draw(axes, (mark.headroom.counted_bytes / 2**20, mark.counted_tb_s), look, hollow=True)
        _draw(axes, (x_of[mark], height), look)
    _name_the_worst(axes, bound, x_of)
    axes.set(xscale="log", xlim=ends, ylim=(0, 1.12 * max([*heights, *(m.tb_s or 0.0 for m in bound)])))
    _size_axis(axes, ends)
    axes.set_xlabel("bytes that a call must move at least", fontsize=8)
    axes.set_ylabel("achieved (TB/s), higher is better", fontsize=8.5)
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


def _size_axis(axes: Axes, ends: tuple[float, float]) -> None:
    """Ticks at powers of two of a MiB, every second one where there are many."""
    powers = [power for power in range(-20, 31) if ends[0] <= 2.0**power <= ends[1]]
    axes.xaxis.set_major_locator(FixedLocator([2.0**power for power in powers[:: 1 if len(powers) <= 8 else 2]]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda mib, _: quantities.size(mib * 2**20).replace(".0 ", " ")))
    axes.xaxis.set_minor_locator(NullLocator())


_PANELS = {Panel.OPERATIONS: _operations, Panel.BANDWIDTH: _bandwidth}


def _shapes(found: Iterable[Mark]) -> dict[str, str]:
    cases = dict.fromkeys(mark.headroom.case for mark in found)
    return {case: CASE_SHAPES[index % len(CASE_SHAPES)] for index, case in enumerate(cases)}


def _looks(found: Sequence[Mark]) -> dict[Mark, Look]:
    most, shapes = max(mark.headroom.least_bytes for mark in found) or 1, _shapes(found)
    return {
        mark: Look(
            colour=MODE_COLOURS[mark.mode],
            shape=shapes[mark.headroom.case],
            size=SIZES[0] + (SIZES[1] - SIZES[0]) * mark.headroom.least_bytes / most,
        )
        for mark in found
    }


def _draw(axes: Axes, at: tuple[float, float], look: Look, *, hollow: bool = False) -> None:
    """A mark; a hollow one is larger, so that it shows around a full one at the same place."""
    axes.scatter(
        *at,
        s=look.size + 30 if hollow else look.size,
        c="none" if hollow else look.colour,
        marker=look.shape,
        edgecolors=look.colour if hollow else "white",
        linewidths=1.1 if hollow else 0.5,
        zorder=5 if hollow else 4,
    )


def _legend(figure: Figure, found: Sequence[Mark], *, counted: bool) -> None:
    """Modes by colour and what a hollow mark is in the first row, below them cases by shape."""

    def entry(label: str, colour: str, shape: str, face: str) -> Line2D:
        return Line2D([], [], color=colour, marker=shape, linestyle="", markerfacecolor=face, label=label, markersize=6)

    modes = [mode for mode in Mode if any(mark.mode is mode for mark in found)]
    first = [entry(mode.value, MODE_COLOURS[mode], "s", MODE_COLOURS[mode]) for mode in modes]
    if counted and any(mark.headroom.counted_bytes for mark in found):
        first.append(entry(COUNTED, GREY, "o", "none"))
    cases = [entry(quantities.case_label(case), GREY, shape, GREY) for case, shape in _shapes(found).items()]
    longest = max(len(str(each.get_label())) for each in (*first, *cases))
    columns = max(1, int(figure.get_figwidth() / (longest / LEGEND_LETTERS + LEGEND_MARK)))
    columns = min(columns, max(len(first), len(cases)))
    rows = [each[start : start + columns] for each in (first, cases) for start in range(0, len(each), columns)]
    blank = Line2D([], [], linestyle="", label="")
    # matplotlib fills column by column
    cells = [row[column] if column < len(row) else blank for column in range(columns) for row in rows]
    figure.legend(
        handles=cells, loc="outside upper center", ncols=columns, fontsize=7.5, frameon=False, handletextpad=0.3,
        columnspacing=1.4,
    )  # fmt: skip
