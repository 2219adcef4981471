"""report.html: the report as one file that needs no network. Owns what is inlined: plots and the coloured diff."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from warpsmith.report import report_view
from warpsmith.report.context import ReportContext
from warpsmith.report.templates import render


@dataclass(frozen=True)
class DiffLine:
    """A line of a unified diff and what it is: head, hunk, added, removed or context."""

    kind: str
    text: str


@dataclass(frozen=True)
class InlinePlot:
    title: str
    data_uri: str


def render_html(context: ReportContext) -> str:
    """The page, with its plots inside. Reads the plots' SVG files; raises OSError where one is missing."""
    plots = [InlinePlot(plot.title, svg_data_uri(plot.svg)) for plot in context.plots]
    return render(
        "report.html.j2",
        report_view.values(context) | {"plots": plots, "diff_lines": diff_lines(context.diff)},
    )


def svg_data_uri(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def diff_lines(diff: str) -> tuple[DiffLine, ...]:
    """The lines by kind. The two name lines stand before the first hunk, so a removed "-- x" is not one."""
    lines: list[DiffLine] = []
    in_hunk = False
    for text in diff.splitlines():
        in_hunk = in_hunk or text.startswith("@@")
        lines.append(DiffLine(_kind(text) if in_hunk else "head", text))
    return tuple(lines)


def _kind(text: str) -> str:
    if text.startswith("@@"):
        return "hunk"
    return {"+": "added", "-": "removed"}.get(text[:1], "context")
