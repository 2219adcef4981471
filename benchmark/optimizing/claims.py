"""What must hold of the optimized kernels, asked of their samples: each a sentence, yes or no, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from claiming import NONE_SLOWER, Claim, slower_of

from optimizing.fixed import FixedCases
from optimizing.kept import Optimized
from optimizing.rows import Row, comparisons_of
from warpsmith.contracts.verdict import Interval
from warpsmith.verdict.statistics import goal_of

#: What is asked of the geometric mean over the cases that count.
AT_LEAST = 1.25


def claims(kernels: Mapping[str, Optimized], fixed: FixedCases, rows: Sequence[Row]) -> tuple[Claim, ...]:
    return faster(rows, fixed), none_slower(kernels, fixed), nothing_where_nothing_is(kernels, fixed)


def faster(rows: Sequence[Row], fixed: FixedCases) -> Claim:
    counted = [row for row in rows if row.fixed.counts]
    untold = [f"{row.kernel} {row.fixed.mode.value} {row.fixed.case}: not measured" for row in counted if _untold(row)]
    mean = mean_speedup([row for row in counted if not _untold(row)])
    short = [f"{mean} over those that were measured"] if mean is not None and mean.value < AT_LEAST else []
    kernels = len({row.kernel for row in counted})
    return Claim(
        asked=f"The geometric mean of the speed-ups is at least {AT_LEAST}× over the cases below {fixed.line:.0%} of "
        "the ceiling at baseline, each pass at each tuning case alike, fixed before the run; where the original stays "
        "a case counts as 1×",
        found=f"{len(counted)} of {len(rows)} cases and passes, of {kernels} kernels" + (f": {mean}" if mean else ""),
        failing=(*short, *untold) if counted else ("no case counts",),
    )


def mean_speedup(rows: Sequence[Row]) -> Interval | None:
    """Geometric mean over the rows, each alike, with its interval; those that are as they were are exactly 1.

    None where there is no row.
    """
    if not rows:
        return None
    changed = [row.comparison for row in rows if row.comparison is not None]
    if not changed:
        return Interval(value=1.0, low=1.0, high=1.0)
    alike = {comparison.case.name: 1.0 for comparison in changed}
    of_changed, part = goal_of(changed, alike), len(changed) / len(rows)
    value, low, high = (each**part for each in (of_changed.value, of_changed.low, of_changed.high))
    return Interval(value=round(value, 6), low=round(low, 6), high=round(high, 6))


def none_slower(kernels: Mapping[str, Optimized], fixed: FixedCases) -> Claim:
    """Of all cases and modes one family."""
    every = [(kernel, each) for kernel in kernels for each in comparisons_of(kernels, kernel)]
    missing = [f"{each.kernel}: it was not optimized" for each in fixed.kernels if each.kernel not in kernels]
    return Claim(
        asked=NONE_SLOWER,
        found=f"{len(every)} comparisons; {_n_unchanged(kernels)} of {len(kernels)} kernels stay as they are",
        failing=(*slower_of(every), *missing),
    )


def nothing_where_nothing_is(kernels: Mapping[str, Optimized], fixed: FixedCases) -> Claim:
    """A search that ends with a winner says that there is a gain."""
    failing = []
    for kernel, optimized in kernels.items():
        if optimized.winner is not None and not optimized.is_gain:
            assert optimized.confirmed is not None
            outcome, reason = optimized.confirmed.outcome.value, optimized.confirmed.reasons[0]
            failing.append(f"{kernel}: v{optimized.winner} won, and afresh it is {outcome}: {reason}")
    missing = [f"{each.kernel}: it was not optimized" for each in fixed.kernels if each.kernel not in kernels]
    near = [each.kernel for each in fixed.kernels if not any(case.counts for case in each.cases)]
    won = [kernel for kernel, optimized in kernels.items() if optimized.winner is not None]
    of_near = f"; of {', '.join(near)}, where no case counts, {_told(set(near) & set(won))}" if near else ""
    return Claim(
        asked="Nothing is claimed where there is nothing: every winner of a search is a win when it is measured "
        "afresh, in cold processes on other inputs",
        found=f"{len(won)} of {len(kernels)} kernels have a winner{of_near}",
        failing=(*failing, *missing),
    )


def _untold(row: Row) -> bool:
    return row.speedup is None


def _n_unchanged(kernels: Mapping[str, Optimized]) -> int:
    return sum(not optimized.is_gain for optimized in kernels.values())


def _told(won: set[str]) -> str:
    return f"{', '.join(sorted(won))} won" if won else "none has one"
