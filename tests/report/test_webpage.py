"""report.html: one file that needs nothing else, with everything in it escaped."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import report_fixtures as run

from warpsmith.contracts.result import FinalOutcome
from warpsmith.report.context import Plot
from warpsmith.report.diff import DiffLine, diff_lines
from warpsmith.report.pages import render_html

Golden = Callable[[str, str], None]
VOID = {"meta", "img", "br"}


class Nesting(HTMLParser):
    """Raises where a tag is closed that is not the innermost open one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


@pytest.fixture
def plot(tmp_path: Path) -> Plot:
    svg = tmp_path / "speedup.svg"
    svg.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    return Plot(title="Speed-up by case", png=tmp_path / "speedup.png", svg=svg)


def test_the_page_is_as_it_was(golden: Golden, plot: Plot) -> None:
    golden("report-applied.html", render_html(run.context(plots=(plot,), folder=plot.png.parent)))


@pytest.mark.parametrize("outcome", list(FinalOutcome))
def test_tags_nest_whatever_the_outcome(outcome: FinalOutcome) -> None:
    parser = Nesting()
    parser.feed(render_html(run.context(outcome)))

    assert parser.open == []


def test_a_plot_is_inside_the_page(plot: Plot) -> None:
    page = render_html(run.context(plots=(plot,)))

    (encoded,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert base64.b64decode(encoded) == plot.svg.read_bytes()


def test_the_page_needs_no_network(plot: Plot) -> None:
    page = render_html(run.context(plots=(plot,)))

    assert re.findall(r'src="(?!data:)', page) == []
    assert {link for link in re.findall(r'href="([^"]*)"', page) if ":" in link or link.startswith("/")} == set()
    assert "http" not in page
    assert "@import" not in page


def test_a_figure_is_linked_to_its_samples(plot: Plot) -> None:
    folder = plot.png.parent
    drawn = plot.model_copy(update={"samples": (folder / "benchmarks" / "v1_samples.csv",)})
    page = render_html(run.context(plots=(drawn,), folder=folder))

    link = '<a class="samples" href="benchmarks/v1_samples.csv">benchmarks/v1_samples.csv</a>'
    assert f"drawn from {link}" in page
    assert '<a href="speedup.png">PNG</a>' in page


def test_a_link_within_the_page_has_its_section(plot: Plot) -> None:
    for outcome in FinalOutcome:
        for plots in ((), (plot,)):
            page = render_html(run.context(outcome, plots=plots))
            assert {link[1:] for link in re.findall(r'href="(#[^"]*)"', page)} <= set(re.findall(r'id="([^"]*)"', page))


def test_the_page_follows_the_readers_colour_scheme() -> None:
    assert "@media (prefers-color-scheme: dark)" in render_html(run.context())


def test_source_text_is_escaped_in_the_diff() -> None:
    page = render_html(run.context())

    assert "<b>" not in page
    assert '<span class="removed">-    # &lt;b&gt; &amp; &#34;quotes&#34;</span>' in page


def test_the_lines_of_a_diff_are_told_apart() -> None:
    diff = "--- a/k.py\n+++ b/k.py\n@@ -1,3 +1,3 @@\n same\n--- removed comment\n+++ added\n"

    assert diff_lines(diff) == (
        DiffLine("head", "--- a/k.py"),
        DiffLine("head", "+++ b/k.py"),
        DiffLine("hunk", "@@ -1,3 +1,3 @@"),
        DiffLine("context", " same"),
        DiffLine("removed", "--- removed comment"),
        DiffLine("added", "+++ added"),
    )


def test_each_cell_that_sorts_by_number_carries_it() -> None:
    page = render_html(run.context())

    assert '<td data-key="1.307">1.307× [1.301, 1.314]</td>' in page
    assert '<td data-key="1.32">1.32× to 1.44×</td>' in page
