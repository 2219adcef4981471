"""The figures of a report: which of them there is data for, and the raw samples behind each.

Owns their order, file names and titles; how a figure looks is told where it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure

from warpsmith.contracts.variant import Variant
from warpsmith.report.aim_view import plot_titles
from warpsmith.report.baseline_view import least_times_ms
from warpsmith.report.context import Plot, ReportContext
from warpsmith.report.figures import save
from warpsmith.report.plots import memory_figure, speed_figure, speedup_figure
from warpsmith.report.progress_plot import Progress, progress_figure
from warpsmith.report.quantities import origin_told
from warpsmith.report.roofline import STEM as ROOFLINE
from warpsmith.report.roofline_change import roofline_change_figure

MEDIAN = "median and 95% interval"
TRIMMED_MEAN = "trimmed mean over rounds and 95% interval"


def save_plots(folder: Path, context: ReportContext) -> tuple[Plot, ...]:
    """Draws what there is data for into `folder`, which is made where it is missing, as <name>.png and <name>.svg.

    Before them all that was known before the report and lies there: the sweeps of the variants, and, where no winner
    was measured afresh, the roofline of the original.
    """
    return (*_fresh(folder, context), *_progress(folder, context), *_earlier(folder, context))


def _fresh(folder: Path, context: ReportContext) -> tuple[Plot, ...]:
    """Those of the fresh measurement."""
    name, source, samples = context.profile.kernel, _source(context), _there(context.samples.confirmation)
    drawn: list[tuple[Figure, str, str]] = []
    if context.speedups:
        figure = speedup_figure(context.speedups, f"{source}; {TRIMMED_MEAN}", context.search.noise_floor)
        drawn.append((figure, "speedup", f"Speed-up of {name} over the original, by case and mode"))
    if any(row.time_ms is not None for row in context.rows):
        figure = speed_figure(context.rows, f"{source}; {MEDIAN}", least_times_ms(context.profile))
        drawn.append((figure, "speed", f"Time of {name} and its baselines, by case and mode"))
    if any(row.peak_bytes is not None for row in context.rows):
        weighed = " and ".join(dict.fromkeys(row.provider for row in context.rows if row.peak_bytes is not None))
        figure = memory_figure(context.rows, f"{source}; exact, as the allocator counts")
        drawn.append((figure, "memory", f"Peak memory of {name}, {weighed}, by case and mode"))
    if (change := roofline_change_figure(context.profile, context.speedups)) is not None:
        drawn.append((change, "roofline_change", f"Roofline of {name} before and after, by case and mode"))
    return tuple(_with(save(figure, folder, stem, title), samples) for figure, stem, title in drawn)


def _progress(folder: Path, context: ReportContext) -> tuple[Plot, ...]:
    confirmation = context.result.confirmation
    progress = Progress(
        variants=context.variants,
        goal=context.request.goal,
        objective=context.request.objective,
        confirmation=confirmation.goal if confirmation else None,
        noise_floor=context.search.noise_floor,
    )
    figure = progress_figure(progress, f"{_source(context)}; {TRIMMED_MEAN}, weighted geometric mean over the cases")
    if figure is None:
        return ()
    samples = (*context.samples.variants.values(), *_there(context.samples.confirmation))
    title = f"What each variant of {context.profile.kernel} brought, and the best so far"
    return (_with(save(figure, folder, "progress", title), samples),)


def _earlier(folder: Path, context: ReportContext) -> tuple[Plot, ...]:
    """Figures that the stages before drew, those that lie there in both forms."""
    found = [plot for variant in context.variants for plot in _sweeps(variant, context)]
    if not context.speedups:
        title = f"Roofline of the original {context.profile.kernel}, by case and mode"
        png = folder / f"{ROOFLINE}.png"
        samples = _there(context.samples.baseline)
        found.insert(0, Plot(title=title, png=png, svg=png.with_suffix(".svg"), samples=samples))
    return tuple(plot for plot in found if plot.png.is_file() and plot.svg.is_file())


def _sweeps(variant: Variant, context: ReportContext) -> Iterable[Plot]:
    for title, path in plot_titles(variant).items():
        png = context.folder / path
        told = f"v{variant.number}: {title[:1].lower()}{title[1:]}, by its settings"
        yield Plot(title=told, png=png, svg=png.with_suffix(".svg"), samples=_there(context.samples.sweep))


def _source(context: ReportContext) -> str:
    return f"{context.profile.kernel}, {origin_told(context.profile.origin, context.profile.device)}"


def _there(path: Path | None) -> tuple[Path, ...]:
    return () if path is None else (path,)


def _with(plot: Plot, samples: tuple[Path, ...]) -> Plot:
    return plot.model_copy(update={"samples": samples})
