"""`finalize --branch` and `--pr`: the stage, then the hand-over, and what a person is told of it."""

from __future__ import annotations

import sys

from warpsmith.cli.flow import Flow
from warpsmith.cli.output import print_json
from warpsmith.cli.result import EXIT_CODES
from warpsmith.cli.width import first_of, say
from warpsmith.contracts.handover import HandOver
from warpsmith.contracts.result import FinalResult
from warpsmith.stages.handover import Asked, expect_possible, hand_over
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.lock import run_lock

#: Chosen: as many files as one reads through.
_SHOWN_FILES = 5


def finalize_and_hand_over(flow: Flow, branch: str | None, *, pull_request: bool) -> int:
    """What could not be handed over is said before anything is measured or applied."""
    asked = Asked(branch, pull_request)
    with run_lock(flow.workspace):
        if not flow.workspace.final_result.is_file():
            expect_possible(flow.workspace, asked)
        flow.finalize_locked()
        if not flow.as_json:
            flow.tell_result()
        handed_over = hand_over(flow.workspace, asked)
    result = read_document(flow.workspace.final_result, FinalResult)
    if flow.as_json:
        told = None if handed_over is None else handed_over.model_dump(mode="json")
        print_json({**result.model_dump(mode="json"), "hand_over": told})
    else:
        say([f"  {line}" for line in told_of(flow, handed_over)], sys.stdout)
    return EXIT_CODES[result.outcome]


def told_of(flow: Flow, handed_over: HandOver | None) -> list[str]:
    if handed_over is None:
        return ["no branch: nothing was applied"]
    branch = handed_over.branch
    lines = [f"branch: {branch}, commit {handed_over.commit[:12]}; see it with git show {branch}"]
    if handed_over.left_behind:
        names = ", ".join(first_of(handed_over.left_behind, _SHOWN_FILES, "`git diff --stat` shows them"))
        lines.append(f"not on it, though it was tested with them: changes that are not committed, to {names}")
    if (proposed := handed_over.pull_request) is not None:
        lines.append(f"pull request: {proposed.url or f'not opened: {proposed.reason}'}")
        lines.append(f"  its text: {flow.workspace.relative(flow.workspace.pull_request)}")
        lines += [f"  open it with: {proposed.command}"] if proposed.command else []
    return lines
