"""What `--json` prints where it is no document of its own. Names that stay: docs/schemas/ publishes them."""

from __future__ import annotations

from typing import Any

from warpsmith.contracts.base import Contract
from warpsmith.contracts.detached import DetachedNow
from warpsmith.contracts.handover import HandOver
from warpsmith.contracts.history import RunSummary
from warpsmith.contracts.progress import RunProgress
from warpsmith.contracts.result import FinalResult, NextStep, PredictionSummary


class ErrorTold(Contract):
    """`exit_code` is that of the command; `next_command` mends it, where one does."""

    message: str
    exit_code: int
    next_command: str | None


class Failure(Contract):
    """What every command prints in place of its result where it fails."""

    error: ErrorTold


class ListedKernel(Contract):
    """A line of `list`. `problem` says what is wrong with the kernel's workspace."""

    kernel: str
    target: str
    next: str | None
    where: str | None
    problem: str | None


class Running(Contract):
    """The process that works on a run now, as far as it has said so."""

    pid: int | None
    started: str | None


class ProgressNow(RunProgress):
    """`elapsed_s` since the stage was taken up; None where nobody works on it."""

    elapsed_s: float | None


class Status(Contract):
    """What `status` prints. `detached` is the command that was last started so; `history` the runs before this one."""

    kernel: str
    run: RunSummary | None
    running: Running | None
    progress: ProgressNow | None
    detached: DetachedNow | None
    next: NextStep
    last_event: dict[str, Any] | None
    predictions: PredictionSummary
    history: tuple[RunSummary, ...]


class HandedOver(FinalResult):
    """What `finalize --branch` and `--pr` print. `hand_over` is None where nothing was applied."""

    hand_over: HandOver | None
