"""Begins runs and takes up unfinished ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import RunState
from warpsmith.stages.checkpoints import state_of
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.runs import archive, new_run_id


@dataclass(frozen=True)
class Options:
    """What the command line asked for. None is "as the unfinished run has it, else the default"."""

    goal: Mode | None = None
    autonomous: bool | None = None
    max_variants: int | None = None
    target_speedup: float | None = None
    device: str | None = None
    fresh: bool = False

    def given(self) -> dict[str, object]:
        fields = ("goal", "autonomous", "max_variants", "target_speedup", "device")
        return {name: value for name in fields if (value := getattr(self, name)) is not None}


def begin(workspace: Workspace, kernel: str, options: Options) -> Request:
    """The unfinished run's request, or a new one; a finished run moves to history first.

    Raises UsageError where the options contradict an unfinished run.
    """
    state = state_of(workspace)
    unfinished = state not in (RunState.NEW, RunState.DONE)
    if unfinished and not options.fresh:
        return _resumed(workspace, kernel, options)
    if state is not RunState.NEW:
        archive(workspace)
    now = datetime.now(timezone.utc)
    request = Request.model_validate(
        {
            "kernel": kernel,
            "run_id": new_run_id(now),
            "created_at": now.isoformat(timespec="seconds"),
            **options.given(),
        }
    )
    workspace.create()
    write_document(workspace.request, request)
    workspace.log("begun", run_id=request.run_id)
    return request


def _resumed(workspace: Workspace, kernel: str, options: Options) -> Request:
    """Autonomy may be given or taken back at any time; anything else would make the measured part another run's."""
    request = read_document(workspace.request, Request)
    wanted = request.model_copy(update=options.given())
    if different := [
        name for name in options.given() if name != "autonomous" and getattr(wanted, name) != getattr(request, name)
    ]:
        raise UsageError(
            f"run {request.run_id} of {kernel} is unfinished and has another {', '.join(different)}",
            next_command=f"warpsmith run {kernel}   (goes on with it; add --fresh to begin anew)",
        )
    if wanted != request:
        write_document(workspace.request, wanted)
    return wanted
