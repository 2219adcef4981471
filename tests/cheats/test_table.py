from __future__ import annotations

from cheats.table import PAGE, renewed

from warpsmith.measure.correctness.gate import CHECKS


def test_the_page_has_the_tables_of_the_catalogue() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == renewed(page), "run `make trust`"


def test_the_page_names_every_check_in_order() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = [line.split("**")[1] for line in page.splitlines() if line[:1].isdigit() and "**" in line]

    assert [name for name in named if name not in ("admission", "call")] == list(CHECKS)
