"""The runs of a kernel, this one and those before it, read from what they wrote. Reads only, and renders nothing.

A damaged run is told as damaged and hides none of the others.
"""

from __future__ import annotations

from typing import Any

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import UsageError, WarpsmithError
from warpsmith.contracts.history import RunSummary
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult, RunState, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.stages.checkpoints import state_of
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import PastRun, Workspace

#: Chosen: the newest, to find one's own among.
SHOWN_IDS = 8


def current_run(workspace: Workspace, *, terminal_only: bool = False) -> RunSummary | None:
    """The run that stands in the workspace, or None before the first. Raises UsageError where it is damaged."""
    if not workspace.request.is_file():
        return None
    run_id = read_document(workspace.request, Request).run_id
    return _summary(workspace, run_id, state_of(workspace, terminal_only=terminal_only))


def earlier_runs(workspace: Workspace) -> tuple[RunSummary, ...]:
    """The runs in the history, newest first; what is wrong with a damaged one stands in it."""
    return tuple(_summary_or_damage(past) for past in workspace.past())


def find_run(workspace: Workspace, wanted: str) -> Workspace:
    """The run whose id is `wanted` or, alone among all, begins with it. Raises UsageError naming the ids."""
    runs: dict[str, Workspace] = {past.run_id: past for past in workspace.past()}
    if workspace.request.is_file():
        runs = {read_document(workspace.request, Request).run_id: workspace, **runs}
    if wanted in runs:
        return runs[wanted]
    found = [run_id for run_id in runs if wanted and run_id.startswith(wanted)]
    if len(found) == 1:
        return runs[found[0]]
    kernel = workspace.kernel
    why = f"{len(found)} runs of {kernel} begin with" if found else f"no run of {kernel} has the id"
    there = list(found or runs)
    more = f", and {len(there) - SHOWN_IDS} more" if len(there) > SHOWN_IDS else ""
    raise UsageError(
        f"{why} {wanted!r}; there are: {', '.join(there[:SHOWN_IDS]) or 'none'}{more}",
        next_command=f"warpsmith status {kernel}" + (" --json" if more else ""),
    )


def prior_notes(workspace: Workspace) -> tuple[Variant, ...]:
    """Every variant's record so far, by number. Raises UsageError where one is damaged."""
    return tuple(read_document(path, Variant) for path in workspace.variant_records())


def _summary_or_damage(past: PastRun) -> RunSummary:
    try:
        return _summary(past, past.run_id, state_of(past))
    except (WarpsmithError, OSError) as error:
        return RunSummary(run_id=past.run_id, damaged=str(error), **_request_fields_if_readable(past))


def _request_fields_if_readable(past: PastRun) -> dict[str, Any]:
    try:
        return _request_fields(past)
    except (WarpsmithError, OSError):
        return {}


def _request_fields(workspace: Workspace) -> dict[str, Any]:
    """Without the goal `full` before a profile is there: a target with one pass has that for a goal."""
    request = read_document(workspace.request, Request)
    is_settled = request.goal is not Mode.FULL or workspace.profile.is_file()
    return {"begun": request.created_at, "goal": request.goal if is_settled else None}


def _summary(workspace: Workspace, run_id: str, state: RunState) -> RunSummary:
    """Raises UsageError where a document of the run cannot be read."""
    request = _request_fields(workspace)
    if state is RunState.DONE:
        return RunSummary(run_id=run_id, state=state, **request, **_ended(workspace))
    if workspace.search_result.is_file():
        return RunSummary(run_id=run_id, state=state, **request, **_searched(workspace))
    return RunSummary(run_id=run_id, state=state, **request, **_predicted(workspace))


def _predicted(workspace: Workspace) -> dict[str, Any]:
    """For which GPU, where nothing was run."""
    request = read_document(workspace.request, Request)
    return {"origin": Origin(kind=OriginKind.PREDICTED, gpu=request.target_gpu)} if request.predicted else {}


def _ended(workspace: Workspace) -> dict[str, Any]:
    final = read_document(workspace.final_result, FinalResult)
    speedup = final.confirmation.speedup if final.confirmation else None
    told = {"outcome": final.outcome, "winner": final.winner, "speedup": speedup, "origin": final.origin}
    return {**told, "taken_back_at": final.taken_back_at}


def _searched(workspace: Workspace) -> dict[str, Any]:
    search = read_document(workspace.search_result, SearchResult)
    speedup = None
    if search.winner is not None:
        verdict = read_document(workspace.variant_record(search.winner), Variant).verdict
        speedup = verdict.speedup if verdict else None
    return {"winner": search.winner, "speedup": speedup, "origin": search.origin}
