"""The figures of a report as matplotlib objects: time by case, peak memory, speed-ups.

Every figure carries units, the GPU, the date and the origin. Colours are Okabe and Ito's, which colour-blind readers
can tell apart (https://jfly.uni-koeln.de/color/); lines differ by marker too. Owns what is drawn; must
not know where a figure is saved.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL
from warpsmith.contracts.verdict import CaseSpeedup
from warpsmith.report.quantities import case_label
from warpsmith.report.rows import ProviderRow, provider_order

BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY = "#767676"

#: Colour and marker of a provider.
Style = tuple[str, str]
_OURS: dict[str, Style] = {ORIGINAL: (BLACK, "o"), OPTIMIZED: (VERMILLION, "s")}
_BASELINES: tuple[Style, ...] = ((SKY, "^"), (GREEN, "D"), (PURPLE, "v"), (ORANGE, "P"), (BLUE, "X"))

AT_CEILING, NOISE_FLOOR = "at the ceiling", "noise floor of the goal"

#: Chosen: letters of a caption that fit an inch, capitals and digits among them.
CAPTION_LETTERS = 16

#: Least possible times: (case name, mode) -> ms at the measured ceiling.
LeastTimes = Mapping[tuple[str, Mode], float]


def speed_figure(
    rows: Iterable[ProviderRow], caption: str, least_ms: LeastTimes | None = None, role: Role = Role.TUNING
) -> Figure:
    """Median time of each provider at the cases of that role, a panel a mode, in µs on a logarithmic axis.

    Bars are 95% intervals; the grey dashes stand at the least time that the measured ceiling allows.
    """
    timed = [row for row in rows if row.role is role and row.time_ms is not None]
    figure, panels = _panels(_modes(timed), caption, width=3.0, height=3.5)
    styles = _styles(row.provider for row in timed)
    for axes, mode in panels:
        here = [row for row in timed if row.mode is mode]
        places = _case_axis(axes, here)
        for provider in styles:
            _time_line(axes, [row for row in here if row.provider == provider], places, styles[provider])
        least = {case: 1000 * ms for (case, m), ms in (least_ms or {}).items() if m is mode and case in places}
        if least:
            axes.hlines(
                list(least.values()),
                [places[case] - 0.32 for case in least],
                [places[case] + 0.32 for case in least],
                colors=GREY,
                linestyles=(0, (3, 1.5)),
                linewidth=1.0,
                label=AT_CEILING,
                zorder=1,
            )
        axes.set_yscale("log")
        axes.margins(y=0.08)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    panels[0][0].set_ylabel("time (µs), lower is better", fontsize=8.5)
    _legend(figure)
    return figure


def _time_line(axes: Axes, rows: Sequence[ProviderRow], places: Mapping[str, int], style: Style) -> None:
    points = sorted((places[row.case], row.time_ms) for row in rows if row.time_ms is not None)
    if not points:
        return
    colour, marker = style
    axes.errorbar(
        [x for x, _ in points],
        [1000 * t.value for _, t in points],
        yerr=[[1000 * (t.value - t.low) for _, t in points], [1000 * (t.high - t.value) for _, t in points]],
        color=colour,
        marker=marker,
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.5,
        linewidth=1.2,
        elinewidth=1.2,
        capsize=2,
        label=rows[0].provider,
        zorder=4 if rows[0].provider in _OURS else 3,
    )


def memory_figure(rows: Iterable[ProviderRow], caption: str, role: Role = Role.TUNING) -> Figure:
    """Peak memory of a call above its inputs at the cases of that role, a panel a mode, in MiB."""
    known = [row for row in rows if row.role is role and row.peak_bytes is not None]
    figure, panels = _panels(_modes(known), caption, width=3.0, height=3.2)
    styles = _styles(row.provider for row in known)
    width = 0.8 / max(1, len(styles))
    for axes, mode in panels:
        here = [row for row in known if row.mode is mode]
        places = _case_axis(axes, here)
        for index, (provider, (colour, _)) in enumerate(styles.items()):
            peaks = {places[r.case]: r.peak_bytes / 2**20 for r in here if r.provider == provider and r.peak_bytes}
            shift = (index - (len(styles) - 1) / 2) * width
            axes.bar(
                [place + shift for place in peaks],
                list(peaks.values()),
                width * 0.92,
                color=colour,
                label=provider,
                zorder=3,
            )
    panels[0][0].set_ylabel("peak memory above inputs (MiB)", fontsize=8.5)
    _legend(figure)
    return figure


def speedup_figure(cases: Iterable[CaseSpeedup], caption: str, noise_floor: float | None = None) -> Figure:
    """Speed-ups over the original, a panel a mode: tuning cases above, held-out ones below, with 95% intervals.

    The grey band is the noise floor of the goal metric, as a share of 1.
    """
    found = list(cases)
    order = [*_names(found, Role.TUNING), *_names(found, Role.HELD_OUT)]
    tuned = len(_names(found, Role.TUNING))
    places = {name: index + (0.6 if index >= tuned else 0.0) for index, name in enumerate(order)}
    figure, panels = _panels(_modes(found), caption, width=2.9, height=1.3 + 0.21 * len(order), shared=True)
    for axes, mode in panels:
        _speedup_bars(axes, [c for c in found if c.mode is mode], places)
        if noise_floor is not None:
            label = f"{NOISE_FLOOR}, ±{100 * noise_floor:.2g}%"
            axes.axvspan(1 - noise_floor, 1 + noise_floor, color=GREY, alpha=0.35, lw=0, label=label, zorder=1)
        axes.axvline(1, color=BLACK, linewidth=0.8, zorder=2)
        axes.margins(x=0.16, y=0.02)
        axes.grid(axis="x", color="#E3E3E3", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
        axes.set_xlabel("speed-up over the original", fontsize=8)
    first = panels[0][0]
    first.set_yticks(list(places.values()), [case_label(name) for name in order], fontsize=7)
    first.invert_yaxis()
    _legend(figure)
    return figure


def _speedup_bars(axes: Axes, cases: Sequence[CaseSpeedup], places: Mapping[str, float]) -> None:
    groups = (
        ("tuning", BLUE, "", [c for c in cases if c.role is Role.TUNING and not c.regressed]),
        ("held-out", SKY, "////", [c for c in cases if c.role is Role.HELD_OUT and not c.regressed]),
        ("regressed", VERMILLION, "", [c for c in cases if c.regressed]),
    )
    for label, colour, hatch, group in groups:
        if not group:
            continue
        values = [c.speedup.value for c in group]
        axes.barh(
            [places[c.case] for c in group],
            [value - 1 for value in values],
            0.72,
            left=1,
            xerr=[[c.speedup.value - c.speedup.low for c in group], [c.speedup.high - c.speedup.value for c in group]],
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 1.0, "capsize": 2, "ecolor": BLACK},
            label=label,
            zorder=3,
        )
        for case in group:
            slower = case.speedup.high < 1
            axes.annotate(
                f"{case.speedup.value:.2f}",
                (case.speedup.low if slower else case.speedup.high, places[case.case]),
                xytext=(-4 if slower else 4, 0),
                textcoords="offset points",
                va="center",
                ha="right" if slower else "left",
                fontsize=6.5,
            )


def _panels(
    modes: Sequence[Mode], caption: str, *, width: float, height: float, shared: bool = False
) -> tuple[Figure, list[tuple[Axes, Mode]]]:
    """A figure with a panel a mode, its caption below on as many lines as fit. Sizes in inches.

    Raises ValueError with no mode.
    """
    if not modes:
        raise ValueError("nothing was measured that could be drawn")
    figure = Figure(figsize=(width * len(modes) + 1.0, height), layout="constrained", dpi=100)
    grid = figure.subplots(1, len(modes), squeeze=False, sharex=shared, sharey=shared)
    panels = list(zip(grid[0], modes, strict=True))
    for axes, mode in panels:
        axes.set_title(mode.value, fontsize=9, fontweight="bold")
        axes.tick_params(labelsize=7.5, length=2.5)
        axes.spines[["top", "right"]].set_visible(False)
    letters = int(CAPTION_LETTERS * (width * len(modes) + 1.0))
    figure.supxlabel(textwrap.fill(caption, letters, break_on_hyphens=False), fontsize=7, color=GREY)
    return figure, panels


def _modes(found: Iterable[ProviderRow | CaseSpeedup]) -> list[Mode]:
    measured = {row.mode for row in found}
    return [mode for mode in Mode if mode in measured]


def _names(cases: Iterable[CaseSpeedup], role: Role) -> list[str]:
    return list(dict.fromkeys(c.case for c in cases if c.role is role))


def _case_axis(axes: Axes, rows: Sequence[ProviderRow]) -> dict[str, int]:
    """Case name -> place on a categorical axis, in the order of the target."""
    places = {name: index for index, name in enumerate(dict.fromkeys(row.case for row in rows))}
    dtypes = {case_label(name).split()[-1] for name in places}
    labels = [case_label(name).split()[0] if len(dtypes) == 1 else case_label(name) for name in places]
    axes.xaxis.set_major_locator(FixedLocator(list(places.values())))
    axes.set_xticks(list(places.values()), labels, rotation=30, ha="right", rotation_mode="anchor", fontsize=7)
    axes.set_xlabel(f"case ({dtypes.pop()})" if len(dtypes) == 1 else "case", fontsize=8)
    axes.grid(axis="y", color="#E3E3E3", linewidth=0.6)
    axes.set_axisbelow(True)
    return places


def _styles(providers: Iterable[str]) -> dict[str, Style]:
    """Each provider's style, in the order of a legend; the same in every figure that has the same providers."""
    ordered = sorted(set(providers), key=provider_order)
    baselines = [name for name in ordered if name not in _OURS]
    named = {name: _BASELINES[index % len(_BASELINES)] for index, name in enumerate(baselines)}
    return {name: _OURS.get(name) or named[name] for name in ordered}


def _legend(figure: Figure) -> None:
    """One legend above all panels, of everything that any of them shows, what is no measurement last."""
    entries: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    labels = sorted(entries, key=lambda label: label.startswith((AT_CEILING, NOISE_FLOOR)))
    figure.legend(
        [entries[label] for label in labels],
        labels,
        loc="outside upper center",
        ncols=min(6, 3 * len(figure.axes)),
        fontsize=7.5,
        frameon=False,
    )
