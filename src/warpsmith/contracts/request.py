"""What the user asked for."""

from __future__ import annotations

from pydantic import Field

from warpsmith.contracts.base import Document
from warpsmith.contracts.case import Mode


class Request(Document):
    """optimization/<kernel>/request.json.

    `autonomous` goes through without stopping; otherwise a person approves after profile and after
    optimize. `target_speedup` ends the search early. Times in seconds.
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
