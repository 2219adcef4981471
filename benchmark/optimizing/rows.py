"""What became of each case that was fixed: its speed-up by the raw samples of the last comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optimizing.fixed import FixedCase, FixedCases
from optimizing.kept import Optimized
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL
from warpsmith.contracts.verdict import Interval
from warpsmith.verdict.statistics import Comparison, compare

#: Where the original stays, since nothing faster was found or confirmed.
UNCHANGED = Interval(value=1.0, low=1.0, high=1.0)


@dataclass(frozen=True)
class Row:
    """One pass of a kernel at one tuning case. `comparison` is None where the original stays, or was not tried."""

    kernel: str
    fixed: FixedCase
    was_tried: bool
    comparison: Comparison | None

    @property
    def speedup(self) -> Interval | None:
        """None where the kernel was not tried."""
        if self.comparison is not None:
            return self.comparison.speedup
        return UNCHANGED if self.was_tried else None


def rows_of(kernels: Mapping[str, Optimized], fixed: FixedCases) -> list[Row]:
    """Every case that was fixed, in the order of the list."""
    found: list[Row] = []
    for kernel in fixed.kernels:
        optimized = kernels.get(kernel.kernel)
        by_place = {(c.mode, c.case.name): c for c in comparisons_of(kernels, kernel.kernel)}
        for case in kernel.cases:
            comparison = by_place.get((case.mode, case.case))
            if comparison is None and optimized is not None and optimized.is_gain:
                found.append(Row(kernel.kernel, case, False, None))  # no sample tells what the winner is there
            else:
                found.append(Row(kernel.kernel, case, optimized is not None, comparison))
    return found


def comparisons_of(kernels: Mapping[str, Optimized], kernel: str) -> list[Comparison]:
    """The winner against the original at every case and mode; none where the original stays.

    Each kernel's rounds are drawn independently of the others', whose cases go by the same names.
    """
    optimized = kernels.get(kernel)
    if optimized is None or not optimized.is_gain:
        return []
    seed = list(kernels).index(kernel)
    return [compare(timing, ORIGINAL, OPTIMIZED, seed=seed) for timing in optimized.timings]
