"""The figures of a report: real images, the same bytes for the same figures, each with the samples it is drawn from."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import pytest
import report_fixtures as run

from warpsmith.contracts.result import FinalOutcome
from warpsmith.report.context import Plot, SampleFiles
from warpsmith.report.report_plots import save_plots

STEMS = ["speedup", "speed", "memory", "roofline_change", "progress"]
SWEEP = "sweep_rms_norm_backward_kernel_backward_v1"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("run")
    return files(save_plots(folder / "plots", run.context(folder=folder)))


def files(plots: tuple[Plot, ...]) -> list[Path]:
    return [path for plot in plots for path in (plot.png, plot.svg)]


def stems(plots: tuple[Plot, ...]) -> list[str]:
    return [plot.png.stem for plot in plots]


def lay(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.png").write_bytes(b"a figure")
        (folder / f"{name}.svg").write_bytes(b"a figure")


def test_every_plot_is_a_png_with_something_on_it_and_an_svg_beside_it(drawn: list[Path]) -> None:
    assert [path.name for path in drawn] == [f"{stem}.{kind}" for stem in STEMS for kind in ("png", "svg")]
    for path in drawn[::2]:
        pixels = matplotlib.image.imread(path)
        assert pixels.shape[1] > 1000
        assert 0.02 < (pixels[..., :3].min(axis=-1) < 0.99).mean() < 0.9
    for path in drawn[1::2]:
        assert "measured on NVIDIA H200, 2026-11-29" in path.read_text(encoding="utf-8")


def test_the_same_figures_are_the_same_bytes(drawn: list[Path], tmp_path: Path) -> None:
    again = files(save_plots(tmp_path, run.context(folder=tmp_path)))

    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in drawn]


def test_no_file_carries_the_day_it_was_drawn(drawn: list[Path]) -> None:
    for path in drawn:
        content = path.read_bytes()
        assert b"dc:date" not in content
        assert b"matplotlib.org" not in content


def test_only_what_was_measured_is_drawn(tmp_path: Path) -> None:
    rows = tuple(row.model_copy(update={"peak_bytes": None}) for row in run.provider_rows())

    plots = save_plots(tmp_path, run.context(rows=rows, folder=tmp_path))
    assert stems(plots) == ["speedup", "speed", "roofline_change", "progress"]
    nothing = run.context(FinalOutcome.NO_IMPROVEMENT, variants=())
    assert save_plots(tmp_path / "nothing", nothing) == ()


def test_a_run_without_a_winner_shows_its_progress_and_where_the_original_stands(tmp_path: Path) -> None:
    lay(tmp_path / "plots", "roofline")
    samples = SampleFiles(baseline=tmp_path / "v0.csv", variants={2: tmp_path / "v2.csv"})
    plots = save_plots(tmp_path / "plots", run.context(FinalOutcome.NO_IMPROVEMENT, samples=samples))

    assert stems(plots) == ["progress", "roofline"]
    assert [plot.samples for plot in plots] == [(tmp_path / "v2.csv",), (tmp_path / "v0.csv",)]


def test_each_figure_names_the_samples_it_is_drawn_from(tmp_path: Path) -> None:
    lay(tmp_path / "plots", SWEEP)
    confirmation, sweep, first = (tmp_path / name for name in ("confirmation.csv", "sweep.csv", "v1.csv"))
    samples = SampleFiles(confirmation=confirmation, sweep=sweep, variants={1: first})
    plots = save_plots(tmp_path / "plots", run.context(folder=tmp_path, samples=samples))

    fresh = dict.fromkeys(("speedup", "speed", "memory", "roofline_change"), (confirmation,))
    assert {p.png.stem: p.samples for p in plots} == fresh | {"progress": (first, confirmation), SWEEP: (sweep,)}


def test_a_sweep_whose_picture_is_gone_is_left_out(tmp_path: Path) -> None:
    lay(tmp_path / "plots", SWEEP)
    (tmp_path / "plots" / f"{SWEEP}.svg").unlink()

    assert SWEEP not in stems(save_plots(tmp_path / "plots", run.context(folder=tmp_path)))
