"""The search as it went: what each variant brought, how it was judged, and the best so far.

A step line is the best accepted so far, a mark is a variant with its 95% interval, a grey bar is what was predicted.
What was not measured has a mark on the axis. Owns what is drawn; colours are Okabe and Ito's, and shapes differ too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.case import Mode
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.report.plots import BLACK, BLUE, CAPTION_LETTERS, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from warpsmith.report.quantities import words

BEST, PREDICTED, NOT_MEASURED, AFRESH = "best so far", "predicted", "not measured", "measured afresh"
ORIGINAL_LABEL, AFRESH_LABEL = "original", "measured\nafresh"
#: Colour and marker of an outcome.
LOOKS: dict[Outcome, tuple[str, str]] = {
    Outcome.ACCEPTED: (GREEN, "o"),
    Outcome.REJECTED: (VERMILLION, "X"),
    Outcome.MIXED: (PURPLE, "D"),
    Outcome.INCONCLUSIVE: (ORANGE, "^"),
}
#: Inches: of a variant along the axis, and of what else there is.
STEP, REST, LEAST_WIDTH, HEIGHT = 0.9, 1.2, 5.6, 3.6
#: Letters of a label that fit below a variant.
LABEL_LETTERS = 13


@dataclass(frozen=True)
class Progress:
    """What is drawn. `confirmation` is the winner measured afresh, `noise_floor` a share of 1; None where unknown."""

    variants: tuple[Variant, ...]
    goal: Mode
    objective: Objective = Objective.SPEED
    confirmation: Interval | None = None
    winner: int | None = None
    noise_floor: float | None = None


def progress_figure(progress: Progress, caption: str) -> Figure | None:
    """None where no variant was tried."""
    if not progress.variants:
        return None
    places = {variant.number: index + 1 for index, variant in enumerate(progress.variants)}
    labels = [ORIGINAL_LABEL, *(_label(variant) for variant in progress.variants)]
    if progress.confirmation is not None:
        labels.append(AFRESH_LABEL)
    width = max(LEAST_WIDTH, REST + STEP * len(labels))
    figure = Figure(figsize=(width, HEIGHT), layout="constrained", dpi=100)
    axes = figure.subplots()
    _draw(axes, progress, places)
    axes.set_xticks(range(len(labels)), labels, fontsize=7)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.margins(y=0.12)
    _unit(axes, progress)
    handles, names = axes.get_legend_handles_labels()
    by_name = dict(zip(names, handles, strict=True))
    figure.legend(
        list(by_name.values()), list(by_name), loc="outside upper center", ncols=4, fontsize=7.5, frameon=False
    )
    figure.supxlabel(
        textwrap.fill(caption, int(CAPTION_LETTERS * width), break_on_hyphens=False), fontsize=7, color=GREY
    )
    return figure


def best_so_far(variants: Sequence[Variant]) -> tuple[float, ...]:
    """The goal metric of the best accepted variant after each, 1 being the original."""
    best, found = 1.0, []
    for variant in variants:
        goal = _goal(variant)
        best = max(best, goal.value) if variant.accepted and goal is not None else best
        found.append(best)
    return tuple(found)


def _draw(axes: Axes, progress: Progress, places: dict[int, int]) -> None:
    if progress.noise_floor is not None:
        low, high = 1 - progress.noise_floor, 1 + progress.noise_floor
        axes.axhspan(low, high, color=GREY, alpha=0.35, lw=0, label=f"noise floor, ±{100 * progress.noise_floor:.2g}%")
    axes.axhline(1, color=BLACK, linewidth=0.8, zorder=2)
    axes.plot(0, 1, marker="s", color=BLACK, markersize=5, zorder=4, linestyle="")
    steps = [1.0, *best_so_far(progress.variants)]
    axes.step(range(len(steps)), steps, where="post", color=BLUE, linewidth=1.4, label=BEST, zorder=3)
    for variant in progress.variants:
        _draw_variant(axes, variant, places[variant.number], predicted=progress.objective is Objective.SPEED)
    if progress.confirmation is not None:
        _draw_interval(axes, len(places) + 1, progress.confirmation, (BLACK, "*"), AFRESH)


def _draw_variant(axes: Axes, variant: Variant, place: int, *, predicted: bool) -> None:
    if predicted:
        low, high = variant.predicted_low, max(variant.predicted_high, variant.predicted_low + 1e-3)
        axes.vlines(place, low, high, colors=GREY, linewidth=12, alpha=0.28, label=PREDICTED, zorder=1)
    goal = _goal(variant)
    if variant.verdict is None or goal is None:
        axes.plot(
            place, 1, marker="x", color=GREY, markersize=6, markeredgewidth=1.4, linestyle="", label=NOT_MEASURED,
            zorder=4,
        )  # fmt: skip
        return
    _draw_interval(axes, place, goal, LOOKS[variant.verdict.outcome], variant.verdict.outcome.value)


def _draw_interval(axes: Axes, place: float, interval: Interval, look: tuple[str, str], label: str) -> None:
    colour, marker = look
    axes.errorbar(
        place, interval.value, yerr=[[interval.value - interval.low], [interval.high - interval.value]], color=colour,
        marker=marker, markersize=9 if marker == "*" else 7, markeredgecolor="white", markeredgewidth=0.6,
        elinewidth=1.3, capsize=3, linestyle="", label=label, zorder=5,
    )  # fmt: skip
    axes.annotate(
        f"{interval.value:.3f}×", (place, interval.value), xytext=(7, 5), textcoords="offset points", fontsize=7
    )


def _goal(variant: Variant) -> Interval | None:
    verdict: Verdict | None = variant.verdict
    return verdict.goal if verdict is not None else None


def _label(variant: Variant) -> str:
    ended = variant.verdict.outcome.value if variant.verdict else words(variant.status.value)
    lines = textwrap.wrap(words(variant.strategy), LABEL_LETTERS, break_long_words=False)[:2]
    return "\n".join([f"v{variant.number}", *lines, f"({ended})"])


def _unit(axes: Axes, progress: Progress) -> None:
    is_memory = progress.objective is Objective.MEMORY
    told = "peak memory, original over variant" if is_memory else "speed-up over the original"
    axes.set_ylabel(f"{told}\nin {progress.goal.value}, higher is better", fontsize=8.5)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}×"))
    axes.tick_params(labelsize=7.5, length=2.5)
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="y", color="#E3E3E3", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
