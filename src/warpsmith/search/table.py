"""From a sweep's readings to the smallest banded table that stays within a tolerance of the best everywhere.

A band is a range of row widths (within one power of two, which is what a row's block depends on) and a range
of row counts. Outside the hull of the tuned cases there is no band, so the original expression holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.search.space import NEUTRAL
from warpsmith.search.sweep import Sweep
from warpsmith.source.table import Band, SettingsTable

#: Settings within this share of the best at a case are as good as the best there.
TOLERANCE = 0.01

#: Settings as a hashable key: sorted (knob id, value) pairs. () is the original.
Key = tuple[tuple[str, int], ...]


class NoTable(Exception):
    """The host code has no variable that a table could be keyed by; the message says which is missing."""


@dataclass(frozen=True)
class Point:
    """One tuned case: its row width and row count, and the time in ms of every choice of settings."""

    width: int
    rows: int
    times_ms: dict[Key, float]

    def acceptable(self) -> set[Key]:
        best = min(self.times_ms.values())
        return {key for key, time_ms in self.times_ms.items() if time_ms <= best * (1 + TOLERANCE)}


def settings_table(sweep: Sweep, width_axis: str, device: DeviceFacts) -> SettingsTable:
    """The table for the one jit function that was swept. Raises NoTable."""
    (jit_function,) = {knob.jit_function for knob in sweep.knobs}
    launches = [(c.case, _launch_of(jit_function, c.original_launches)) for c in sweep.cases]
    if not launches:
        raise NoTable(f"{jit_function} was compiled at no tuning case")
    first_case, first_launch = launches[0]
    return SettingsTable(
        jit_function=jit_function,
        host_function=first_launch.host_function,
        capability=device.capability,
        sm_count=device.sm_count,
        itemsize=first_case.dtype.itemsize_bytes,
        tensor=_tensor_variable(launches),
        axes=(
            _integer_variable(launches, lambda case: case.axes[width_axis], "the row width"),
            _integer_variable(launches, lambda case: row_count(case, width_axis), "the number of rows"),
        ),
        bands=bands(points(sweep, width_axis)),
    )


def row_count(case: Case, width_axis: str) -> int:
    """Rows of a case: the product of every axis but the width."""
    return math.prod(size for axis, size in case.axes.items() if axis != width_axis)


def points(sweep: Sweep, width_axis: str) -> list[Point]:
    """The sweep's finalists by case: only what was measured long enough is believed. Neutral values are left out."""
    neutral = {knob.id: NEUTRAL[knob.kind] for knob in sweep.knobs if knob.kind in NEUTRAL}
    found: list[Point] = []
    for case_sweep in sweep.cases:
        case = case_sweep.case
        times: dict[Key, float] = {(): case_sweep.original_ms}
        for settings, time_ms in case_sweep.finalists:
            times[_key({i: v for i, v in settings.items() if neutral.get(i) != v})] = time_ms
        found.append(Point(case.axes[width_axis], row_count(case, width_axis), times))
    return found


def bands(tuned: Sequence[Point]) -> tuple[Band, ...]:
    """The bands, narrow widths first. A stretch where the original is as good as the best gets none."""
    hull_rows = (min(p.rows for p in tuned), max(p.rows for p in tuned))
    hull_width = (min(p.width for p in tuned), max(p.width for p in tuned))
    groups: dict[int, list[Point]] = {}
    for point in sorted(tuned, key=lambda p: (p.width, p.rows)):
        groups.setdefault(_power_of_two_above(point.width), []).append(point)
    result: list[Band] = []
    previous: list[tuple[tuple[int, int], Key]] = []
    for power, group in groups.items():
        low = hull_width[0] if not result and power == min(groups) else power // 2 + 1
        width = (max(hull_width[0], low), min(power, hull_width[1]))
        segments = _segments(group, hull_rows)
        if segments == previous and result and result[-1].ranges[0][1] == width[0] - 1:
            count = sum(1 for _, key in segments if key)
            result[-count:] = [_widened(band, width[1]) for band in result[-count:]]
        else:
            result.extend(Band(ranges=(width, rows), settings=_named(key)) for rows, key in segments if key)
        previous = segments
    return tuple(result)


def _segments(group: Sequence[Point], hull_rows: tuple[int, int]) -> list[tuple[tuple[int, int], Key]]:
    """Row ranges of one power of two of widths, each with settings that are acceptable at every point inside.

    Points of equal rows fall into one range; where they share no settings, the original holds.
    """
    stretches: list[tuple[list[Point], set[Key]]] = []
    for _, equal in groupby(sorted(group, key=lambda p: p.rows), key=lambda p: p.rows):
        here = list(equal)
        acceptable = set.intersection(*(point.acceptable() for point in here)) or {()}
        shared = stretches[-1][1] & acceptable if stretches else set()
        if shared:
            stretches[-1] = ([*stretches[-1][0], *here], shared)
        else:
            stretches.append((here, acceptable))
    ranges: list[tuple[tuple[int, int], Key]] = []
    low = hull_rows[0]
    for index, (inside, shared) in enumerate(stretches):
        last = index == len(stretches) - 1
        high = hull_rows[1] if last else math.isqrt(inside[-1].rows * stretches[index + 1][0][0].rows)
        ranges.append(((low, high), _preferred(inside, shared)))
        low = high + 1
    return ranges


def _preferred(inside: Sequence[Point], shared: set[Key]) -> Key:
    """The original if it is good enough, else the fastest; of equals the one with fewer programs and warps."""
    if () in shared:
        return ()
    return min(shared, key=lambda key: (math.fsum(math.log(p.times_ms[key]) for p in inside), sum(v for _, v in key)))


def _widened(band: Band, widest: int) -> Band:
    (narrowest, _), rows = band.ranges
    return Band(ranges=((narrowest, widest), rows), settings=band.settings)


def narrowed(table: SettingsTable, width: int, rows: int) -> SettingsTable:
    """The table without the bands that cover this shape, so that the original expression holds there."""
    kept = tuple(
        b
        for b in table.bands
        if not all(low <= size <= high for size, (low, high) in zip((width, rows), b.ranges, strict=True))
    )
    return table.model_copy(update={"bands": kept})


def _named(key: Key) -> dict[str, int]:
    return {knob_id.rpartition(".")[2]: value for knob_id, value in key}


def _key(settings: Settings) -> Key:
    return tuple(sorted(settings.items()))


def _power_of_two_above(width: int) -> int:
    return 1 << (width - 1).bit_length()


def _launch_of(jit_function: str, launches: Sequence[LaunchRecord]) -> LaunchRecord:
    for launch in launches:
        if launch.jit_function == jit_function:
            return launch
    raise NoTable(f"{jit_function} was not launched at every case")


def _integer_variable(launches: Sequence[tuple[Case, LaunchRecord]], value: Callable[[Case], int], meaning: str) -> str:
    """The host variable that holds this value at every case."""
    for name in launches[0][1].host_integers:
        if all(launch.host_integers.get(name) == value(case) for case, launch in launches):
            return name
    host = launches[0][1].host_function
    raise NoTable(f"{host} has no integer variable that holds {meaning} at every case, so a table has no key")


def _tensor_variable(launches: Sequence[tuple[Case, LaunchRecord]]) -> str:
    """The first host tensor that has the case's dtype at every case."""
    for name in launches[0][1].host_tensors:
        if all(launch.host_tensors.get(name) == case.dtype.value for case, launch in launches):
            return name
    raise NoTable(f"{launches[0][1].host_function} has no tensor of the case's dtype, so a table has no device to ask")
