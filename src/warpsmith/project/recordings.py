"""Where the recording of a kernel's run lies, and what is in it. Must not know what an answer means."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.recording import Recording
from warpsmith.project.snapshot import read_source, sha256_of
from warpsmith.workspace.documents import read_document, write_bytes, write_document
from warpsmith.workspace.store import MeasurementStore

FOLDER = "data"


@dataclass(frozen=True)
class RecordedRun:
    """A folder beside the target file: `data/<kernel>/`. Properties are paths."""

    directory: Path
    kernel: str

    @classmethod
    def of(cls, target_path: Path, kernel: str) -> RecordedRun:
        return cls(target_path.parent / FOLDER / kernel, kernel)

    @property
    def document(self) -> Path:
        return self.directory / "recording.json"

    @property
    def answers(self) -> Path:
        return self.directory / "measurements.jsonl.gz"

    @property
    def original(self) -> Path:
        """The source as it was before the run."""
        return self.directory / f"original_{self.kernel}.py"

    def read(self) -> Recording | None:
        """What was recorded; None where nothing was. Raises UsageError where it is damaged."""
        return read_document(self.document, Recording) if self.document.is_file() else None

    def store(self, recording: Recording) -> MeasurementStore:
        """The answers. Raises UsageError where they are not the ones that recording.json speaks of."""
        store = MeasurementStore(self.answers)
        found = hashlib.sha256()
        try:
            with gzip.open(self.answers, "rb") as file:
                while chunk := file.read(1 << 20):
                    found.update(chunk)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{self.answers} cannot be read: {error}") from error
        if found.hexdigest() != recording.answers_sha256:
            raise UsageError(
                f"{self.answers} does not belong to {self.document.name} (sha256 {found.hexdigest()[:12]}, expected "
                f"{recording.answers_sha256[:12]})",
                next_command=f"warpsmith record {self.kernel}   (on a machine with a GPU)",
            )
        if any(_is_of_another(record["environment"], recording) for record in store.records()):
            raise UsageError(f"{self.answers} has answers that were not measured on what {self.document.name} says")
        return store

    def original_bytes(self, recording: Recording) -> bytes:
        """The source as it was. Raises UsageError where the file is not what was recorded."""
        content = read_source(self.original)
        if sha256_of(content) != recording.source_sha256:
            raise UsageError(f"{self.original} is not the source that was recorded")
        return content

    def write(self, recording: Recording, answers: bytes, original: bytes) -> None:
        """Replaces the recording; recording.json comes last, so that a torn one is told. The gzip has no time in it."""
        write_bytes(self.original, original)
        write_bytes(self.answers, gzip.compress(answers, mtime=0))
        write_document(self.document, recording)


def _is_of_another(environment: Mapping[str, Any] | None, recording: Recording) -> bool:
    """Whether an answer depends on another GPU or software than the recording's; its UUID may differ."""
    if environment is None or "gpu_name" not in environment:
        return False
    return not recording.environment.is_that_of(environment)
