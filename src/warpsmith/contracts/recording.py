"""A recorded run: what it was asked, on what it was measured, how it ended."""

from __future__ import annotations

from warpsmith.contracts.base import Document, RepositoryPath, Sha256
from warpsmith.contracts.device import Environment, Origin, OriginKind
from warpsmith.contracts.request import RecordingRef, Request
from warpsmith.contracts.result import FinalResult


class Recording(Document):
    """recording.json, beside the answers of the worker and the source as it was before the run.

    `answers` counts the records of measurements.jsonl.gz, and `answers_sha256` is the hash of them uncompressed.
    `elapsed_s` are the seconds from the request to the report: the kernel's tests included, and pauses where there were
    any.
    """

    kernel: str
    source: RepositoryPath
    source_sha256: Sha256
    target_sha256: Sha256
    request: Request
    environment: Environment
    measured_at: str
    elapsed_s: float
    answers: int
    answers_sha256: Sha256
    result: FinalResult
    warpsmith: str

    @property
    def origin(self) -> Origin:
        return Origin(kind=OriginKind.RECORDED, gpu=self.environment.gpu_name, date=self.measured_at[:10])

    @property
    def reference(self) -> RecordingRef:
        return RecordingRef(
            answers_sha256=self.answers_sha256, gpu=self.environment.gpu_name, date=self.measured_at[:10]
        )
