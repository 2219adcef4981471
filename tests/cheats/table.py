"""Writes both tables of docs/trust.md from the docstrings of the catalogue: `python tests/cheats/table.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cheats.catalogue import Entry, entries

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trust.md"
_BEGIN, _END = "<!-- {}: written by tests/cheats/table.py -->", "<!-- end of {} -->"


def tables() -> dict[str, str]:
    """Both tables in Markdown, by kind."""
    rejected, accepted = entries("rejected"), entries("accepted")
    return {
        "rejected": _table(
            ("Kernel", "What it does", "Seen", "Caught by"),
            [(_link(each), each.does, each.fields["Seen"], _caught_by(each)) for each in rejected],
        ),
        "accepted": _table(
            ("Kernel", "What it does", "What it looks like"),
            [(_link(each), each.does, each.fields["Looks like"]) for each in accepted],
        ),
    }


def renewed(page: str) -> str:
    """The page with the tables, and how many rows they have, as the catalogue has them now."""
    for kind, table in tables().items():
        begin, end = _BEGIN.format(kind), _END.format(kind)
        before, found_begin, rest = page.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found_begin and found_end):
            raise ValueError(f"{PAGE.name} must have the lines {begin!r} and {end!r}")
        count = len(entries(kind))
        page = f"{before}{begin}\n\n{count} kernels, all of them {kind}.\n\n{table}\n{end}{after}"
    return page


def _link(entry: Entry) -> str:
    return f"[{entry.name}](../tests/cheats/{entry.path.parent.name}/{entry.path.name})"


def _caught_by(entry: Entry) -> str:
    """The check, and the one behind it; where only a GPU shows what the gate finds, that too."""
    checks = [each.check for each in (entry.refused_at_admission, entry.refused_by_the_gate) if each is not None]
    return ", then ".join(checks) + " (on a GPU)" * entry.needs_gpu


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
