"""Takes from a table the ground around a case that was slower, so that the original holds there."""

from __future__ import annotations

import math

from warpsmith.contracts.case import Case
from warpsmith.search.tuning.axes import Axis
from warpsmith.search.tuning.bands import banded
from warpsmith.search.tuning.cover import contains
from warpsmith.search.tuning.points import Cell
from warpsmith.search.tuning.space import ORIGINAL_KEY, Key
from warpsmith.source.table import Band, Basis, SettingsTable

_ITS_OWN: Key = (("settings", 1),)


def sizes_at(table: SettingsTable, case: Case) -> tuple[int, ...]:
    """What the table's axes are at a case. Raises ValueError for a table that does not say what they are."""
    if table.basis is None:
        raise ValueError(f"the table for {table.host_function} does not say what {', '.join(table.axes)} are of a case")
    return tuple(math.prod(case.axes[axis] for axis in product) for product in table.basis.products)


def narrowed(table: SettingsTable, sizes: tuple[int, ...]) -> SettingsTable:
    """The table with the original around these sizes: half way to the tuned sizes of the band that covers them.

    The band goes as a whole where no other tuned sizes are in it.
    """
    kept: list[Band] = []
    for band in table.bands:
        if not contains(band.ranges, sizes):
            kept.append(band)
        elif table.basis is not None:
            kept += _around(band, table.basis, sizes)
    return table.model_copy(update={"bands": tuple(kept)})


def _around(band: Band, basis: Basis, sizes: tuple[int, ...]) -> list[Band]:
    """What is left of a band."""
    tuned = [each for each in basis.tuned if contains(band.ranges, each) and each != sizes]
    cells = [Cell(each, frozenset({_ITS_OWN}), {_ITS_OWN: 0.0}) for each in sorted(set(tuned))]
    cells.append(Cell(sizes, frozenset({ORIGINAL_KEY}), {ORIGINAL_KEY: 0.0}))
    axes = [Axis(covered_up_to) for covered_up_to in basis.covered_up_to]
    return [Band(ranges=ranges, settings=band.settings) for ranges, _ in banded(cells, axes, band.ranges)]
