"""report.html: the report as one file that needs no network. Owns what is inlined: plots and the coloured diff."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from warpsmith.report import report_view
from warpsmith.report.context import Plot, ReportContext
from warpsmith.report.diff import diff_lines
from warpsmith.report.templates import render


@dataclass(frozen=True)
class InlinePlot:
    """A figure inside the page, and links from the page to what lies beside it."""

    title: str
    data_uri: str
    png: str
    svg: str
    samples: tuple[str, ...]


def render_html(context: ReportContext) -> str:
    """The page, with its plots inside. Reads the plots' SVG files; raises OSError where one is missing."""
    plots = [_inlined(context, plot) for plot in context.plots]
    values = report_view.values(context)
    absent = {
        "plots": not plots,
        "correctness": not values["correctness"],
        "costs": not (context.result.confirmation and context.result.confirmation.guardrails),
        "cases": not values["mode_tables"],
    }
    more = {"plots": plots, "diff_lines": diff_lines(context.diff), "absent": {each for each in absent if absent[each]}}
    return render("report.html.j2", values | more)


def _inlined(context: ReportContext, plot: Plot) -> InlinePlot:
    samples = tuple(context.relative(path) for path in plot.samples)
    return InlinePlot(
        plot.title, svg_data_uri(plot.svg), context.relative(plot.png), context.relative(plot.svg), samples
    )


def svg_data_uri(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
