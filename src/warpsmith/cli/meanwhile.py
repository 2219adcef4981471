"""The next step while others work on the run, and after a detached command that ended badly."""

from __future__ import annotations

from warpsmith.contracts.result import NextStep
from warpsmith.workspace.detached import read_detached
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import holder


def as_it_stands(step: NextStep, workspace: Workspace) -> NextStep:
    """The same step where nobody works on the run; else to look again, as any other command would be refused."""
    held, detached = holder(workspace), read_detached(workspace)
    running = detached is not None and detached.running
    if held is not None or running:
        who = detached.told if detached is not None and running else f"{held} works on it"
        why = f"{who}; wait until it has ended, and look how far it is"
        return step.model_copy(
            update={"command": f"warpsmith status {step.kernel}", "why": why, "read": (), "for_a_person": False}
        )
    if detached is not None and not detached.ended_well:
        known = (*step.known_so_far, f"{detached.told}; its output: {detached.log}")
        return step.model_copy(update={"known_so_far": known})
    return step
