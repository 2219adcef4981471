"""The smallest banded table that stays within a tolerance of the best at every tuned case.

Fewest bands first, then as little as possible of what the original does well enough, then least regret, then fewest
distinct settings. Between tuned cases a band reaches half way to its neighbour, and never out of their hull.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.search.tuning.axes import Axis
from warpsmith.search.tuning.cover import chosen_keys, contains, cover, overlap
from warpsmith.search.tuning.points import Cell, Point, cells_of, named
from warpsmith.search.tuning.space import Key
from warpsmith.source.table import Band
from warpsmith.source.table_text import Ranges


def bands(tuned: Sequence[Point], axes: Sequence[Axis]) -> tuple[Band, ...]:
    """The bands of one element size, small sizes first. Where the original is as good as the best there may be none."""
    cells = cells_of(tuned)
    return tuple(Band(ranges=ranges, settings=named(key)) for ranges, key in banded(cells, axes, hull_of(cells)))


def hull_of(cells: Sequence[Cell]) -> Ranges:
    """From the smallest to the largest tuned size along each axis."""
    return tuple((min(sizes), max(sizes)) for sizes in zip(*(cell.sizes for cell in cells), strict=True))


def banded(cells: Sequence[Cell], axes: Sequence[Axis], hull: Ranges) -> list[tuple[Ranges, Key]]:
    """The fewest bands for these cells, stretched over the ground between them; in order."""
    boxes = cover(cells, axes)
    keys = chosen_keys(boxes)
    alone = [cell for cell in cells if not any(contains(box.ranges, cell.sizes) for box in boxes)]
    tight = [box.ranges for box in boxes] + [tuple((size, size) for size in cell.sizes) for cell in alone]
    grown = _Ground(axes, hull).shared_out(tight)
    return sorted(zip(grown, keys, strict=False))


@dataclass(frozen=True)
class _Ground:
    """The hull, shared out among the boxes and the cells that the original keeps."""

    axes: Sequence[Axis]
    hull: Ranges

    def shared_out(self, tight: Sequence[Ranges]) -> list[Ranges]:
        """Every range stretched, an axis at a time, half way to the next one or to the end of the hull.

        All are stretched at once from where they stand, so none can come to overlap another.
        """
        ranges = list(tight)
        for axis in range(len(self.axes)):
            ranges = [self._stretched(axis, own, ranges) for own in ranges]
        return ranges

    def _stretched(self, axis: int, own: Ranges, others: Sequence[Ranges]) -> Ranges:
        rule, (low, high) = self.axes[axis], own[axis]
        first, last = rule.reach(low, high, self.hull[axis])
        for other in others:
            if other is own or not overlap(_without(own, axis), _without(other, axis)):
                continue
            if other[axis][0] > high:
                last = min(last, rule.between(high, other[axis][0])[0])
            elif other[axis][1] < low:
                first = max(first, rule.between(other[axis][1], low)[1])
        return (*own[:axis], (first, last), *own[axis + 1 :])


def _without(ranges: Ranges, axis: int) -> Ranges:
    return ranges[:axis] + ranges[axis + 1 :]
