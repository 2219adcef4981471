"""One picture of what was won: every kernel, pass and tuning case, those that count told from the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from optimizing.fixed import FixedCases
from optimizing.kept import Optimized
from optimizing.rows import Row
from warpsmith.contracts.case import Mode

#: Okabe and Ito's palette, told apart by the colour-blind.
COLOURS = {Mode.FORWARD: "#0072B2", Mode.BACKWARD: "#D55E00"}
GREY = "#999999"


def save_plot(first: Optimized, fixed: FixedCases, rows: Sequence[Row], path: Path) -> None:
    """A line a kernel and pass, a dot a tuning case with its interval. `first` names the GPU that all ran on."""
    told = [row for row in rows if row.speedup is not None]
    places = list(dict.fromkeys((row.kernel, row.fixed.mode) for row in told))
    figure, axes = plt.subplots(figsize=(8, 1.6 + 0.32 * len(places)), layout="constrained")
    for row in told:
        assert row.speedup is not None
        value, low, high = row.speedup.value, row.speedup.low, row.speedup.high
        place, colour = places.index((row.kernel, row.fixed.mode)), COLOURS[row.fixed.mode]
        axes.errorbar(
            value, place, xerr=[[value - low], [high - value]], fmt="o", ms=5, lw=1, color=colour,
            mfc=colour if row.fixed.counts else "white", alpha=0.8,
        )  # fmt: skip
    axes.axvline(1, color=GREY, lw=0.8, ls="--")
    axes.set_yticks(range(len(places)), [f"{kernel} {mode.value}" for kernel, mode in places], fontsize=7)
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("speed-up over the original, measured afresh; a dot a tuning case", fontsize=8)
    line = f"{fixed.line:.0%} of the ceiling"
    marks = [
        Line2D([], [], marker="o", ls="", color="black", mfc=fill, label=label)
        for fill, label in (("black", f"was below {line}: counts"), ("white", f"was at {line} or above"))
    ]
    figure.legend(handles=marks, loc="outside upper right", ncols=2, fontsize=7, frameon=False)
    environment = first.device.environment
    where = f"{environment.gpu_name}, torch {environment.torch}, Triton {environment.triton}"
    axes.set_title(where, fontsize=8, loc="left")
    figure.savefig(path, dpi=150)
    plt.close(figure)
