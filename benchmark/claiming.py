"""What must hold of measured figures, and how a page of them tells whether it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpsmith.report import quantities

#: A row of a table.
Cells = Sequence[str]


@dataclass(frozen=True)
class Claim:
    """What was asked, how many it was asked of, and in a line each those of which it is not so."""

    asked: str
    found: str
    failing: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.failing


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
