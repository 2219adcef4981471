"""Owns the space of settings at one case: the values of each knob, around what the source does there.

A point is one index an axis. Neighbours differ by one step of one knob. Must not know what runs, or how fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

from warpsmith.contracts.audit import Knob, KnobKind
from warpsmith.contracts.base import Settings
from warpsmith.contracts.launch import LaunchRecord

#: Knobs of the host code: they change the grid and not the machine code.
HOST_ONLY = frozenset({KnobKind.PROGRAMS_PER_SM, KnobKind.PROGRAMS})

#: A knob's value. None leaves the knob out of the settings, so that the source's own value holds.
Value = int | None
Point = tuple[int, ...]
#: Settings as something to look up by: sorted (knob id, value) pairs.
Key = tuple[tuple[str, int], ...]
ORIGINAL_KEY: Key = ()


@dataclass(frozen=True)
class Axis:
    """One knob's values in order, the source's own among them at `original`; `launch` is the original's, with it."""

    knob: Knob
    values: tuple[Value, ...]
    original: int
    launch: LaunchRecord


@dataclass(frozen=True)
class Space:
    """All combinations of the axes' values. `refused` has values of knobs that are not to be tried, with the reason."""

    axes: tuple[Axis, ...]
    refused: Mapping[tuple[str, int], str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        count = 1
        for axis in self.axes:
            count *= len(axis.values)
        return count

    @property
    def origin(self) -> Point:
        """What the source does by itself."""
        return tuple(axis.original for axis in self.axes)

    def settings(self, point: Point) -> Settings:
        values = ((axis.knob.id, axis.values[index]) for axis, index in zip(self.axes, point, strict=True))
        return {knob_id: value for knob_id, value in values if value is not None}

    def points(self) -> Iterator[Point]:
        return product(*(range(len(axis.values)) for axis in self.axes))

    def by_changes(self) -> list[Point]:
        """All points, those that change least first; points that share their machine code follow each other."""

        def order(point: Point) -> tuple[int, Point, int]:
            pairs = list(zip(self.axes, point, strict=True))
            in_code = [(axis, index) for axis, index in pairs if axis.knob.kind not in HOST_ONLY]
            changed = [index != axis.original for axis, index in in_code]
            others = sum(index != axis.original for axis, index in pairs if axis.knob.kind in HOST_ONLY)
            return sum(changed), tuple(index for _, index in in_code), others

        return sorted(self.points(), key=order)

    def nearest(self, settings: Settings) -> Point:
        """The point closest to settings of another space: knob by knob the nearest value, else the source's own."""
        return tuple(_nearest(axis, settings.get(axis.knob.id)) for axis in self.axes)

    def without(self, knob_ids: Iterable[str]) -> Space:
        left_out = set(knob_ids)
        return replace(self, axes=tuple(axis for axis in self.axes if axis.knob.id not in left_out))

    def neighbours(self, point: Point) -> list[Point]:
        """One knob, one step."""
        steps = ((number, step) for number in range(len(self.axes)) for step in (-1, 1))
        return [moved for each in steps if (moved := self._moved(point, [each])) is not None]

    def diagonals(self, point: Point) -> list[Point]:
        """Two knobs, one step each."""
        pairs = combinations(range(len(self.axes)), 2)
        both = ([(a, x), (b, y)] for a, b in pairs for x in (-1, 1) for y in (-1, 1))
        return [moved for each in both if (moved := self._moved(point, each)) is not None]

    def spread(self) -> Iterator[Point]:
        """Points that fill the space evenly, however many are taken; for ever, with repetitions.

        The additive recurrence with the generalised golden ratio (Roberts 2018, The unreasonable effectiveness of
        quasirandom sequences).
        """
        ratio = 2.0
        for _ in range(64):
            ratio = (1 + ratio) ** (1 / (len(self.axes) + 1))
        number = 0
        while True:
            number += 1
            shares = [(0.5 + number / ratio ** (place + 1)) % 1 for place in range(len(self.axes))]
            yield tuple(int(share * len(axis.values)) for share, axis in zip(shares, self.axes, strict=True))

    def _moved(self, point: Point, steps: Sequence[tuple[int, int]]) -> Point | None:
        moved = list(point)
        for number, step in steps:
            moved[number] += step
            if not 0 <= moved[number] < len(self.axes[number].values):
                return None
        return tuple(moved)


def _nearest(axis: Axis, wanted: Value) -> int:
    if wanted is None:
        return axis.values.index(None) if None in axis.values else axis.original
    known = [(abs(value - wanted), index) for index, value in enumerate(axis.values) if value is not None]
    return min(known)[1] if known else axis.original


def key_of(settings: Settings) -> Key:
    return tuple(sorted(settings.items()))


def label(settings: Settings) -> str:
    """A short name for settings: "num_warps=8 programs_per_sm=2"; "original" for none."""
    if not settings:
        return "original"
    return " ".join(f"{knob_id.rpartition('.')[2]}={value}" for knob_id, value in sorted(settings.items()))
