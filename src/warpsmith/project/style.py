"""The repository's style command on one file. It never decides anything: its result is told, not judged."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from warpsmith.contracts.errors import UsageError
from warpsmith.project.commands import run_to_file, tail_of, with_this_python
from warpsmith.project.snapshot import file_sha256

#: Chosen: formatting one file takes seconds.
TIME_LIMIT_S = 300.0

_PLACEHOLDER = "{file}"
_SHOWN_BYTES = 500


def run_style(root: Path, command: Sequence[str] | None, file: Path) -> str:
    """Runs the command on the file, which it may change, and tells what happened, for a report.

    A command that fails or is missing is told as well: style is no reason to take a winner back.
    """
    if command is None:
        return "no style command is configured"
    before = file_sha256(file)
    full = with_this_python(command_for(command, file))
    try:
        told = _outcome(root, full)
    except UsageError as error:
        return f"the style command did not run: {error.message}"
    changed = "changed" if file_sha256(file) != before else "did not change"
    shown = shlex.join(command_for(command, Path(file.name)))
    return f"`{shown}` {told} and {changed} the file"


def command_for(command: Sequence[str], file: Path) -> tuple[str, ...]:
    """The command with `{file}` filled in, or with the file as its last word where it has no such place."""
    if not any(_PLACEHOLDER in word for word in command):
        return (*command, str(file))
    return tuple(word.replace(_PLACEHOLDER, str(file)) for word in command)


def _outcome(root: Path, command: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        log_path = Path(folder) / "style.log"
        finished = run_to_file(command, root=root, log_path=log_path, timeout_s=TIME_LIMIT_S)
        if finished.status == 0:
            return "succeeded"
        said = tail_of(log_path, _SHOWN_BYTES).strip() or "it said nothing"
        how = f"exit status {finished.status}" if finished.status is not None else f"killed after {TIME_LIMIT_S:.0f} s"
        return f"failed ({how}: {said})"
