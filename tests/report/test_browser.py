"""report.html in a real browser: it needs nothing else, sorts, has a dark side, and fits a narrow and a wide window.

One start of the browser serves all of it. Skipped where there is no Chromium, or nothing to drive it with.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
import report_fixtures as run

from warpsmith.contracts.result import FinalOutcome
from warpsmith.report.context import Plot
from warpsmith.report.pages import render_html

EXAMPLE = Path(__file__).resolve().parents[2] / "optimization" / "rms_norm" / "report.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
WIDTHS = (400, 1400)
PICTURE = "<svg xmlns='http://www.w3.org/2000/svg' width='900' height='300'/>"
#: What sticks out of the window though nothing around it scrolls.
STICKS_OUT = """() => [...document.querySelectorAll("body *")].filter(element => {
  if (element.closest(".scroll, pre")?.contains(element) && !element.matches(".scroll, pre")) return false;
  return element.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5;
}).map(element => element.outerHTML.slice(0, 100))"""


@dataclass
class Opened:
    """A page in the browser, and what it did that was not to be."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, path: Path) -> None:
        self.requests.clear()
        self.complaints.clear()
        self.page.emulate_media(color_scheme="light")
        self.page.goto(path.as_uri(), wait_until="load")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    with api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield started
        started.close()


@pytest.fixture(scope="module")
def opened(browser: Any) -> Opened:
    page = browser.new_page()
    opened = Opened(page)
    page.on("request", lambda request: opened.requests.append(request.url))
    page.on("console", lambda message: opened.complaints.append(message.text))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    return opened


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The committed example, and a run of each outcome with names that leave no place to break a line."""
    found = {"example": EXAMPLE}
    for outcome in FinalOutcome:
        folder = tmp_path_factory.mktemp(outcome.value)
        plot = Plot(title="Progress", png=folder / "p.png", svg=folder / "p.svg", samples=(folder / "v1_samples.csv",))
        for path, text in ((plot.png, ""), (plot.svg, PICTURE), (plot.samples[0], "comparison,samples\n")):
            path.write_text(text, encoding="utf-8")
        long_name = run.request().model_copy(update={"kernel": "fused_" * 20 + "rms_norm"})
        context = run.context(outcome, folder=folder, request=long_name, plots=(plot,))
        found[outcome.value] = folder / "report.html"
        found[outcome.value].write_text(render_html(context), encoding="utf-8")
    return found


NAMES = ("example", *(outcome.value for outcome in FinalOutcome))


@pytest.mark.parametrize("name", NAMES)
def test_no_request_leaves_the_page_and_nothing_is_complained_of(
    opened: Opened, reports: dict[str, Path], name: str
) -> None:
    opened.open(reports[name])

    assert {url for url in opened.requests if not url.startswith("data:")} == {reports[name].as_uri()}
    assert opened.complaints == []


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_seen_and_every_link_leads_somewhere(
    opened: Opened, reports: dict[str, Path], name: str
) -> None:
    opened.open(reports[name])
    images = opened.page.evaluate("[...document.images].map(i => i.complete && i.naturalWidth > 0 && i.alt !== '')")
    assert images and all(images)

    links = opened.page.evaluate("[...document.links].map(link => link.href)")
    figures = opened.page.locator("figure").all()
    within = [link for link in links if urlparse(link).fragment]
    beside = [Path(unquote(urlparse(link).path)) for link in links if not urlparse(link).fragment]
    assert [figure for figure in figures if not figure.locator(".samples").count()] == []
    assert [path for path in beside if not path.is_file()] == []
    assert [link for link in within if not opened.page.locator(f"[id='{urlparse(link).fragment}']").count()] == []
    assert within and beside


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_of_the_window(opened: Opened, reports: dict[str, Path], name: str, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 900})
    opened.open(reports[name])

    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.page.evaluate(STICKS_OUT) == []


def test_the_table_of_variants_sorts_by_number_and_by_word_and_back(opened: Opened, reports: dict[str, Path]) -> None:
    opened.open(reports["example"])

    def column(index: int) -> list[str]:
        return opened.page.evaluate(
            f"[...document.querySelectorAll('#variants tbody tr')].map(row => row.cells[{index}].textContent)"
        )

    def click(title: str) -> str | None:
        button = opened.page.get_by_role("button", name=title, exact=True)
        button.click()
        return button.evaluate("button => button.parentElement.getAttribute('aria-sort')")

    titles = opened.page.evaluate("[...document.querySelectorAll('#variants th')].map(head => head.textContent)")
    found = titles.index("found in the search")
    by_number = [f"v{number}" for number in range(1, len(column(0)) + 1)]
    assert len(by_number) > 3 and column(0) == by_number
    assert click("found in the search") == "ascending"
    speedups = [float(match[1]) if (match := re.match(r"([\d.]+)×", cell)) else 0.0 for cell in column(found)]
    assert speedups == sorted(speedups) and len(set(speedups)) > 3
    fastest = column(0)[-1]
    assert click("found in the search") == "descending"
    assert column(0)[0] == fastest
    assert click("what") == "ascending"
    assert column(1) == sorted(column(1))
    assert opened.page.evaluate("document.querySelectorAll('#variants [aria-sort]').length") == 1
    assert click("variant") == "ascending" and column(0) == by_number


def test_a_dark_reader_has_a_dark_page_whose_text_and_diff_can_be_read(
    opened: Opened, reports: dict[str, Path]
) -> None:
    opened.open(reports["example"])
    places = {"page": "body", "added": "#diff .added", "removed": "#diff .removed", "soft": ".soft", "link": "nav a"}

    def contrasts() -> dict[str, tuple[float, float]]:
        """By place, the lightness of the ground and the contrast of the text on it (WCAG 2)."""
        return {name: _contrast(opened.page, selector) for name, selector in places.items()}

    light = contrasts()
    opened.page.emulate_media(color_scheme="dark")
    dark = contrasts()
    assert light["page"][0] > 0.9 and dark["page"][0] < 0.05
    assert {name for name in places if light[name] == dark[name]} == set()
    assert {name: c for name, (_, c) in (*light.items(), *dark.items()) if c < 4.5} == {}


def _contrast(page: Any, selector: str) -> tuple[float, float]:
    colours = page.evaluate(
        """selector => {
          const element = document.querySelector(selector), colour = getComputedStyle(element).color;
          let ground = element;
          const clear = ground => getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)";
          while (clear(ground) && ground.parentElement) ground = ground.parentElement;
          return [getComputedStyle(ground).backgroundColor, colour];
        }""",
        selector,
    )
    ground, text = (_luminance(colour) for colour in colours)
    return ground, (max(ground, text) + 0.05) / (min(ground, text) + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * channel for weight, channel in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
