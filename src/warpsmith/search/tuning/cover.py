"""The fewest boxes that cover every tuned cell which the original is not good enough for.

A box has settings that are as good as the best at every cell inside it. Of covers with equally few boxes, the one that
covers the fewest cells where the original would do, then the one with the least regret. The search is exact unless it
runs out of nodes, which a table of some tens of cells does not. Must not know what lies between the cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from warpsmith.search.tuning.axes import Axis
from warpsmith.search.tuning.points import Cell
from warpsmith.search.tuning.space import Key
from warpsmith.source.table_text import Ranges

#: Chosen: enough for the exact answer at 40 cells on a grid, and a second or two at most where it is not.
MAX_NODES = 20_000
MAX_BOXES_A_CELL = 1_000
#: Chosen: regret that differs by less than this share of the best time is below what timing resolves.
REGRET_STEP = 0.001
MAX_ASSIGNMENTS = 4_096


@dataclass(frozen=True)
class Box:
    """Cells that share settings. `ranges` reach from the first to the last of the cells that need a band."""

    ranges: Ranges
    cells: tuple[Cell, ...]

    @cached_property
    def keys(self) -> list[Key]:
        """The settings that suit every cell, least regret first; of equals the one with fewer programs and warps."""
        shared = frozenset.intersection(*(cell.acceptable for cell in self.cells))
        return sorted(shared, key=lambda key: (self.regret(key), sum(value for _, value in key), key))

    def regret(self, key: Key) -> float:
        return math.fsum(cell.regrets[key] for cell in self.cells)

    @cached_property
    def spared(self) -> int:
        """Cells that would not need a band."""
        return sum(not cell.needs_a_band for cell in self.cells)


def contains(ranges: Ranges, sizes: Sequence[int]) -> bool:
    return all(low <= size <= high for size, (low, high) in zip(sizes, ranges, strict=True))


def overlap(a: Ranges, b: Ranges) -> bool:
    return all(x[0] <= y[1] and y[0] <= x[1] for x, y in zip(a, b, strict=True))


def cover(cells: Sequence[Cell], axes: Sequence[Axis]) -> tuple[Box, ...]:
    """The boxes, in the order of their first cells."""
    search = _Search(cells, axes)
    search.go((), _bits(search.needy))
    return search.best


def chosen_keys(boxes: Sequence[Box]) -> tuple[Key, ...]:
    """A choice of settings for each box: least regret, as far as timing resolves it, then fewest distinct settings."""
    fastest = tuple(box.keys[0] for box in boxes)
    if math.prod(len(box.keys) for box in boxes) > MAX_ASSIGNMENTS:
        return fastest
    cells = sum(len(box.cells) for box in boxes)

    def cost(keys: tuple[Key, ...]) -> tuple[int, int, float, int]:
        regret = math.fsum(box.regret(key) for box, key in zip(boxes, keys, strict=True))
        resolved = round(regret / (REGRET_STEP * max(cells, 1)))
        return resolved, len(set(keys)), regret, sum(value for key in keys for _, value in key)

    return min(product(*(box.keys for box in boxes)), key=cost)


class _Search:
    """Branch and bound: the first cell that is not covered yet gets, in turn, each box that holds it.

    Sets of cells are bits of an integer, in the order of the cells.
    """

    def __init__(self, cells: Sequence[Cell], axes: Sequence[Axis]) -> None:
        self.axes = axes
        self.cells = sorted(cells, key=lambda cell: cell.sizes)
        self.needy = [i for i, cell in enumerate(self.cells) if cell.needs_a_band]
        self.suited = _bits_by_value((key, i) for i, cell in enumerate(self.cells) for key in cell.acceptable)
        self.at = [_bits_by_value((c.sizes[axis], i) for i, c in enumerate(self.cells)) for axis in range(len(axes))]
        self.within: dict[tuple[int, int, int], int] = {}
        self.boxes: dict[int, list[tuple[int, Box]]] = {}
        self.apart = {a: _bits(b for b in self.needy if not self._suit(self._around(a, b)[1])) for a in self.needy}
        self.best: tuple[Box, ...] = ()
        self.best_cost: tuple[int, int, float] | None = None
        self.nodes = 0

    def go(self, taken: tuple[Box, ...], open_: int) -> None:
        self.nodes += 1
        spared, regret = sum(box.spared for box in taken), math.fsum(box.regret(box.keys[0]) for box in taken)
        cost = (len(taken) + self._at_least(open_), spared, regret)
        if self.best_cost is not None and (cost >= self.best_cost or self.nodes > MAX_NODES):
            return
        if not open_:
            self.best, self.best_cost = taken, cost
            return
        for inside, box in self._boxes_from((open_ & -open_).bit_length() - 1):
            if not any(overlap(box.ranges, other.ranges) for other in taken):
                self.go((*taken, box), open_ & ~inside)

    def _at_least(self, open_: int) -> int:
        """Boxes that these cells need at the least: as many as there are cells that can pairwise share none."""
        count, left = 0, open_
        while left:
            count += 1
            left &= self.apart[(left & -left).bit_length() - 1]
        return count

    def _boxes_from(self, first: int) -> list[tuple[int, Box]]:
        """Every box that holds this cell, with its cells; those with most cells that need a band first."""
        if first not in self.boxes:
            waiting = [self._around(first, first)]
            found = dict(waiting)
            while waiting and len(found) < MAX_BOXES_A_CELL:
                ranges, inside = waiting.pop()
                for index in self.needy:
                    if not inside >> index & 1:
                        wider, held = self._stretched(ranges, index)
                        if wider not in found and self._suit(held):
                            found[wider] = held
                            waiting.append((wider, held))
            boxes = [(inside, self._box(ranges, inside)) for ranges, inside in found.items()]
            proven = [(inside, box) for inside, box in boxes if self._is_proven(box)]
            self.boxes[first] = sorted(proven, key=lambda each: (each[1].spared - len(each[1].cells), each[1].ranges))
        return self.boxes[first]

    def _box(self, ranges: Ranges, inside: int) -> Box:
        return Box(ranges, tuple(cell for i, cell in enumerate(self.cells) if inside >> i & 1))

    def _around(self, a: int, b: int) -> tuple[Ranges, int]:
        """The ranges from one cell to another, and every cell inside them."""
        return self._stretched(tuple((size, size) for size in self.cells[a].sizes), b)

    def _stretched(self, ranges: Ranges, index: int) -> tuple[Ranges, int]:
        """The ranges with one more cell in them, and every cell inside them."""
        sizes = self.cells[index].sizes
        wider = tuple((min(low, size), max(high, size)) for (low, high), size in zip(ranges, sizes, strict=True))
        inside = (1 << len(self.cells)) - 1
        for axis, (low, high) in enumerate(wider):
            if (axis, low, high) not in self.within:
                self.within[axis, low, high] = sum(bits for size, bits in self.at[axis].items() if low <= size <= high)
            inside &= self.within[axis, low, high]
        return wider, inside

    def _suit(self, inside: int) -> bool:
        """Whether there are settings that suit all these cells."""
        return any(not inside & ~bits for bits in self.suited.values())

    def _is_proven(self, box: Box) -> bool:
        """Whether every covering block that the box spans was tuned inside it."""
        for index, axis in enumerate(self.axes):
            blocks = {axis.block(cell.sizes[index]) for cell in box.cells}
            block = min(blocks)
            while (block := block * 2) < max(blocks):
                if block not in blocks:
                    return False
        return True


def _bits(indices: Iterable[int]) -> int:
    return sum(1 << index for index in indices)


def _bits_by_value(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    """By value, the cells that have it."""
    found: dict[Any, int] = {}
    for value, index in pairs:
        found[value] = found.get(value, 0) | 1 << index
    return found
