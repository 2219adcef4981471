"""The roofline plot: what is drawn for which profile, read from the Figure object."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import measured_fixtures as measured
import numpy as np
import profile_fixtures as profiles
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from warpsmith.contracts.case import DType, Mode
from warpsmith.contracts.profile import Headroom, Profile
from warpsmith.report.roofline import roofline_figure, save_roofline
from warpsmith.report.roofline_axes import MODE_COLOURS
from warpsmith.report.roofline_panels import Mark, Panel, roofline_panels


def with_headrooms(profile: Profile, **changes: object) -> Profile:
    modes = tuple(
        mode.model_copy(update={"headrooms": tuple(h.model_copy(update=changes) for h in mode.headrooms)})
        for mode in profile.modes
    )
    return profile.model_copy(update={"modes": modes})


def drawn(profile: Profile) -> Figure:
    figure = roofline_figure(profile)
    assert figure is not None
    return figure


def titles(figure: Figure) -> list[str]:
    return [axes.get_title().partition(":")[0] for axes in figure.axes]


def points(figure: Figure, axes: int, *, hollow: bool = False) -> list[tuple[float, float]]:
    """What is drawn as a mark in a panel; full ones have a face."""
    found = (c for c in figure.axes[axes].collections if isinstance(c, PathCollection))
    return [tuple(c.get_offsets()[0]) for c in found if (len(c.get_facecolor()) == 0) is hollow]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts() if text.get_text()]


def test_a_measured_profile_has_both_panels_with_a_mark_a_mode_and_case() -> None:
    figure = drawn(profiles.profile())

    assert titles(figure) == ["Operations", "Bandwidth"]
    assert [len(points(figure, axes)) for axes in (0, 1)] == [15, 15]
    assert set(legend(figure)) == {
        *("forward", "backward", "full", "by counted bytes"),
        *("2048×2048 bf16", "8192×4096 bf16", "8192×8192 bf16", "4096×16384 bf16", "32768×2048 bf16"),
    }
    assert figure.get_supxlabel().startswith("rms_norm, measured on NVIDIA H200, 2026-11-29;")


def test_a_mark_stands_at_its_intensity_and_at_its_bytes() -> None:
    figure = drawn(profiles.profile())

    # forward at 2048²: 2 · 2048² · 2 bytes and 4 · 2048² operations in 6.1 µs
    assert points(figure, 0)[0] == pytest.approx((1.0, 4 * 2048**2 / 6.1e6))
    assert points(figure, 1)[0] == pytest.approx((16.0, 4 * 2048**2 / 6.1e6))


def test_counted_bytes_are_hollow_marks_of_their_own() -> None:
    (forward, backward) = points(drawn(profiles.profile()), 1, hollow=True)

    assert forward == pytest.approx((0.115e9 / 2**20, 0.115e9 / 33.42e6))
    assert backward == pytest.approx((2.6e8 / 2**20, 2.6e8 / 93.70e6))
    assert "by counted bytes" not in legend(drawn(with_headrooms(profiles.profile(), counted_bytes=None)))


def test_a_line_leads_from_each_mark_to_the_ceiling_that_its_share_is_of() -> None:
    figure = drawn(profiles.profile())
    segments = [s for c in figure.axes[1].collections if not isinstance(c, PathCollection) for s in c.get_segments()]

    ceiling = next(line for line in figure.axes[1].lines if len(line.get_xdata()) == 4)
    mib, tb_s = (np.asarray(values, dtype=float) for values in (ceiling.get_xdata(), ceiling.get_ydata()))
    assert tb_s == pytest.approx([3.1204, 3.1204, 4.1806, 4.1806])
    assert mib[1:3] == pytest.approx([16.0, 256.0])
    assert len(segments) == 15
    for segment in segments:
        assert segment[1][1] == pytest.approx(np.interp(np.log(segment[1][0]), np.log(mib), tb_s))


def test_the_worst_case_of_each_mode_has_its_share() -> None:
    told = [text.get_text() for text in drawn(profiles.profile()).axes[1].texts]

    assert [text for text in told if text.endswith("%")] == ["96%", "57%", "68%"]


def test_without_operations_only_bandwidth_is_drawn() -> None:
    assert titles(drawn(with_headrooms(profiles.profile(), flops=None))) == ["Bandwidth"]


def test_a_kernel_at_the_matmul_ceiling_has_no_bandwidth_to_show() -> None:
    assert titles(drawn(with_headrooms(profiles.profile(), bound="matmul"))) == ["Operations"]


def test_a_predicted_profile_has_dashed_ceilings_and_marks_without_a_height_of_their_own() -> None:
    figure = drawn(profiles.predicted_profile())

    assert titles(figure) == ["Operations"]
    assert {line.get_linestyle() for line in figure.axes[0].lines} == {"--"}
    assert points(figure, 0) == []
    assert points(figure, 0, hollow=True)[0] == pytest.approx((1.0, 4.8))
    assert "ceilings: the data sheet's peaks" in " ".join(figure.get_supxlabel().split())
    assert {line.get_linestyle() for line in drawn(profiles.profile()).axes[0].lines} == {"-"}


def test_no_mark_lies_over_the_name_of_a_roof() -> None:
    heavy = with_headrooms(profiles.predicted_profile(), bound="matmul", flops=10**12)
    figure = drawn(heavy)
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]

    names = {text.get_text(): text.get_window_extent() for text in axes.texts}
    at_the_roof = [axes.transData.transform(point) for point in points(figure, 0, hollow=True)]
    assert sum(x > names["bf16 990 TFLOP/s"].x0 for x, _ in at_the_roof) > 0
    for name, box in names.items():
        # in pixels, of the largest mark
        assert not [at for at in at_the_roof if box.padded(5).contains(*at)], name


def test_a_predicted_roofline_says_what_its_hollow_marks_are() -> None:
    told = " ".join(drawn(profiles.predicted_profile()).get_supxlabel().split())
    assert told.endswith("hollow: the most that the ceilings allow, nothing was run")


def test_roofs_that_could_not_be_told_apart_are_one() -> None:
    tflops = {DType.BFLOAT16: 788.2, DType.FLOAT16: 780.0, DType.FLOAT32: 388.9}
    device = measured.device().model_copy(update={"matmul_tflops": tflops})
    told = [text.get_text() for text in drawn(profiles.profile(device=device)).axes[0].texts]

    assert told == ["copy 4.18 TB/s", "bf16, fp16 788 TFLOP/s", "fp32 389 TFLOP/s"]


def test_operands_of_one_byte_have_a_roof_where_a_case_is_of_them() -> None:
    device = measured.device().model_copy(update={"operand_tflops": {"int8": 1400.0, "float8_e4m3fn": 1300.0}})
    profile = profiles.profile(device=device)

    def roofs(profile: Profile) -> list[str]:
        return [text.get_text() for text in drawn(profile).axes[0].texts]

    assert "int8 1400 TFLOP/s" in roofs(with_headrooms(profile, operands="int8"))
    assert not [roof for roof in roofs(profile) if "int8" in roof or "float8" in roof]


def test_a_gpu_without_matmul_ceilings_has_the_slope_alone() -> None:
    device = measured.device().model_copy(update={"matmul_tflops": {}})

    assert len(drawn(profiles.profile(device=device)).axes[0].lines) == 1


@pytest.mark.parametrize(
    "profile",
    [
        profiles.profile(device=measured.device().model_copy(update={"copy_ceilings": ()})),
        profiles.old_profile(),
        with_headrooms(profiles.predicted_profile(), flops=None),
    ],
    ids=["no ceilings", "no headrooms", "predicted without operations"],
)
def test_nothing_is_drawn_where_there_is_nothing_to_show(profile: Profile, tmp_path: Path) -> None:
    assert roofline_panels(profile) == ()
    assert save_roofline(profile, tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_what_takes_no_operations_has_no_intensity() -> None:
    copy = Headroom(case="64-fp32", weight=1, bound="copy", least_ms=0.1, least_bytes=512, time_ms=0.2, flops=0)
    mark = Mark(Mode.FORWARD, copy)

    assert (mark.intensity, mark.tflops, mark.counted_tb_s) == (None, None, None)
    assert mark.tb_s == pytest.approx(512 / 0.2e9)


@pytest.mark.parametrize("profile", [profiles.profile(), profiles.predicted_profile()], ids=["measured", "predicted"])
def test_legend_and_caption_fit_the_figure(profile: Profile) -> None:
    long_names = tuple(
        mode.model_copy(
            update={
                "headrooms": tuple(
                    h.model_copy(update={"case": f"{h.case}-layout=row_strided"}) for h in mode.headrooms
                )
            }
        )
        for mode in profile.modes
    )
    for each in (profile, profile.model_copy(update={"modes": long_names})):
        figure = drawn(each)
        FigureCanvasAgg(figure).draw()
        for shown in (figure.legends[0].get_window_extent(), figure._supxlabel.get_window_extent()):
            assert shown.x0 >= 0 and shown.x1 <= figure.bbox.x1 and shown.y0 >= 0 and shown.y1 <= figure.bbox.y1


def test_a_mode_looks_the_same_in_both_panels() -> None:
    figure = drawn(profiles.profile())
    for axes in figure.axes:
        faces = {
            tuple(c.get_facecolor()[0])
            for c in axes.collections
            if isinstance(c, PathCollection) and len(c.get_facecolor())
        }
        assert faces == {to_rgba(colour) for colour in MODE_COLOURS.values()}


def test_the_png_stands_beside_the_other_plots_and_is_the_same_again(tmp_path: Path) -> None:
    first = save_roofline(profiles.profile(), tmp_path / "plots")
    again = save_roofline(profiles.profile(), tmp_path / "again")

    assert first == tmp_path / "plots" / "roofline.png" and again is not None
    assert first.read_bytes() == again.read_bytes()
    pixels = matplotlib.image.imread(first)
    assert pixels.shape[1] > 1000
    assert 0.02 < (pixels[..., :3].min(axis=-1) < 0.99).mean() < 0.9


def test_both_panels_are_known_without_drawing() -> None:
    assert roofline_panels(profiles.profile()) == (Panel.OPERATIONS, Panel.BANDWIDTH)
