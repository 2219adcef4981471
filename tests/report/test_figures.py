"""Saving figures: real images, the same bytes for the same figures, only what there is data for."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import profile_fixtures as profiles
import pytest
import report_fixtures as run

from warpsmith.report.figures import save_plots

STEMS = ["speedup", "speed", "memory"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return draw(tmp_path_factory.mktemp("run") / "plots")


def draw(folder: Path) -> list[Path]:
    plots = save_plots(folder, profiles.profile(), run.provider_rows(), run.case_speedups(), 0.0012)
    return [path for plot in plots for path in (plot.png, plot.svg)]


def test_every_plot_is_a_png_with_something_on_it_and_an_svg_beside_it(drawn: list[Path]) -> None:
    assert [path.name for path in drawn] == [f"{stem}.{kind}" for stem in STEMS for kind in ("png", "svg")]
    for path in drawn[::2]:
        pixels = matplotlib.image.imread(path)
        assert pixels.shape[1] > 1000
        assert 0.02 < (pixels[..., :3].min(axis=-1) < 0.99).mean() < 0.9
    for path in drawn[1::2]:
        assert "measured on NVIDIA H200, 2026-11-29" in path.read_text(encoding="utf-8")


def test_the_same_figures_are_the_same_bytes(drawn: list[Path], tmp_path: Path) -> None:
    again = draw(tmp_path)

    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in drawn]


def test_no_file_carries_the_day_it_was_drawn(drawn: list[Path]) -> None:
    for path in drawn:
        content = path.read_bytes()
        assert b"dc:date" not in content
        assert b"matplotlib.org" not in content


def test_only_what_was_measured_is_drawn(tmp_path: Path) -> None:
    rows = [row.model_copy(update={"peak_bytes": None}) for row in run.provider_rows()]

    assert [plot.png.stem for plot in save_plots(tmp_path, profiles.profile(), rows)] == ["speed"]
    assert save_plots(tmp_path, profiles.profile(), ()) == ()
