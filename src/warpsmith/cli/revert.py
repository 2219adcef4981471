"""`revert`: the original in the production file again, after a winner was applied."""

from __future__ import annotations

import sys
from pathlib import Path

from warpsmith.cli.flow import Flow
from warpsmith.cli.output import print_json
from warpsmith.cli.width import say
from warpsmith.contracts.errors import ExitCode
from warpsmith.stages.taking_back import take_back
from warpsmith.workspace.lock import run_lock


def revert(start: Path, kernel: str, *, as_json: bool) -> int:
    """Raises UsageError where nothing was applied, Rejected where the file is not what was applied any more."""
    workspace = Flow.open(start, kernel, as_json=as_json, quiet=True, interactive=False).workspace
    if not workspace.request.is_file():
        taken_back = take_back(workspace)  # raises, and makes no folder
    else:
        with run_lock(workspace):
            taken_back = take_back(workspace)
    if as_json:
        print_json(taken_back)
    else:
        what = "was the original already" if taken_back.was_back else f"is the original again, not v{taken_back.winner}"
        say(f"{kernel}: {taken_back.source} {what}", sys.stdout)
        print(f"next: warpsmith next {kernel}")
    return ExitCode.DONE
