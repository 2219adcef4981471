"""The frames of a roofline plot: its axes, roofs and ceilings, and how the mark of a case and mode looks.

Shared by the roofline of a profile and by that of a winner before and after. Owns what stands around the marks; must
not know which marks there are to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from matplotlib.transforms import Affine2D

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.diagnose.roofline import operand_ceiling
from warpsmith.report import quantities
from warpsmith.report.device_view import MEASURED
from warpsmith.report.plots import BLACK, BLUE, GREEN, GREY, VERMILLION
from warpsmith.report.roofline_panels import Mark, Panel

MODE_COLOURS = {Mode.FORWARD: BLUE, Mode.BACKWARD: VERMILLION, Mode.FULL: GREEN}
#: As many cases can be told apart; of more, shapes come again.
CASE_SHAPES = ("o", "s", "^", "D", "v", "P", "X", "p", "h", "<", ">", "*")
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


@dataclass(frozen=True)
class OperationsFrame:
    """The classical roofline: roofs by name in TFLOP/s, the slope of the copy ceiling in TB/s, and the axes' ends."""

    roofs: Mapping[str, float]
    tb_s: float
    left: float
    right: float
    bottom: float
    measured: bool

    @classmethod
    def of(cls, device: DeviceFacts, marks: Sequence[Mark]) -> OperationsFrame:
        """With room for all of the marks that have an intensity, and a roof for the operands that they name."""
        tb_s = max(device.copy_ceilings, key=lambda ceiling: ceiling.footprint_bytes).gb_s / 1e3
        placed, named = [m for m in marks if m.intensity], {m.headroom.operands for m in marks}
        roofs = {dtype.short: tflops for dtype, tflops in device.matmul_tflops.items()}
        for operands in device.operand_tflops:
            if operands in named and (ceiling := operand_ceiling(operands, device)):
                roofs[operands] = ceiling.tflops
        intensities = [m.intensity or 0.0 for m in placed] + [tflops / tb_s for tflops in roofs.values()]
        left, right = min(intensities) / 4, max(intensities) * 4
        bottom = min([*(m.tflops for m in placed if m.tflops), tb_s * left * 2]) / 2
        return cls(roofs, tb_s, left, right, bottom, device.ceilings_from == MEASURED)

    @property
    def highest(self) -> float:
        return max(self.roofs.values(), default=self.tb_s * self.right)

    def draw(self, axes: Axes) -> None:
        """Around the marks, which are drawn already: the roofs' names keep off them."""
        _roofs(axes, self.roofs, self.tb_s, (self.left, self.right), measured=self.measured)
        axes.set(xscale="log", yscale="log", xlim=(self.left, self.right), ylim=(self.bottom, self.highest * 3))
        _name_roofs(axes, self.roofs, self.right)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("arithmetic intensity (operations a byte)", fontsize=8)
        axes.set_ylabel("TFLOP/s, higher is better", fontsize=8.5)


def bandwidth_frame(axes: Axes, device: DeviceFacts, bound: Sequence[Mark]) -> None:
    """Bytes a second against bytes, with the copy ceiling, and room for all of the marks.

    As DeviceFacts.copy_ceiling_gb_s has it: straight between neighbours over the logarithm, level beyond the ends.
    """
    ceilings = sorted(device.copy_ceilings, key=lambda ceiling: ceiling.footprint_bytes)
    ceiling_mib, heights = [c.footprint_bytes / 2**20 for c in ceilings], [c.gb_s / 1e3 for c in ceilings]
    marks_mib = [m.headroom.least_bytes / 2**20 for m in bound]
    ends = min([*ceiling_mib, *marks_mib]) / 1.5, max([*ceiling_mib, *marks_mib]) * 1.5
    axes.plot(
        [ends[0], *ceiling_mib, ends[1]], [heights[0], *heights, heights[-1]], color=GREY,
        linestyle="-" if device.ceilings_from == MEASURED else "--", linewidth=1.3, zorder=2,
    )  # fmt: skip
    axes.annotate(
        "copy ceiling", (ends[1], heights[-1]), xytext=(-2, 4), textcoords="offset points", ha="right", fontsize=7
    )
    axes.set(xscale="log", xlim=ends, ylim=(0, 1.12 * max([*heights, *(m.tb_s or 0.0 for m in bound)])))
    _size_axis(axes, ends)
    axes.set_xlabel("bytes that a call must move at least", fontsize=8)
    axes.set_ylabel("achieved (TB/s), higher is better", fontsize=8.5)


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


def _size_axis(axes: Axes, ends: tuple[float, float]) -> None:
    """Ticks at powers of two of a MiB, every second one where there are many."""
    powers = [power for power in range(-20, 31) if ends[0] <= 2.0**power <= ends[1]]
    axes.xaxis.set_major_locator(FixedLocator([2.0**power for power in powers[:: 1 if len(powers) <= 8 else 2]]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda mib, _: quantities.size(mib * 2**20).replace(".0 ", " ")))
    axes.xaxis.set_minor_locator(NullLocator())


def _shapes(found: Iterable[Mark]) -> dict[str, str]:
    cases = dict.fromkeys(mark.headroom.case for mark in found)
    return {case: CASE_SHAPES[index % len(CASE_SHAPES)] for index, case in enumerate(cases)}


def looks(found: Sequence[Mark]) -> dict[Mark, Look]:
    """By mark: the colour of its mode, a shape a case."""
    most, shapes = max(mark.headroom.least_bytes for mark in found) or 1, _shapes(found)
    return {
        mark: Look(
            colour=MODE_COLOURS[mark.mode],
            shape=shapes[mark.headroom.case],
            size=SIZES[0] + (SIZES[1] - SIZES[0]) * mark.headroom.least_bytes / most,
        )
        for mark in found
    }


def draw_mark(axes: Axes, at: tuple[float, float], look: Look, *, hollow: bool = False) -> None:
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


def legend_entry(label: str, colour: str, shape: str, face: str) -> Line2D:
    return Line2D([], [], color=colour, marker=shape, linestyle="", markerfacecolor=face, label=label, markersize=6)


def mark_legend(figure: Figure, found: Sequence[Mark], more: Sequence[Line2D] = ()) -> None:
    """Modes by colour and what `more` explains in the first row, below them cases by shape."""
    modes = [mode for mode in Mode if any(mark.mode is mode for mark in found)]
    first = [legend_entry(mode.value, MODE_COLOURS[mode], "s", MODE_COLOURS[mode]) for mode in modes]
    first += more
    cases = [legend_entry(quantities.case_label(case), GREY, shape, GREY) for case, shape in _shapes(found).items()]
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
