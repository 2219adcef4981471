"""A tuned shape and what every choice of settings took there: which choices are as good as the best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from warpsmith.search.tuning.space import ORIGINAL_KEY, Key

#: Settings within this share of the best at a case are as good as the best there.
TOLERANCE = 0.01


def named(key: Key) -> dict[str, int]:
    """The settings by knob name, as a table has them."""
    return {knob_id.rpartition(".")[2]: value for knob_id, value in key}


@dataclass(frozen=True)
class Point:
    """One tuned case: its sizes, one an axis of the table, and the time in ms of every choice that was measured."""

    sizes: tuple[int, ...]
    itemsize: int
    weight: float
    times_ms: dict[Key, float]

    def __post_init__(self) -> None:
        if not self.times_ms:
            raise ValueError(f"expected a time at {self.sizes}, found none")

    def acceptable(self) -> frozenset[Key]:
        """The choices within the tolerance of the best; what was not measured here is none of them."""
        most_ms = min(self.times_ms.values()) * (1 + TOLERANCE)
        return frozenset(key for key, time_ms in self.times_ms.items() if time_ms <= most_ms)

    def regrets(self) -> dict[Key, float]:
        """By choice, the share of the best time that it costs, times the case's weight."""
        best_ms = min(self.times_ms.values())
        return {key: self.weight * (time_ms / best_ms - 1) for key, time_ms in self.times_ms.items()}


@dataclass(frozen=True)
class Cell:
    """All that was tuned at one place of the table: the choices that suit every point there, and what each costs."""

    sizes: tuple[int, ...]
    acceptable: frozenset[Key]
    regrets: Mapping[Key, float]

    @property
    def needs_a_band(self) -> bool:
        """Whether the original is not good enough here."""
        return ORIGINAL_KEY not in self.acceptable


def cells_of(tuned: Iterable[Point]) -> tuple[Cell, ...]:
    """One cell for all points of equal sizes, in order. Where no choice suits them all, the original holds."""
    by_sizes: dict[tuple[int, ...], list[Point]] = {}
    for point in tuned:
        by_sizes.setdefault(point.sizes, []).append(point)
    return tuple(_cell(sizes, points) for sizes, points in sorted(by_sizes.items()))


def _cell(sizes: tuple[int, ...], points: list[Point]) -> Cell:
    shared = frozenset.intersection(*(point.acceptable() for point in points))
    regrets = [point.regrets() for point in points]
    summed = {key: math.fsum(each[key] for each in regrets) for key in shared}
    return Cell(sizes, shared or frozenset({ORIGINAL_KEY}), summed or {ORIGINAL_KEY: 0.0})
