"""Every answer that a worker gave, by the identity of its question. Knows nothing of what a question means."""

from __future__ import annotations

import hashlib
import json
import reprlib
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.lines import append_line, read_lines

_KEYS = frozenset({"identity", "kind", "environment", "recorded_at", "question", "answer"})
#: The protocol since which every record has `protocol` and `sha256`.
HASHED_SINCE_PROTOCOL = 2
#: What a record has under each key, where it has the key, in words and as json.loads gives it.
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "identity": ("a string", (str,)),
    "kind": ("a string", (str,)),
    "protocol": ("a whole number", (int,)),
    "environment": ("an object or null", (dict, type(None))),
    "question": ("an object", (dict,)),
    "answer": ("an object", (dict,)),
    "sha256": ("a string", (str,)),
}


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

    def written(self) -> list[dict[str, Any]]:
        """Every record in the order of the file, also one that a later one of its identity replaced."""
        return [self._checked(record) for record in read_lines(self.path)]

    def _index(self) -> dict[str, dict[str, Any]]:
        if self._records is None:
            self._records = {record["identity"]: record for record in self.written()}
        return self._records

    def _checked(self, record: dict[str, Any]) -> dict[str, Any]:
        if not record.keys() >= _KEYS:
            raise self._damaged(f"expected the keys {sorted(_KEYS)}, found {sorted(record)}")
        for key, (expected, types) in _TYPES.items():
            if key in record and not isinstance(record[key], types):
                raise self._damaged(f"expected {expected} as its {key}, found {reprlib.repr(record[key])}")
        return record

    def _damaged(self, told: str) -> UsageError:
        return UsageError(
            f"{self.path} has a record that is no measurement: {told}; without the file, everything in it is measured "
            "again",
            next_command=f"mv {shlex.quote(str(self.path))} {shlex.quote(f'{self.path}.damaged')}",
        )


def content_sha256(record: Mapping[str, Any]) -> str:
    """The hash of a record as it was first written: of its JSON with sorted keys, without `sha256` and `replayed`."""
    content = {key: value for key, value in record.items() if key not in ("sha256", "replayed")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
