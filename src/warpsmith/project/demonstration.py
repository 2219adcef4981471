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


def is_demonstration(folder: Path, *, of: Path | None = None) -> bool:
    """Whether the folder was made by `copy_repository`: it carries its own path as a mark, and is no git repository.

    With `of`, whether it is a copy of that repository.
    """
    try:
        mark = json.loads((folder / _MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(mark, dict) or mark.get("copy_at") != str(folder.resolve()) or os.path.lexists(folder / ".git"):
        return False
    return of is None or mark.get("copy_of") == str(of.resolve())


def copy_repository(root: Path, destination: Path, *, source: str, original: bytes) -> None:
    """Copies what git tracks (or, without git, all but what is hidden and caches), with `original` where `source` lies.

    Workspaces stay behind; of a symbolic link, what it points to is copied. A copy that is not finished leaves nothing.
    Raises UsageError where the destination holds anything or `source` is a folder, Unavailable where it cannot be
    written.
    """
    destination = destination.resolve()
    if (root / source).is_dir():
        raise UsageError(f"expected a file of {root} as the kernel's source, found the folder {source!r}")
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise UsageError(
            f"{destination} is there already, and is no demonstration copy of {root}; choose another folder with --into"
        )
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        copying = Path(tempfile.mkdtemp(prefix=f".{destination.name}-", dir=destination.parent))
        try:
            for path in _files(root):
                (copying / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / path, copying / path)
            write_bytes(copying / source, original)
            mark = {"copy_of": str(root.resolve()), "copy_at": str(destination)}
            write_text(copying / _MARK, json.dumps(mark) + "\n")
            os.rename(copying, destination)
        except BaseException:
            shutil.rmtree(copying, ignore_errors=True)
            raise
    except OSError as error:
        raise unwritable(destination, error) from error


def _files(root: Path) -> Iterator[Path]:
    """Files of the repository, relative to its root."""
    known = _known_to_git(root)
    for path in _found(root) if known is None else known:
        if path.parts[0] != WORKSPACES and (root / path).is_file():
            yield path


def _known_to_git(root: Path) -> list[Path] | None:
    """What git tracks or would track at and below `root`. None where it cannot say."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return sorted({Path(os.fsdecode(name)) for name in listed.split(b"\0") if name})


def _found(root: Path) -> list[Path]:
    paths = sorted(path.relative_to(root) for path in root.rglob("*"))
    return [path for path in paths if not any(p.startswith(".") or p in _LEFT_OUT for p in path.parts[:-1])]
