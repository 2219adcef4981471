"""One picture of the library: its speed beside the fastest other, and the others', by kernel, case and pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from warpsmith.contracts.bench import BenchResult
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.report import quantities

if TYPE_CHECKING:
    from comparing.summary import Standing

#: Okabe and Ito's palette, told apart by the colour-blind.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"


def save_plot(result: BenchResult, found: Sequence[Standing], path: Path) -> None:
    """The first pass on the left, the others below each other on the right, each as high as it has cases."""
    passes = {mode: [each for each in found if each.mode is mode and each.speed is not None] for mode in Mode}
    first, *rest = [mode for mode in (Mode.FORWARD, Mode.BACKWARD, Mode.FULL) if any(s.mode is mode for s in found)]
    heights = [len(passes[mode]) + 2 for mode in rest or [first]]
    tallest = max(sum(heights), len(passes[first]))
    figure = plt.figure(figsize=(7 * (1 + bool(rest)), 1.2 + 0.18 * tallest), layout="constrained")
    rows = [[first.value, mode.value] for mode in rest] or [[first.value]]
    for name, axes in figure.subplot_mosaic(rows, height_ratios=heights).items():
        _panel(axes, Mode(name), passes[Mode(name)])
    environment = result.device.environment
    where = f"{result.device.name}, torch {environment.torch}, Triton {environment.triton}"
    what = "speed beside the fastest other, or the one that the page names (grey dots: all others; dashed: the aim)"
    figure.suptitle(f"{what}\n{where}, {result.device.measured_at[:10]}", fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _panel(axes: plt.Axes, mode: Mode, found: Sequence[Standing]) -> None:
    """The library's interval, orange where it falls short, and a grey dot for every other."""
    for place, each in enumerate(found):
        assert each.speed is not None and each.rival is not None
        colour = ORANGE if each.falls_short else BLUE
        axes.plot([each.speed.low, each.speed.high], [place, place], color=colour, lw=4, solid_capstyle="butt")
        axes.plot(each.speed.value, place, "|", color=colour, ms=9)
        rival_us = each.times_us[each.rival]
        others = [rival_us / us for name, us in each.times_us.items() if name != ORIGINAL]
        axes.plot(others, [place] * len(others), ".", color=GREY, ms=4)
        axes.plot([each.aim.least] * 2, [place - 0.5, place + 0.5], color=GREY, lw=0.8, ls="--")
    axes.axvline(1, color=GREY, lw=0.8)
    labels = [f"{each.kernel} {quantities.case_label(each.case)}" for each in found]
    axes.set_yticks(range(len(found)), labels, fontsize=6)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_title("forward and backward together" if mode is Mode.FULL else mode.value, fontsize=8)
