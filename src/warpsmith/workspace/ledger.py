"""What happened in a run, in order, one event a line. For people and for resuming; no stage decides by it."""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.lines import append_line, read_lines


class Ledger:
    """Append-only events: `event`, `at` (UTC, ISO 8601), and whatever fields the event has."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: str, **fields: Any) -> None:
        """Writes an event down; fields are JSON values. Raises Unavailable where it cannot be written."""
        at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        append_line(self.path, {"event": event, "at": at, **fields})

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first. Raises UsageError where the file is damaged."""
        try:
            return read_lines(self.path)
        except UsageError as error:
            aside = shlex.join(["mv", str(self.path), f"{self.path}.damaged"])
            raise UsageError(error.message, next_command=aside) from error
