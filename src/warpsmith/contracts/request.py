"""What the user asked for."""

from __future__ import annotations

from pydantic import Field

from warpsmith.contracts.base import Contract, Document, Sha256
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2


class RecordingRef(Contract):
    """The recording whose answers a run replays, by the hash of the answers; GPU and day of its measurements."""

    answers_sha256: Sha256
    gpu: str
    date: str


class Request(Document):
    """optimization/<kernel>/request.json.

    `autonomous` goes through without stopping; otherwise a person approves after profile and after
    optimize. `target_speedup` ends the search early. Times in seconds. `recording` is set when the run begins and
    holds to its end: a run is measured or replayed, never both. `predicted` is set in its place where there was neither
    a GPU nor a recording: such a run has a profile in which nothing was run, and no more. `target_gpu` is a GPU to
    compile for without having it. `l2` is what the timed calls find in the L2 cache.
    """

    kernel: str
    run_id: str
    created_at: str
    goal: Mode = Mode.FULL
    autonomous: bool = False
    max_variants: int = Field(default=8, ge=1)
    target_speedup: float | None = Field(default=None, gt=1)
    time_budget_s: float = Field(default=1800, gt=0)
    device: str = "auto"
    seed: int = 0
    recording: RecordingRef | None = None
    predicted: bool = False
    target_gpu: str | None = None
    l2: L2 = L2.COLD
