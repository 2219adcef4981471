"""One picture of all profiles: how near each pass is to the ceiling, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from profiling.claims import NEAR_PEAK
from profiling.kept import Kept
from warpsmith.contracts.profile import Bottleneck
from warpsmith.report import quantities

if TYPE_CHECKING:
    from profiling.summary import Row

#: Okabe and Ito's palette, told apart by the colour-blind.
COLOURS = {
    Bottleneck.NEAR_PEAK: "#009E73",
    Bottleneck.MEMORY_BOUND: "#0072B2",
    Bottleneck.COMPUTE_BOUND: "#CC79A7",
    Bottleneck.LATENCY_BOUND: "#D55E00",
    Bottleneck.GRID_TOO_SMALL: "#E69F00",
    Bottleneck.BALANCED: "#999999",
}
GREY = "#999999"


def save_plot(kept: Kept, found: Sequence[Row], path: Path) -> None:
    """A bar a pass, in the order of the page. `kept` names the GPU that all were profiled on."""
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.17 * len(found)), layout="constrained")
    for place, row in enumerate(found):
        axes.barh(place, 100 * (row.share or 0.0), color=COLOURS[row.bottleneck], height=0.75)
        if row.by_ncu not in (None, row.bottleneck):
            axes.text(1, place, f"ncu's rule: {quantities.words(row.by_ncu.value)}", va="center", fontsize=5, color="w")
    axes.axvline(100 * NEAR_PEAK, color=GREY, lw=0.8, ls="--")
    axes.set_yticks(range(len(found)), [f"{row.kernel} {row.mode.value}" for row in found], fontsize=6)
    axes.tick_params(axis="x", labelsize=7)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel("percent of the measured ceiling; dashed: near peak", fontsize=8)
    called = {row.bottleneck for row in found}
    bars = {b: plt.Rectangle((0, 0), 1, 1, color=COLOURS[b]) for b in Bottleneck if b in called}
    names = [quantities.words(bottleneck.value) for bottleneck in bars]
    figure.legend(list(bars.values()), names, loc="outside upper right", ncols=len(bars), fontsize=6, frameon=False)
    environment = kept.profile.device.environment
    where = f"{environment.gpu_name}, torch {environment.torch}, Triton {environment.triton}"
    axes.set_title(f"{where}, {kept.profile.device.measured_at[:10]}", fontsize=8, loc="left")
    figure.savefig(path, dpi=150)
    plt.close(figure)
