"""Every answer that a worker gave, by the identity of its question. Knows nothing of what a question means."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.lines import append_line, read_lines

_KEYS = frozenset({"identity", "kind", "environment", "recorded_at", "question", "answer"})


class MeasurementStore:
    """Append-only; of two records with one identity the last counts. The file is read once and need not exist.

    One whose name ends in .gz is a recording, and only read.

    A record has `identity`, `kind`, `environment` (None where the answer depends on no GPU), `recorded_at` (UTC,
    ISO 8601), `question` and `answer`; `replayed` is true in one that was taken over from a recording. Records written
    since protocol 2 have `protocol`, the version that the question was asked by, and `sha256`, of all that was written
    (see `content_sha256`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, dict[str, Any]] | None = None

    def get(self, identity: str) -> dict[str, Any] | None:
        """The record, or None. Raises UsageError where the file is damaged."""
        return self._index().get(identity)

    def append(
        self,
        *,
        identity: str,
        kind: str,
        protocol: int,
        environment: Mapping[str, Any] | None,
        question: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None:
        """Keeps an answer for good: it is on the disk when this returns. Raises Unavailable where it cannot be."""
        record = {
            "identity": identity,
            "kind": kind,
            "protocol": protocol,
            "environment": None if environment is None else dict(environment),
            "recorded_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "question": dict(question),
            "answer": dict(answer),
        }
        record["sha256"] = content_sha256(record)
        index = self._index()
        append_line(self.path, record)
        index[identity] = record

    def take_over(self, record: Mapping[str, Any]) -> None:
        """Keeps a record of a recording, marked as such for good. Raises Unavailable where it cannot be kept."""
        replayed = {**record, "replayed": True}
        index = self._index()
        append_line(self.path, replayed)
        index[record["identity"]] = replayed

    def records(self) -> Iterator[dict[str, Any]]:
        """Every record that counts, oldest identity first."""
        yield from self._index().values()

    def _index(self) -> dict[str, dict[str, Any]]:
        if self._records is None:
            self._records = {record["identity"]: record for record in map(self._checked, read_lines(self.path))}
        return self._records

    def _checked(self, record: dict[str, Any]) -> dict[str, Any]:
        if not record.keys() >= _KEYS or not isinstance(record["identity"], str):
            raise UsageError(
                f"{self.path} has a record that is no measurement: expected the keys {sorted(_KEYS)}, "
                f"found {sorted(record)}; without the file, everything in it is measured again",
                next_command=f"mv {shlex.quote(str(self.path))} {shlex.quote(f'{self.path}.damaged')}",
            )
        return record


def content_sha256(record: Mapping[str, Any]) -> str:
    """The hash of a record as it was first written: of its JSON with sorted keys, without `sha256` and `replayed`."""
    content = {key: value for key, value in record.items() if key not in ("sha256", "replayed")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
