"""The roofline before and after: where the original stands below the ceilings, and where the winner does.

Both are of the fresh measurement, in which they were timed in turn. Owns which marks there are; how axes and marks
look is `roofline_axes`'.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.profile import Headroom, Profile
from warpsmith.contracts.verdict import CaseSpeedup
from warpsmith.report.device_view import ceilings_origin
from warpsmith.report.plots import GREY
from warpsmith.report.quantities import case_label, origin_told
from warpsmith.report.roofline import Drawing, framed
from warpsmith.report.roofline_axes import (
    MODE_COLOURS,
    Look,
    OperationsFrame,
    bandwidth_frame,
    draw_mark,
    legend_entry,
    looks,
    mark_legend,
)
from warpsmith.report.roofline_panels import Mark, Panel, panels_of

#: Chosen: of the height, so that a line a mode stands above the ceiling.
ROOM_ABOVE = 1.2
BEFORE, AFTER = "original", "optimized"


@dataclass(frozen=True)
class Move:
    """One case in one mode, of the original and of the winner."""

    before: Mark
    after: Mark


def moves(profile: Profile, speedups: Iterable[CaseSpeedup]) -> tuple[Move, ...]:
    """Of the cases and modes of which both a fresh time and the least work are known."""
    times_ms = {(c.case, c.mode): (c.baseline_ms, c.variant_ms) for c in speedups}
    return tuple(
        Move(*(Mark(mode.mode, _timed(headroom, time_ms)) for time_ms in times_ms[headroom.case, mode.mode]))
        for mode in profile.modes
        for headroom in mode.headrooms
        if (headroom.case, mode.mode) in times_ms
    )


def _timed(headroom: Headroom, time_ms: float) -> Headroom:
    """The counters were read of one call of the original at other times than these, so no count stays."""
    changes = {"time_ms": time_ms, "share": headroom.least_ms / time_ms, "counted_bytes": None}
    return headroom.model_copy(update={**changes, "headroom_us": 1e3 * (time_ms - headroom.least_ms)})


def roofline_change_figure(profile: Profile, speedups: Iterable[CaseSpeedup]) -> Figure | None:
    """The plot, a panel for each view that there is data for; None where there is none."""
    found = moves(profile, speedups)
    panels = panels_of(profile.device, [move.before for move in found])
    if not panels:
        return None
    drawings: dict[Panel, Drawing] = {
        Panel.OPERATIONS: lambda axes: _operations(axes, profile.device, found),
        Panel.BANDWIDTH: lambda axes: _bandwidth(axes, profile.device, found),
    }
    figure = framed({panel: drawings[panel] for panel in panels}, _caption(profile, panels))
    entries = [legend_entry(BEFORE, GREY, "o", "none"), legend_entry(AFTER, GREY, "o", GREY)]
    mark_legend(figure, [move.before for move in found], entries)
    return figure


def _caption(profile: Profile, panels: Sequence[Panel]) -> str:
    origin, ceilings = origin_told(profile.origin, profile.device), ceilings_origin(profile)
    parts = [f"{profile.kernel}, {origin}", *([] if ceilings == origin else [f"ceilings: {ceilings}"])]
    parts.append("bytes and operations are the least possible, times are of the fresh measurement")
    if Panel.BANDWIDTH in panels:
        parts.append("per cent of the ceiling: the case of each mode that gained most")
    return "; ".join(parts)


def _operations(axes: Axes, device: DeviceFacts, found: Sequence[Move]) -> None:
    look_of = looks([move.before for move in found])
    for move in found:
        if (x := move.before.intensity) and move.before.tflops and move.after.tflops:
            _draw_move(axes, look_of[move.before], x, (move.before.tflops, move.after.tflops))
    OperationsFrame.of(device, _both(found)).draw(axes)
    axes.set_title("Operations: the roofline", fontsize=9, fontweight="bold")


def _bandwidth(axes: Axes, device: DeviceFacts, found: Sequence[Move]) -> None:
    bound = [move for move in found if move.before.headroom.bound == "copy" and move.before.tb_s and move.after.tb_s]
    look_of = looks([move.before for move in found])
    bandwidth_frame(axes, device, _both(bound))
    axes.set_ylim(0, ROOM_ABOVE * axes.get_ylim()[1])
    for move in bound:
        mib = move.before.headroom.least_bytes / 2**20
        _draw_move(axes, look_of[move.before], mib, (move.before.tb_s or 0.0, move.after.tb_s or 0.0))
    _name_the_gains(axes, bound)
    axes.set_title("Bandwidth: below the copy ceiling", fontsize=9, fontweight="bold")


def _both(found: Sequence[Move]) -> list[Mark]:
    return [mark for move in found for mark in (move.before, move.after)]


def _draw_move(axes: Axes, look: Look, x: float, heights: tuple[float, float]) -> None:
    """A line from the hollow mark of the original up, or down, to the full one of the winner."""
    before, after = heights
    axes.vlines(x, min(before, after), max(before, after), colors=look.colour, linewidth=1.1, alpha=0.6, zorder=3)
    draw_mark(axes, (x, before), look, hollow=True)
    draw_mark(axes, (x, after), look)


def _name_the_gains(axes: Axes, bound: Sequence[Move]) -> None:
    """The shares of the ceiling at the case of each mode that gained most, a line a mode in the upper left."""
    gains = [max(here, key=_gained) for mode in Mode if (here := [m for m in bound if m.before.mode is mode])]
    for index, most in enumerate(gains):
        shares = [f"{100 * (mark.headroom.share or 0.0):.0f}%" for mark in (most.before, most.after)]
        told = f"{most.before.mode.value}: {' → '.join(shares)}, {case_label(most.before.headroom.case)}"
        axes.annotate(
            told, (0, 1), xycoords="axes fraction", xytext=(6, -6 - 11 * index), textcoords="offset points", va="top",
            fontsize=7.5, color=MODE_COLOURS[most.before.mode], fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5}, zorder=6,
        )  # fmt: skip


def _gained(move: Move) -> float:
    return (move.after.headroom.share or 0.0) - (move.before.headroom.share or 0.0)
