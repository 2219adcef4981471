"""From what was tuned to the tables of one jit function: one for each function that launches it and element size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.case import Case
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.search.tuning.bands import bands
from warpsmith.search.tuning.keys import KeyAxis, Launched, NoKey, key_axes, tensor_of
from warpsmith.search.tuning.points import Point
from warpsmith.search.tuning.space import Key
from warpsmith.source.launches import read
from warpsmith.source.table import Basis, SettingsTable


@dataclass(frozen=True)
class TunedCase:
    """One tuning case: the original's launches there, and the time in ms of every choice that was measured long.

    A choice that compiles to the machine code and grid of another has the other's time, the original's () as well.
    """

    case: Case
    launches: tuple[LaunchRecord, ...]
    times_ms: dict[Key, float]


@dataclass(frozen=True)
class Tables:
    """Tables with a band at least, and why there are no others."""

    tables: tuple[SettingsTable, ...]
    reasons: tuple[str, ...]


def settings_tables(
    source: str, knobs: Sequence[Knob], tuned: Sequence[TunedCase], width_axis: str, device: DeviceFacts
) -> Tables:
    """The smallest tables for the one jit function that these knobs are of. `source` is what was tuned."""
    (jit_function,) = {knob.jit_function for knob in knobs}
    hosts = dict.fromkeys(e.host_function for each in tuned for e in each.launches if e.jit_function == jit_function)
    if not hosts:
        return Tables((), (f"{jit_function} was launched at no tuning case",))
    settings = frozenset({name for knob in knobs for name in (knob.name, knob.variable) if name is not None})
    tables: list[SettingsTable] = []
    reasons: list[str] = []
    for host_function in hosts:
        here = [(each, _of(each.launches, jit_function, host_function)) for each in tuned]
        written = [
            launch
            for launch in read(source).launches
            if (launch.jit_name, launch.host_function) == (jit_function, host_function)
        ]
        launched = Launched(
            host_function,
            [(each.case, launches) for each, launches in here if launches],
            settings,
            written[0] if len(written) == 1 else None,
        )
        try:
            host = _Host(jit_function, device, launched, tensor_of(launched))
        except NoKey as why:
            reasons.append(str(why))
            continue
        found, why_none = host.tables([each for each, launches in here if launches], width_axis)
        tables += found
        reasons += why_none
    return Tables(tuple(tables), tuple(reasons))


@dataclass(frozen=True)
class _Host:
    """A host function that launches the jit function, and the tensor that it asks for its GPU."""

    jit_function: str
    device: DeviceFacts
    launched: Launched
    tensor: str

    def tables(self, tuned: Sequence[TunedCase], width_axis: str) -> tuple[list[SettingsTable], list[str]]:
        """A table for each element size. Without a key, only where one choice is as good as the best at every case."""
        reasons: list[str] = []
        try:
            axes = key_axes(self.launched, width_axis)
        except NoKey as why:
            axes, reasons = (), [str(why)]
        sizes = sorted({each.case.dtype.itemsize_bytes for each in tuned})
        of_size = {size: [each for each in tuned if each.case.dtype.itemsize_bytes == size] for size in sizes}
        tables = [self._table(size, _points(some, axes), axes) for size, some in of_size.items()]
        return [table for table in tables if table.bands], reasons

    def _table(self, itemsize: int, points: Sequence[Point], axes: Sequence[KeyAxis]) -> SettingsTable:
        rules = [axis.rule for axis in axes]
        return SettingsTable(
            jit_function=self.jit_function,
            host_function=self.launched.host_function,
            capability=self.device.capability,
            sm_count=self.device.sm_count,
            itemsize=itemsize,
            tensor=self.tensor,
            axes=tuple(axis.expression for axis in axes),
            bands=bands(points, rules),
            basis=Basis(
                tuned=tuple(point.sizes for point in points),
                products=tuple(axis.product for axis in axes),
                covered_up_to=tuple(rule.covered_up_to for rule in rules),
            ),
        )


def _points(tuned: Sequence[TunedCase], axes: Sequence[KeyAxis]) -> list[Point]:
    return [
        Point(
            sizes=tuple(axis.size(each.case) for axis in axes),
            itemsize=each.case.dtype.itemsize_bytes,
            weight=each.case.weight,
            times_ms=each.times_ms,
        )
        for each in tuned
    ]


def _of(launches: Sequence[LaunchRecord], jit_function: str, host_function: str) -> list[LaunchRecord]:
    return [e for e in launches if (e.jit_function, e.host_function) == (jit_function, host_function)]
