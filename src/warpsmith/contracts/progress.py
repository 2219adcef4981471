"""How far a run has come, as the process that works on it tells others."""

from __future__ import annotations

from warpsmith.contracts.base import Document


class RunProgress(Document):
    """optimization/<kernel>/.progress.json. Is there while a command works on a stage, and after one was cut off.

    `step` is number `number` of `of` where the steps are known in advance, of `at_most` where they may end earlier.
    `trying` is what is done now; `done` of `total` such items are finished. `left_s` is about how many seconds the
    rest of those items takes, `search_left_s` how many the steps up to `at_most` take at most; both are estimates as
    of `updated_at`, and None where there is nothing to go by. Times are UTC, ISO 8601.
    """

    run_id: str
    pid: int
    stage: str
    started_at: str
    updated_at: str
    step: str
    number: int | None = None
    of: int | None = None
    at_most: int | None = None
    trying: str | None = None
    done: int | None = None
    total: int | None = None
    best: str | None = None
    left_s: float | None = None
    search_left_s: float | None = None
