"""What must hold of measured figures, and how a page of them tells whether it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpsmith.report import quantities
from warpsmith.verdict.statistics import Comparison, holm
from warpsmith.verdict.thresholds import Thresholds

#: A row of a table.
Cells = Sequence[str]
#: The product's own: what "slower beyond noise" means in a verdict on a case of the goal.
LIMITS = Thresholds()
NONE_SLOWER = (
    "No case is slower beyond noise, tuning or held out, in any pass or the whole call (by more than "
    f"{LIMITS.case_regression:.0%}, adjusted over all of them)"
)


@dataclass(frozen=True)
class Claim:
    """What was asked, how many it was asked of, and in a line each those of which it is not so."""

    asked: str
    found: str
    failing: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.failing


def slower_of(compared: Sequence[tuple[str, Comparison]]) -> list[str]:
    """Those of one family, by kernel, that are slower by more than a case of the goal may be."""
    adjusted = holm([each.regression_p(LIMITS.case_regression) for _, each in compared])
    return [
        f"{kernel} {each.mode.value} {each.case.name}: {each.speedup}"
        for (kernel, each), p in zip(compared, adjusted, strict=True)
        if p < LIMITS.significance
    ]


def claims_told(asked: Iterable[Claim]) -> str:
    """A list: each with yes or no, and beneath it where it does not hold."""
    lines: list[str] = []
    for claim in asked:
        lines.append(f"- {claim.asked}: **{'yes' if claim.holds else 'no'}** ({claim.found}).")
        lines += [f"  - {quantities.cell(each)}" for each in claim.failing]
    return "\n".join(lines)


def table(head: Cells, rows: Iterable[Cells]) -> str:
    """A table that GitHub shows."""
    lines = [head, ["---"] * len(head), *(list(map(quantities.cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
