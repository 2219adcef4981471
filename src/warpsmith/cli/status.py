"""`status`: where a kernel's run stands, what another process does on it now, and the runs before it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from warpsmith.cli.output import print_json
from warpsmith.cli.pace import duration
from warpsmith.cli.screen import left_here, search_left, step_line, trying_line
from warpsmith.cli.width import first_of, say
from warpsmith.contracts.detached import DetachedNow
from warpsmith.contracts.device import OriginKind
from warpsmith.contracts.errors import ExitCode, UsageError
from warpsmith.contracts.history import RunSummary
from warpsmith.contracts.printed import ProgressNow, Running, Status
from warpsmith.contracts.progress import RunProgress
from warpsmith.contracts.result import NextStep, PredictionSummary, RunState
from warpsmith.stages import checkpoints
from warpsmith.stages.history import current_run, earlier_runs, prior_notes
from warpsmith.verdict.predictions import check_predictions
from warpsmith.workspace.detached import read_detached
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import Holder, holder
from warpsmith.workspace.progress import read_progress

#: Chosen: the newest runs, on about a screen.
SHOWN_RUNS = 10


@dataclass(frozen=True)
class Standing:
    """What `status` tells. `progress` is the holder's where there is one, else of the command that was cut off."""

    kernel: str
    run: RunSummary | None
    next: NextStep
    holder: Holder | None
    progress: RunProgress | None
    elapsed_s: float | None
    last_event: dict[str, Any] | None
    predictions: PredictionSummary
    earlier: tuple[RunSummary, ...]
    detached: DetachedNow | None = None
    #: what is wrong with the ledger, which tells the last event
    ledger_problem: str | None = None


def print_status(workspace: Workspace, *, terminal_only: bool, as_json: bool) -> int:
    """Never waits for the process that works on the run, and never makes it wait. Raises UsageError."""
    found = standing(workspace, datetime.now(timezone.utc), terminal_only=terminal_only)
    if as_json:
        say(found.ledger_problem or [], sys.stderr)
        print_json(as_data(found))
    else:
        say(told(found), sys.stdout)
    return ExitCode.DONE


def standing(workspace: Workspace, now: datetime, *, terminal_only: bool) -> Standing:
    """Reads it all. `now` is in UTC. Raises UsageError where the current run is damaged."""
    held = holder(workspace)
    run = current_run(workspace, terminal_only=terminal_only)
    progress = _current(read_progress(workspace), run, held)
    elapsed_s = None
    if held is not None and progress is not None:
        elapsed_s = _seconds(progress.started_at, now)
        progress = _as_of(progress, now)
    last_event, ledger_problem = _last_event(workspace)
    return Standing(
        kernel=workspace.kernel,
        run=run,
        next=checkpoints.next_step(workspace, workspace.kernel, terminal_only=terminal_only),
        holder=held,
        progress=progress,
        elapsed_s=elapsed_s,
        last_event=last_event,
        predictions=check_predictions(prior_notes(workspace)),
        earlier=earlier_runs(workspace),
        detached=read_detached(workspace),
        ledger_problem=ledger_problem,
    )


def as_data(found: Standing) -> Status:
    """The same for a program, under names that stay."""
    progress = found.progress
    return Status(
        kernel=found.kernel,
        run=found.run,
        running=None if found.holder is None else Running(pid=found.holder.pid, started=found.holder.started),
        progress=None if progress is None else ProgressNow(**progress.model_dump(), elapsed_s=found.elapsed_s),
        detached=found.detached,
        next=found.next,
        last_event=found.last_event,
        predictions=found.predictions,
        history=found.earlier,
    )


def told(found: Standing) -> list[str]:
    """The same, line by line, for a person."""
    lines = [f"{found.kernel}: {found.next.state.value}" + _activity(found)]
    if found.run is not None:
        lines.append(f"  run {_run_line(found.run)}")
    if found.holder is not None and found.progress is not None:
        lines += _progress_lines(found.progress, found.elapsed_s or 0.0)
    if found.detached is not None:
        lines += [f"  {found.detached.told}", f"    log: {found.detached.log}"]
    if found.holder is None and found.last_event is not None:
        lines.append(f"  last: {found.last_event.get('event', '?')} at {found.last_event.get('at', '?')}")
    if found.ledger_problem is not None:
        lines.append(f"  {found.ledger_problem}")
    lines += [f"  {line}" for line in found.next.known_so_far]
    if found.earlier:
        lines.append("earlier runs:")
        runs = [_run_line(run) for run in found.earlier]
        where = f"`warpsmith status {found.kernel} --json` lists all"
        lines += [f"  {line}" for line in first_of(runs, SHOWN_RUNS, where)]
    if found.holder is None and not (found.detached and found.detached.running):
        lines.append(f"next: {found.next.told}   ({found.next.why})")
    else:
        lines.append(f"next: wait until it has ended; warpsmith status {found.kernel} tells how far it is")
    return lines


def _last_event(workspace: Workspace) -> tuple[dict[str, Any] | None, str | None]:
    """The newest event, or what is wrong with the ledger, which decides nothing else of what is shown."""
    try:
        return workspace.last_event(), None
    except UsageError as error:
        return None, f"{error.message}; put it aside: {error.next_command}"


def _activity(found: Standing) -> str:
    if found.holder is not None:
        return f", running now ({found.holder})"
    if found.progress is not None:
        return f", not running; stopped while: {step_line(found.progress)}"
    if found.detached is not None and found.detached.running:
        return ", starting"
    return "" if found.next.state in (RunState.NEW, RunState.PREDICTED, RunState.DONE) else ", not running"


def _progress_lines(progress: RunProgress, elapsed_s: float) -> list[str]:
    left = [text for text in (left_here(progress), search_left(progress)) if text]
    lines = [f"  step: {step_line(progress)}"]
    if progress.trying is not None:
        lines.append(f"  trying: {trying_line(progress.model_copy(update={'left_s': None}))}")
    if progress.best is not None:
        lines.append(f"  best so far: {progress.best}")
    return [*lines, "  time: " + ", ".join([f"{duration(elapsed_s)} in this stage", *left])]


def _run_line(run: RunSummary) -> str:
    if run.damaged is not None:
        return f"{run.run_id}: damaged: {run.damaged}"
    parts = [run.outcome.value if run.outcome else f"at {run.state.value}" if run.state else "?"]
    if run.taken_back_at is not None:
        parts.append(f"taken back {run.taken_back_at[:10]}")
    if run.goal is not None:
        parts.append(f"goal {run.goal.value}")
    if run.winner is not None:
        parts.append(f"v{run.winner}" + (f" {run.speedup} ×" if run.speedup else ""))
    if run.origin is not None:
        on = "for" if run.origin.kind is OriginKind.PREDICTED else "on"
        gpu = f" {on} {run.origin.gpu}" if run.origin.gpu and run.origin.gpu not in str(run.origin) else ""
        parts.append(f"{run.origin}{gpu}")
    return f"{run.run_id}, begun {run.begun}: {', '.join(parts)}"


def _current(progress: RunProgress | None, run: RunSummary | None, held: Holder | None) -> RunProgress | None:
    """The progress of this run, by the process that holds it or, while nobody does, of the stage it stands at."""
    if progress is None or run is None or progress.run_id != run.run_id:
        return None
    if held is not None:
        return progress if held.pid == progress.pid else None
    return progress if run.state is not None and progress.stage == run.state.value else None


def _as_of(progress: RunProgress, now: datetime) -> RunProgress:
    """What is left now, by the estimates of a moment ago; None where they have run out."""
    age_s = _seconds(progress.updated_at, now)
    left = {
        name: None if (left_s := getattr(progress, name)) is None or left_s <= age_s else left_s - age_s
        for name in ("left_s", "search_left_s")
    }
    return progress.model_copy(update=left)


def _seconds(since: str, now: datetime) -> float:
    """Seconds since a time of an ISO 8601 text; 0 where it lies ahead or is no time."""
    try:
        return max(0.0, (now - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
