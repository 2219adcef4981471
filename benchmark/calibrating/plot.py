"""One picture of the calibration: every interval, by what was planted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from calibrating.summary import Pair, Summary

#: Okabe and Ito's palette, told apart by the colour-blind.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"


def save_plot(summary: Summary, path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=[3, 2])
    _intervals(left, sorted(summary.identical, key=lambda p: p.us))
    _differences(right, [*summary.planted, *summary.pairs])
    where = summary.environment
    figure.suptitle(
        f"{where['gpu_name']}, torch {where['torch']}, Triton {where['triton']}, {summary.date}", fontsize=9
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _intervals(axes: plt.Axes, pairs: list[Pair]) -> None:
    for index, pair in enumerate(pairs):
        colour = BLUE if pair.covers_one else ORANGE
        axes.plot([index, index], [100 * (pair.speedup.low - 1), 100 * (pair.speedup.high - 1)], color=colour, lw=1.2)
    axes.axhline(0, color=GREY, lw=0.8)
    outside = sum(not pair.covers_one for pair in pairs)
    axes.set_title(f"{len(pairs)} comparisons of a source with its copy; {outside} intervals miss 1", fontsize=9)
    axes.set_xlabel(f"comparison, by duration ({pairs[0].us:.0f} to {pairs[-1].us:.0f} µs)")
    axes.set_ylabel("speed-up found, %")


def _differences(axes: plt.Axes, pairs: list[Pair]) -> None:
    planted = sorted({pair.planted for pair in pairs})
    for position, truth in enumerate(planted):
        of_truth = [pair for pair in pairs if pair.planted == truth]
        for index, pair in enumerate(of_truth):
            x = position + 0.7 * (index / max(1, len(of_truth) - 1) - 0.5)
            axes.plot([x, x], [100 * (pair.speedup.low - 1), 100 * (pair.speedup.high - 1)], color=BLUE, lw=1.2)
        faster = truth if truth >= 0 else 1 / (1 - truth) - 1
        axes.plot([position - 0.45, position + 0.45], [100 * faster] * 2, color=ORANGE, lw=1.5)
    axes.set_xticks(range(len(planted)), [f"{100 * truth:+g}" for truth in planted])
    axes.set_title("planted differences (orange) and what was found", fontsize=9)
    axes.set_xlabel("planted, % faster")
    axes.set_ylabel("speed-up found, %")
