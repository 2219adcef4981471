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
    modes = [mode for mode in (Mode.FORWARD, Mode.BACKWARD) if any(each.mode is mode for each in found)]
    tallest = max(sum(each.mode is mode for each in found) for mode in modes)
    size = (6 * len(modes), 1.2 + 0.2 * tallest)
    figure, panels = plt.subplots(1, len(modes), figsize=size, layout="constrained", squeeze=False)
    for axes, mode in zip(panels[0], modes, strict=True):
        _panel(axes, mode, [each for each in found if each.mode is mode and each.speed is not None])
    environment = result.device.environment
    where = f"{result.device.name}, torch {environment.torch}, Triton {environment.triton}"
    figure.suptitle(f"{where}, {result.device.measured_at[:10]}", fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _panel(axes: plt.Axes, mode: Mode, found: Sequence[Standing]) -> None:
    """The library's interval, orange where it falls short, and a grey dot for every other."""
    for place, each in enumerate(found):
        assert each.speed is not None and each.best is not None
        colour = ORANGE if each.falls_short else BLUE
        axes.plot([each.speed.low, each.speed.high], [place, place], color=colour, lw=4, solid_capstyle="butt")
        axes.plot(each.speed.value, place, "|", color=colour, ms=9)
        fastest_us = each.times_us[each.best]
        others = [fastest_us / us for name, us in each.times_us.items() if name != ORIGINAL]
        axes.plot(others, [place] * len(others), ".", color=GREY, ms=4)
    axes.axvline(1, color=GREY, lw=0.8)
    if found:
        axes.axvline(found[0].bar, color=GREY, lw=0.8, ls="--")
    labels = [f"{each.kernel} {quantities.case_label(each.case)}" for each in found]
    axes.set_yticks(range(len(found)), labels, fontsize=6)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_title(f"{mode.value}: speed beside the fastest other (grey dots: all others)", fontsize=8)
