"""One picture of what settings alone bring: every kernel, pass and tuning case, with the gains that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tuning.claims import KnownGain
from tuning.kept import Tuned
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.verdict import CaseSpeedup

#: Okabe and Ito's palette, told apart by the colour-blind.
COLOURS = {Mode.FORWARD: "#0072B2", Mode.BACKWARD: "#D55E00"}
GREY = "#999999"


def save_plot(kernels: Mapping[str, Tuned], known: Sequence[KnownGain], path: Path) -> None:
    """A row a kernel and pass, a dot a tuning case with its interval, a hollow diamond a gain that is known."""
    rows = [(name, mode) for name, tuned in kernels.items() for mode in COLOURS if _at(tuned, mode)]
    figure, axes = plt.subplots(figsize=(8, 1.4 + 0.3 * len(rows)), layout="constrained")
    for place, (name, mode) in enumerate(rows):
        for each in _at(kernels[name], mode):
            value, low, high = each.speedup.value, each.speedup.low, each.speedup.high
            axes.errorbar(
                value, place, xerr=[[value - low], [high - value]], fmt="o", ms=4, lw=1, color=COLOURS[mode], alpha=0.8
            )
        for gain in known:
            if (gain.kernel, gain.mode) == (name, mode):
                axes.plot(gain.speedup, place - 0.28, "D", ms=4, mfc="none", mec="black", mew=0.8)
    axes.axvline(1, color=GREY, lw=0.8, ls="--")
    axes.set_yticks(range(len(rows)), [f"{name} {mode.value}" for name, mode in rows], fontsize=7)
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel(
        "speed-up over the original by settings alone; dot: a tuning case, diamond: found by hand", fontsize=8
    )
    environment = next(iter(kernels.values())).device.environment
    axes.set_title(
        f"{environment.gpu_name}, torch {environment.torch}, Triton {environment.triton}", fontsize=8, loc="left"
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _at(tuned: Tuned, mode: Mode) -> list[CaseSpeedup]:
    every = tuned.verdict.cases if tuned.verdict is not None else ()
    return [each for each in every if each.mode is mode and each.role is Role.TUNING]
