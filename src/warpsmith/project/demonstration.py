"""A scratch copy of a repository in which a recorded winner may be applied, because nobody works in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.atomic import unwritable
from warpsmith.workspace.documents import write_bytes, write_text
from warpsmith.workspace.layout import FOLDER as WORKSPACES

_MARK = ".warpsmith-demonstration"
#: Left out where git cannot tell what belongs to the repository.
_LEFT_OUT = ("__pycache__", "node_modules", "venv", "build", "dist")


def is_demonstration(root: Path) -> bool:
    """Whether the folder was made by `copy_repository`: it carries its own path as a mark, and is no git repository."""
    try:
        mark = json.loads((root / _MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(mark, dict) and mark.get("copy_at") == str(root.resolve()) and not (root / ".git").exists()


def copy_repository(root: Path, destination: Path, *, source: str, original: bytes) -> None:
    """Copies what git tracks (or, without git, everything but caches) and puts `original` where `source` lies.

    Workspaces and hidden folders stay behind. A killed copy leaves nothing at `destination`. Raises UsageError where
    the destination holds anything, Unavailable where it cannot be written.
    """
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise UsageError(
            f"{destination} is there already, and is no demonstration copy",
            next_command="choose another folder with --into, or leave --into out",
        )
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        copying = Path(tempfile.mkdtemp(prefix=f".{destination.name}-", dir=destination.parent))
        for path in _files(root):
            (copying / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / path, copying / path)
        write_bytes(copying / source, original)
        mark = {"copy_of": str(root.resolve()), "copy_at": str(destination.resolve())}
        write_text(copying / _MARK, json.dumps(mark) + "\n")
        os.rename(copying, destination)
    except OSError as error:
        raise unwritable(destination, error) from error


def _files(root: Path) -> Iterator[Path]:
    """Files of the repository, relative to its root."""
    for path in _known_to_git(root) or _found(root):
        visible = not any(part.startswith(".") or part in _LEFT_OUT for part in path.parts[:-1])
        if visible and path.parts[0] != WORKSPACES and (root / path).is_file():
            yield path


def _known_to_git(root: Path) -> list[Path]:
    """What git tracks or would track. Empty where it cannot say."""
    if not (root / ".git").exists():
        return []
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [
        Path(name) for name in sorted({name.decode(errors="surrogateescape") for name in listed.split(b"\0")}) if name
    ]


def _found(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in root.rglob("*"))
