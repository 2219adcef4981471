"""The picture of a sweep: which knobs, which panels, what is marked; read from the Figure objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from warpsmith.contracts.audit import Knob, KnobKind, KnobOrigin
from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import CompiledFacts, LaunchRecord
from warpsmith.report.sweep_plot import NOT_RUN, NOT_TRIED, ORIGINAL_MARK, WINNER_MARK, sweep_figure
from warpsmith.report.sweep_view import MOST_CASES, SweepView, SweptFunction, original_settings, sweep_view

JIT = "_kernel"
WARPS, PROGRAMS, STAGES = f"{JIT}.num_warps", f"{JIT}.programs_per_sm", f"{JIT}.num_stages"
CAPTION = "k, _kernel, backward; measured on NVIDIA H200, 2026-11-29"
#: A row of sweep.csv without its case: knobs, then ms (None: not timed), then the machine code.
Row = tuple[Mapping[str, int], float | None, str | None]


def frame(by_case: Mapping[str, Sequence[Row]], original_ms: float = 1.0, mode: str = "backward") -> pd.DataFrame:
    rows = [
        {"case": case, "mode": mode, **settings, "median_ms": ms, "speedup": ms and original_ms / ms, "binary": code}
        for case, found in by_case.items()
        for settings, ms, code in found
    ]
    knobs = [knob for knob in (WARPS, PROGRAMS, STAGES, "_other.num_warps") if any(knob in row for row in rows)]
    found = pd.DataFrame(rows, columns=["case", "mode", *knobs, "median_ms", "speedup", "binary"])
    return found.astype(dict.fromkeys(knobs, "Int64"))


def grid(case: str = "8192x4096-bf16", scale: float = 1.0) -> dict[str, list[Row]]:
    """num_warps moves the time by half, programs by a tenth, num_stages by nothing much; 32 warps do not compile."""
    rows: list[Row] = [
        ({WARPS: warps, PROGRAMS: programs, STAGES: stages}, scale * ms, f"{warps}{stages}")
        for warps, base in ((4, 1.5), (8, 1.0))
        for programs, factor in ((1, 1.1), (2, 1.0))
        for stages, ms in ((1, base * factor), (2, base * factor + 0.001))
    ]
    return {case: [*rows, ({WARPS: 32, STAGES: 1}, None, None)]}


def function(**marks: Mapping[str, Mapping[str, int]]) -> SweptFunction:
    return SweptFunction(JIT, Mode.BACKWARD, **{"originals": {}, "winners": {}, **marks})  # type: ignore[arg-type]


def view(rows: pd.DataFrame, of: SweptFunction | None = None) -> SweepView:
    found = sweep_view(rows, of or function())
    assert found is not None
    return found


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_title()]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_two_knobs_with_the_largest_spread_are_shown_and_the_others_are_at_their_best() -> None:
    found = view(frame(grid()))

    assert found.knobs == ((WARPS, (4, 8, 32)), (PROGRAMS, (1, 2)))
    assert found.others == (STAGES,)
    (panel,) = found.panels
    np.testing.assert_allclose(panel.relative, [[1.65, 1.1, np.nan], [1.5, 1.0, np.nan]])
    np.testing.assert_array_equal(panel.refused, [[False, False, True], [False, False, True]])
    assert (panel.best_ms, panel.original_ms) == (1.0, pytest.approx(1.0))


def test_settings_of_the_same_machine_code_share_the_time_of_the_one_that_was_timed() -> None:
    rows: list[Row] = [
        ({WARPS: 4, PROGRAMS: 1, STAGES: 1}, 1.2, "a"),
        ({WARPS: 4, PROGRAMS: 2, STAGES: 1}, 1.1, "a"),
        ({WARPS: 8, PROGRAMS: 1, STAGES: 1}, 1.0, "b"),
        ({WARPS: 16, STAGES: 1}, None, "a"),
    ]
    (panel,) = view(frame({"8x8-bf16": rows})).panels

    np.testing.assert_allclose(panel.relative, [[1.2, 1.0, 1.2], [1.1, np.nan, 1.1]])


def test_what_was_not_tried_is_told_from_what_did_not_run() -> None:
    rows: list[Row] = [
        ({WARPS: 4, PROGRAMS: 1}, 1.2, "a"),
        ({WARPS: 4, PROGRAMS: 2}, 1.1, "b"),
        ({WARPS: 8, PROGRAMS: 1}, 1.0, "c"),
        ({WARPS: 16, PROGRAMS: 1}, None, None),
    ]
    found = view(frame({"8x8-bf16": rows}))

    np.testing.assert_array_equal(found.panels[0].refused, [[False, False, True], [False, False, False]])
    assert legend(sweep_figure(found, CAPTION)) == [NOT_RUN, NOT_TRIED]


def test_another_function_and_another_mode_are_no_part_of_it() -> None:
    other = frame({"1x1-bf16": [({"_other.num_warps": 4}, 9.0, "x"), ({"_other.num_warps": 8}, 1.0, "y")]})
    rows = pd.concat([frame(grid()), other, frame(grid("2x2-bf16"), mode="forward")])

    assert [panel.case for panel in view(rows).panels] == ["8192x4096-bf16"]


def test_no_knob_with_two_times_is_no_picture() -> None:
    assert sweep_view(frame({"8x8-bf16": [({WARPS: 4}, 1.0, "a"), ({WARPS: 8}, None, None)]}), function()) is None
    assert sweep_view(frame({}), function()) is None


def test_a_heat_map_has_a_panel_a_case_the_heaviest_first_and_no_more_than_a_page_takes() -> None:
    cases = {f"{n}x64-bf16": grid(f"{n}x64-bf16", scale=n)[f"{n}x64-bf16"] for n in range(1, MOST_CASES + 3)}
    rows = pd.concat(frame({name: found}, original_ms=2.0 * int(name[0])) for name, found in cases.items())
    found = view(rows)
    figure = sweep_figure(found, CAPTION)

    titles = [axes.get_title().splitlines()[0] for axes in panels(figure)]
    assert titles == [f"{n}×64 bf16" for n in range(MOST_CASES + 2, 2, -1)]
    assert found.left_out == 2
    assert "2 lighter cases not shown" in " ".join(figure.get_supxlabel().split())


def test_a_heat_map_says_what_its_axes_colours_and_marks_are() -> None:
    case = "8192x4096-bf16"
    of = function(originals={case: {WARPS: 8, PROGRAMS: 1, STAGES: 1}}, winners={case: {WARPS: 8, PROGRAMS: 2}})
    figure = sweep_figure(view(frame(grid()), of), CAPTION)

    (axes,) = panels(figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("num_warps", "programs_per_sm")
    assert [t.get_text() for t in axes.get_xticklabels()] == ["4", "8", "32"]
    assert [t.get_text() for t in axes.texts] == ["1.65", "1.10", "1.50", "1.00"]
    assert axes.get_title() == "8192×4096 bf16\nbest 1.000 ms; original 1.00×"
    assert legend(figure) == [ORIGINAL_MARK, WINNER_MARK, NOT_RUN]
    marks = {line.get_marker(): (round(line.get_xdata()[0]), round(line.get_ydata()[0])) for line in axes.lines}  # type: ignore[index]
    assert marks == {"o": (1, 0), "*": (1, 1)}
    assert any(axes.get_ylabel() == "time over the best of the case" for axes in figure.axes)
    assert f"{CAPTION}; each cell with the best of num_stages that was tried there" == " ".join(
        figure.get_supxlabel().split()
    )


def test_a_mark_that_is_not_on_the_grid_is_not_drawn() -> None:
    of = function(originals={"8192x4096-bf16": {WARPS: 3, PROGRAMS: 1}})
    figure = sweep_figure(view(frame(grid()), of), CAPTION)

    assert legend(figure) == [NOT_RUN]
    assert not panels(figure)[0].lines


def test_a_single_knob_is_drawn_as_a_line_a_case() -> None:
    rows: list[Row] = [({WARPS: 4}, 1.5, "a"), ({WARPS: 8}, 1.0, "b"), ({WARPS: 16}, 1.2, "c")]
    of = function(originals={"8x8-bf16": {WARPS: 16}}, winners={"8x8-bf16": {WARPS: 8}})
    figure = sweep_figure(view(frame({"8x8-bf16": rows, "9x9-bf16": rows}), of), CAPTION)

    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("num_warps", "time over the best of the case")
    lines = [line for line in axes.lines if len(np.asarray(line.get_xdata())) == 3]
    assert [list(np.asarray(line.get_ydata())) for line in lines] == [[1.5, 1.0, 1.2]] * 2
    assert legend(figure)[-2:] == [ORIGINAL_MARK, WINNER_MARK]
    marks = {line.get_marker(): float(np.asarray(line.get_ydata())[0]) for line in axes.lines if line not in lines}
    assert marks == {"o": 1.2, "*": 1.0}


def test_all_that_is_written_lies_inside_the_figure() -> None:
    cases = {f"{n}x64-bf16": grid(f"{n}x64-bf16", scale=n)[f"{n}x64-bf16"] for n in range(1, 6)}
    for found in (view(frame(cases)), view(frame(grid()).drop(columns=[PROGRAMS, STAGES]))):
        figure = sweep_figure(found, f"{CAPTION}; of a GPU with quite a long name, Server Edition")
        FigureCanvasAgg(figure).draw()
        shown = figure._supxlabel.get_window_extent()
        assert shown.x0 >= 0 and shown.x1 <= figure.bbox.x1 and shown.y0 >= 0
        top = figure.legends[0].get_window_extent()
        assert top.y1 <= figure.bbox.y1 + 1 and top.x0 >= 0 and top.x1 <= figure.bbox.x1


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (KnobKind.NUM_WARPS, "num_warps", 8),
        (KnobKind.NUM_STAGES, "num_stages", 3),
        (KnobKind.PROGRAMS_PER_SM, "programs_per_sm", 1),
        (KnobKind.LOOP_STAGES, "LOOP_STAGES", None),
        (KnobKind.BLOCK_TILING, "BLOCK", 256),
        (KnobKind.MAXNREG, "maxnreg", None),
    ],
)
def test_what_the_original_has_is_read_off_its_launch(kind: KnobKind, name: str, value: int | None) -> None:
    knob = Knob(
        id=f"{JIT}.{name}",
        kind=kind,
        jit_function=JIT,
        host_function="f",
        name=name,
        origin=KnobOrigin.LITERAL,
        variable=None,
        line=1,
        anchor_line=1,
        expression="",
        tunable=True,
    )
    compiled = CompiledFacts(binary_sha256="0" * 64, registers=32, spills=0, shared_bytes=0, num_warps=8, num_stages=3)
    launch = LaunchRecord(
        jit_function=JIT,
        host_function="f",
        line=1,
        grid=(1,),
        constexprs={"BLOCK": 256, "MASKED": True},
        host_integers={},
        host_tensors={},
        compiled=compiled,
    )
    assert original_settings([launch], [knob]) == ({} if value is None else {knob.id: value})
