"""Events stay in the order in which they happened."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from warpsmith.workspace.ledger import Ledger


def test_events_are_read_back_in_order_with_their_fields(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")

    ledger.append("begun", run_id="r1")
    ledger.append("variant", number=1, status="judged")

    events = ledger.events()
    assert [{key: value for key, value in event.items() if key != "at"} for event in events] == [
        {"event": "begun", "run_id": "r1"},
        {"event": "variant", "number": 1, "status": "judged"},
    ]
    assert all(datetime.fromisoformat(event["at"]).utcoffset() is not None for event in events)


def test_no_file_is_no_events(tmp_path: Path) -> None:
    assert Ledger(tmp_path / "ledger.jsonl").events() == []
