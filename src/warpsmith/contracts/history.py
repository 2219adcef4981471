"""One run of a kernel among others."""

from __future__ import annotations

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin
from warpsmith.contracts.result import FinalOutcome, RunState
from warpsmith.contracts.verdict import Interval


class RunSummary(Contract):
    """What became of a run. `outcome` is there where it ended; else `state` is where it stopped.

    `speedup` is the winner's over the original in the goal's mode: confirmed afresh where the run ended, as the search
    found it where it did not. `taken_back_at` is when `warpsmith revert` undid it. `damaged` says what of the run
    cannot be read; what could be is there all the same.
    """

    run_id: str
    begun: str | None = None
    goal: Mode | None = None
    state: RunState | None = None
    outcome: FinalOutcome | None = None
    winner: int | None = None
    speedup: Interval | None = None
    origin: Origin | None = None
    taken_back_at: str | None = None
    damaged: str | None = None
