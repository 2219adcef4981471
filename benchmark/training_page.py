"""What benchmark/training.py measured, as a page and plots. Needs no GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

#: The run that others are compared with.
PLAIN = "plain"
COMPILED = "torch.compile"
#: The host's share of a step from which it may set the pace: its times vary, and GPUs start late.
HOST_BOUND = 0.9
#: What the curves of a CPU show.
NO_TRITON = (
    "Triton does not run here, and torch computes in the place of the kernels: this proves the plumbing, that patched "
    "models and the losses train, and nothing of the kernels."
)
#: Okabe and Ito's palette, told apart by the colour-blind. "<name> again" and "<name> 2" are of the colour of <name>.
COLOURS = {
    PLAIN: "#999999",
    "patched": "#0072B2",
    "patched, cross_entropy": "#009E73",
    "patched, fused_linear_cross_entropy": "#CC79A7",
    "perturbed": "#D55E00",
    COMPILED: "#E69F00",
}


def page(measured: Sequence[Mapping[str, Any]], *, plotted: bool) -> str:
    """`plotted`: a plot of each precision lies beside the page."""
    sections = "\n".join(_section(each, plotted=plotted) for each in measured)
    return f"# Training with and without `warpsmith.kernels.patch`\n\n{sections}"


def _section(measured: Mapping[str, Any], *, plotted: bool) -> str:
    precision, runs = measured["setting"]["precision"], measured["runs"]
    columns = {"run": list(runs), "largest difference of the loss from plain": _largest_differences(runs)}
    if _is_timed(runs):
        columns |= _times_and_peaks(runs)
    table = [columns, ["---"] * len(columns), *zip(*columns.values(), strict=True)]
    rows = [f"| {' | '.join(row)} |" for row in table]
    plot = [f"![{_plotted(runs)}]({precision}.png)", ""] if plotted else []
    return "\n".join([f"## {precision}", "", _about(measured), "", _summary(runs), "", *rows, "", *plot])


def _is_timed(runs: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether they ran on a GPU. On a CPU there are no device times and no peak."""
    return runs[PLAIN]["step_ms"] is not None or runs[PLAIN]["peak_gb"] is not None


def _plotted(runs: Mapping[str, Mapping[str, Any]]) -> str:
    return "Curves, step times and peaks" if _is_timed(runs) else "Curves"


def _largest_differences(runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [_figure(_difference_from_plain(name, runs), ".2e") for name in runs]


def _times_and_peaks(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    return {
        "step, median ms": [_figure(run["step_ms"], ".2f") for run in runs.values()],
        "of plain's": [_share(name, runs, "step_ms") for name in runs],
        "host, median ms a step": [_figure(run["host_ms"], ".2f") for run in runs.values()],
        "peak memory, GB": [_figure(run["peak_gb"], ".3f") for run in runs.values()],
        "of plain's peak": [_share(name, runs, "peak_gb") for name in runs],
    }


def _about(measured: Mapping[str, Any]) -> str:
    setting, losses = measured["setting"], measured["runs"][PLAIN]["losses"]
    sizes, recipe = setting["sizes"], setting["recipe"]
    return (
        f"A Llama-like model ({sizes['layers']} layers, hidden {sizes['hidden']}, gated MLP of "
        f"{sizes['intermediate']}, vocabulary {sizes['vocabulary']}), {sizes['batch']} × {sizes['sequence']} tokens a "
        f"step, {setting['steps']} steps of AdamW (peak rate {recipe['rate_by_width'] / sizes['hidden']:.1e} after "
        f"{recipe['rising']:.0%} of them, then a cosine to {recipe['last']:.0%} of it; gradients clipped to a norm of "
        f"{recipe['largest_norm']:g}), {setting['device']}, torch {setting['torch']}, Triton {setting['triton']}, "
        f"{measured['measured_at']}. Its loss went from {losses[0]:.3f} to {losses[-1]:.3f}."
    )


def _summary(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """What is asked of patching, in words: the curves, the step time and the peak."""
    patched = {name: _difference_from_plain(name, runs) for name in runs if name.startswith("patched")}
    others = {name: _difference_from_plain(name, runs) for name in runs if name != PLAIN and name not in patched}
    kinds = ["start from one weight that is off by its last bit, or as plain did"]
    if COMPILED in runs:
        kinds += ["one is compiled, which rounds elsewhere, as the kernels do"]
    told = [
        f"**The largest difference of the loss from plain in any step: {_largest(patched)} of a patched run, "
        f"{_largest(others)} of an unpatched one.** Unpatched ones {'; '.join(kinds)}: what they differ by is the work "
        "of rounding."
    ]
    if not _is_timed(runs):
        told += [NO_TRITON]
    if runs[PLAIN]["step_ms"] is not None:
        shares = [
            f"{name}: {_share(name, runs, 'step_ms')} of the step time, {_share(name, runs, 'peak_gb')} of the peak"
            for name in patched
        ]
        told += [f"Beside plain, {'; '.join(shares)}."]
        bound = [name for name, run in runs.items() if run["host_ms"] > HOST_BOUND * run["step_ms"]]
        told += [
            f"The host sets the pace of {', '.join(bound)}: these step times say little of the kernels."
            if bound
            else "The GPU sets the pace of all: the host needs less for the launches of a step."
        ]
    return " ".join(told)


def _largest(differences: Mapping[str, float | None]) -> str:
    found = [each for each in differences.values() if each is not None]
    return _figure(_maximum(found) if found else None, ".2e")


def _maximum(values: Sequence[float]) -> float:
    """NaN where one is NaN, which max() may pass by."""
    return max(values, key=lambda value: (math.isnan(value), value))


def _difference_from_plain(name: str, runs: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The largest of any step."""
    return None if name == PLAIN else _maximum(_differences(runs[name], runs[PLAIN]))


def _differences(run: Mapping[str, Any], plain: Mapping[str, Any]) -> list[float]:
    return [abs(ours - theirs) for ours, theirs in zip(run["losses"], plain["losses"], strict=True)]


def _share(name: str, runs: Mapping[str, Mapping[str, Any]], key: str) -> str:
    """Of plain's."""
    return "-" if runs[name][key] is None else format(runs[name][key] / runs[PLAIN][key], ".1%")


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def save_plot(measured: Mapping[str, Any], path: Path) -> None:
    """The curves, how far each is from the plain one, and below them, if measured, step times and peaks."""
    setting, runs = measured["setting"], measured["runs"]
    lines = 2 if _is_timed(runs) else 1
    figure, ((losses, differences), *below) = plt.subplots(
        lines, 2, figsize=(12, 3.5 * lines), layout="constrained", squeeze=False
    )
    for name, run in runs.items():
        style = {"color": _colour(name), "lw": 1, "ls": "--" if name.endswith("again") else "-", "label": name}
        losses.plot(run["losses"], **style)
        if name != PLAIN:
            differences.plot(_differences(run, runs[PLAIN]), **style)
    losses.set(xlabel="step", ylabel="loss")
    losses.legend(fontsize=7)
    # Equal losses are where two curves agree to the bit.
    differences.set_yscale("symlog", linthresh=1e-6)
    differences.set(xlabel="step", ylabel="difference from plain")
    for times, peaks in below:
        _bars(times, runs, "step_ms", "step, median ms; the line: what the host needs for it")
        host = {name: run["host_ms"] for name, run in runs.items() if run["host_ms"] is not None}
        times.plot(list(host.values()), list(host), "k|", ms=12)
        _bars(peaks, runs, "peak_gb", "peak memory, GB")
    where = f"{setting['device']}, torch {setting['torch']}, Triton {setting['triton']}, {setting['precision']}"
    figure.suptitle(f"{where}, {measured['measured_at']}", fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _colour(name: str) -> str:
    return COLOURS[name] if name in COLOURS else COLOURS[name.split()[0]]


def _bars(axes: Axes, runs: Mapping[str, Any], key: str, label: str) -> None:
    """What was not measured has no bar."""
    shown = {name: run[key] for name, run in runs.items() if run[key] is not None}
    bars = axes.barh(list(shown), list(shown.values()), color=[_colour(name) for name in shown])
    axes.bar_label(bars, fmt="%.2f", fontsize=7)
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel(label)
