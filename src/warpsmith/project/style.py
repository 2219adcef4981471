"""The repository's style command on one file. It never decides anything: its result is told, not judged."""

from __future__ import annotations

import glob
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.errors import Unavailable, UsageError
from warpsmith.project.commands import run_to_file, tail_of, with_this_python
from warpsmith.workspace.atomic import unwritable

#: Chosen: formatting one file takes seconds.
TIME_LIMIT_S = 300.0

_PLACEHOLDER = "{file}"
_SHOWN_BYTES = 500


@dataclass(frozen=True)
class Styled:
    """What the style command made of a file, and what it did, in words for a report."""

    content: bytes
    told: str


def run_style(root: Path, command: Sequence[str] | None, file: Path) -> Styled:
    """Runs the command on a copy beside the file, where it finds the same configuration; the file is not touched.

    A command that fails, is missing or makes something else than a file of its copy is told, and `content` is then
    the file's own: style is no reason to take a winner back.
    """
    content = file.read_bytes()
    if command is None:
        return Styled(content, "no style command is configured")
    try:
        return _styled(root, command, file, content)
    except (UsageError, Unavailable) as error:
        return Styled(content, f"the style command did not run: {error.message}")
    except OSError as error:
        told = unwritable(Path(error.filename or file), error).message
        return Styled(content, f"the style command did not run: {told}")


def _styled(root: Path, command: Sequence[str], file: Path, content: bytes) -> Styled:
    """Raises UsageError where there is no such command; Unavailable and OSError where the copy cannot be written."""
    with tempfile.TemporaryDirectory(prefix=_copies_prefix(file), dir=file.resolve().parent) as folder:
        copy = Path(folder) / file.name
        copy.write_bytes(content)
        told = _outcome(root, with_this_python(command_for(command, copy)))
        styled = copy.read_bytes() if copy.is_file() and not copy.is_symlink() else None
    shown = shlex.join(command_for(command, Path(file.name)))
    if styled is None:
        return Styled(content, f"`{shown}` {told} and left no file, so the file stays as it is")
    changed = "changed" if styled != content else "did not change"
    return Styled(styled, f"`{shown}` {told} and {changed} the file")


def remove_copies(file: Path) -> None:
    """Deletes what a killed `run_style` left beside the file. Call it only where no other can be running."""
    for folder in file.resolve().parent.glob(f"{glob.escape(_copies_prefix(file))}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _copies_prefix(file: Path) -> str:
    return f".warpsmith-style-{file.name}-"


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
        said = tail_of(log_path, _SHOWN_BYTES).replace(sys.executable, "python").strip() or "it said nothing"
        how = f"exit status {finished.status}" if finished.status is not None else f"killed after {TIME_LIMIT_S:.0f} s"
        return f"failed ({how}: {said})"
