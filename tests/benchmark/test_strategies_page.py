"""What is written of strategies is what their cards and the recorded runs say now."""

from __future__ import annotations

import sys
from pathlib import Path

from warpsmith.contracts.track_record import StrategyRecord, TrackRecord
from warpsmith.diagnose.learned import KEPT
from warpsmith.search.strategies import BRIEFS, CATALOGUE
from warpsmith.workspace.documents import read_document

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark"))

import strategies  # noqa: E402

STALE = "run `make strategies`"


def test_the_kept_record_is_that_of_the_committed_runs() -> None:
    assert read_document(KEPT, TrackRecord) == strategies.record_of(strategies.recorded_runs()), STALE


def test_the_page_is_what_cards_and_record_say() -> None:
    record = read_document(KEPT, TrackRecord)

    assert strategies.PAGE.read_text(encoding="utf-8") == strategies.page(record), STALE


def test_the_skill_s_briefs_are_those_of_the_cards() -> None:
    assert strategies.BRIEFS_PAGE.read_text(encoding="utf-8") == strategies.briefs_page(), STALE


def test_every_strategy_has_a_row_and_a_section() -> None:
    page = strategies.page(TrackRecord(runs=("a run",), strategies=()))
    names = [*CATALOGUE, *BRIEFS]

    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == ["What came of predictions", *names]
    assert [name for name in names if f"| [`{name}`](#{name}) |" not in page] == []


def test_the_page_says_where_results_are_too_few_to_correct_by_and_by_how_much_they_do_else() -> None:
    few = StrategyRecord(
        strategy="settings", tried=2, applicable=2, measured=2, accepted=1, within=1, gain=1.2, measured_over_middle=1.1
    )
    many = few.model_copy(update={"tried": 3, "applicable": 3, "measured": 3})

    def row(record: StrategyRecord) -> str:
        page = strategies.page(TrackRecord(runs=("a", "b"), strategies=(record,)))
        return next(line for line in page.splitlines() if line.startswith("| `settings` |"))

    assert row(few) == "| `settings` | 2 | 2 | 2 | 1 | 1 | 1.200× | 1.100× | none: fewer than 3 results |"
    assert row(many).endswith("| 1.100× | × 1.049 |")
