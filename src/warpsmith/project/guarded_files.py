"""Finds the files that decide about a winner, and their hashes. Must not know what is done about a change."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from warpsmith.contracts.base import Sha256
from warpsmith.project.config import FILE_NAME
from warpsmith.project.snapshot import file_sha256
from warpsmith.workspace.layout import FOLDER as WORKSPACES

#: Where pytest looks for settings, in the root, and warpsmith's own file.
_SETTINGS = (FILE_NAME, "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


def guarded_files(root: Path, target_file: str, tests: Sequence[str], *, source: str) -> dict[str, Sha256]:
    """The target file, the tests of these pytest arguments and what configures them -> sha256, as they are now.

    By path from the root. A test file brings the modules beside it that it names, a folder all Python files below it;
    both the conftest.py files from there up to the root. The kernel's source is what is meant to change, and is never
    among them. Raises PreflightError where a file cannot be read.
    """
    wanted = {root / target_file, *(root / name for name in _SETTINGS)}
    for argument in tests:
        if not argument.startswith("-"):
            wanted.update(_of_test(root, root / argument.partition("::")[0]))
    wanted.discard(root / source)
    return {_told(root, path): file_sha256(path) for path in sorted(wanted) if path.is_file()}


def tree_sha256(folders: Iterable[Path], *, endings: tuple[str, ...], left_out: Path | None = None) -> Sha256:
    """One digest of all files below the folders with these endings, by their paths and contents."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(each for each in folder.rglob("*") if each.suffix in endings and each.is_file()):
            if left_out is None or left_out not in path.parents:
                digest.update(f"{path.relative_to(folder).as_posix()} {file_sha256(path)}\n".encode())
    return digest.hexdigest()


def differences(then: Mapping[str, Sha256], now: Mapping[str, Sha256]) -> list[str]:
    """What became of each file that is not as it was, such as "tests/test_k.py was changed"."""
    told = []
    for name in sorted({*then, *now}):
        if name not in now:
            told.append(f"{name} was deleted")
        elif name not in then:
            told.append(f"{name} was added")
        elif then[name] != now[name]:
            told.append(f"{name} was changed")
    return told


def _of_test(root: Path, path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from _python_files(root, path)
    elif path.is_file():
        yield path
        words = set(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))
        yield from (beside for beside in path.parent.glob("*.py") if beside.stem in words)
    for folder in (path, *path.parents):
        if folder == root or root in folder.parents:
            yield folder / "conftest.py"


def _python_files(root: Path, folder: Path) -> Iterator[Path]:
    """Below the folder, but not in workspaces, environments and what is hidden."""
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and here / name != root / WORKSPACES
            and not (here / name / "pyvenv.cfg").is_file()
        ]
        yield from (here / name for name in names if name.endswith(".py"))


def _told(root: Path, path: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()
