"""`--detach`: the same command in a process of its own, which outlives the terminal, the agent and its time limit.

Owns both ends: what starts it, and what it is from its first moment to its last.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from warpsmith.contracts.errors import ExitCode, Unavailable, WarpsmithError
from warpsmith.workspace.atomic import unwritable
from warpsmith.workspace.detached import began, ended, read_detached, take
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import holder

OPTION = "--detach"
#: As a script would: without the folder that it is started in among those that modules come from.
_PROGRAM = "import sys; sys.path[:] = filter(None, sys.path); from warpsmith.cli.detached import main; main()"


def start(workspace: Workspace, words: list[str], *, as_json: bool) -> int:
    """Starts `warpsmith WORDS` and tells how to follow it. Raises Unavailable where the run is being worked on."""
    from warpsmith.cli.output import print_json

    if (held := holder(workspace)) is not None:
        raise Unavailable(
            f"the workspace of {workspace.kernel} is in use by {held}; wait until it has ended, or end it",
            next_command=f"warpsmith status {workspace.kernel}",
        )
    workspace.create()
    words = [word for word in words if word != OPTION]
    descriptor = take(workspace, shlex.join(["warpsmith", *words]))
    try:
        pid = _start(workspace, words, descriptor)
    finally:
        os.close(descriptor)
    found = read_detached(workspace)
    assert found is not None
    if as_json:
        print_json(found.model_copy(update={"pid": pid, "running": True}))
    else:
        print(f"process {pid} runs `{found.command}`\n  log: {found.log}\nnext: {found.follow}")
    return ExitCode.DONE


def _start(workspace: Workspace, words: list[str], descriptor: int) -> int:
    try:
        with workspace.detached_log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(workspace.root), workspace.kernel, *words],
                cwd=workspace.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(descriptor,),
                start_new_session=True,
            ).pid
    except OSError as error:
        raise unwritable(workspace.detached_log, error) from error


def main() -> None:
    """The detached process: arguments are the repository's root, the kernel, and the words of the command."""
    from warpsmith.cli import main as command

    root, kernel, *words = sys.argv[1:]
    workspace, sys.argv = Workspace(Path(root), kernel), ["warpsmith", *words]
    began(workspace)
    try:
        command()
    except SystemExit as end:
        with suppress(WarpsmithError):  # it is told as one that ended without a word
            ended(workspace, end.code if isinstance(end.code, int) else ExitCode.DONE)
        raise
