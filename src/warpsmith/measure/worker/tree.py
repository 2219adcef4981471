"""A repository's files while a variant runs that nothing keeps from writing: what it changed is seen and put back.

For kernels without Landlock. What is left out: hidden folders (.git too), those that tools fill (below), hidden files
that are new, empty folders, workspaces but for the one that is given, and there what grows while a worker answers.
Watched are the first MOST_FILES files; put back can be those whose contents fit into memory (KEPT_BYTES, each at most
LARGEST_FILE_BYTES). Whoever else writes there in the meantime is taken for the variant, so what was found is moved to
a temporary folder, never thrown away.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from warpsmith.contracts.errors import Unavailable
from warpsmith.workspace.atomic import replace_bytes
from warpsmith.workspace.layout import FOLDER

#: Chosen: what a large repository of kernels has, several times over.
MOST_FILES = 20_000
KEPT_BYTES = 128 << 20
LARGEST_FILE_BYTES = 8 << 20

#: Folders that tools fill while they run.
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "venv", "build", "dist"})

#: What a run appends to while its worker answers.
_GROWING = (".jsonl", ".log")

_Signature = tuple[int, int, int, int]


@dataclass
class _Known:
    """A file: its change time, size, number and mode; its content where it is kept; the target of a link."""

    signature: _Signature
    mode: int
    mtime_ns: int
    content: bytes | None
    link: str | None


@dataclass
class Tree:
    """The files below `root`, and of one workspace. `begin` when a worker is asked and `end` when it has answered.

    Several workers may be asked at once: what one of them changed is then told to whoever ends first.
    """

    root: Path
    workspace: Path
    _known: dict[str, _Known] = field(default_factory=dict, repr=False)
    _asked: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def begin(self) -> None:
        """What is there now is as it should be, unless a worker is being asked already."""
        with self._lock:
            if self._asked == 0:
                self._look()
            self._asked += 1

    def end(self) -> tuple[str, ...]:
        """Puts back what has changed since, and names it, with the folder that holds what was there instead."""
        with self._lock:
            self._asked -= 1
            return self.put_back()

    def put_back(self) -> tuple[str, ...]:
        """The same, of a worker that was asked before and may have gone on."""
        aside = Path(tempfile.mkdtemp(prefix="warpsmith-put-aside-"))
        changes = sorted(self._changes(aside))
        with contextlib.suppress(OSError):  # it has something in it
            aside.rmdir()
        return (*changes, f"what was there instead is in {aside}") if aside.is_dir() else tuple(changes)

    def _look(self) -> None:
        seen: dict[str, _Known] = {}
        kept_bytes = 0
        for path, status in self._files():
            known = self._known.get(path)
            if known is None or known.signature != _signature(status):
                known = _known(path, status, room_bytes=KEPT_BYTES - kept_bytes)
            if known is not None:
                seen[path] = known
                kept_bytes += len(known.content or b"")
        self._known = seen

    def _changes(self, aside: Path) -> Iterator[str]:
        found = dict(self._files())
        for path in found.keys() - self._known.keys():
            if not Path(path).name.startswith("."):
                yield f"{self._told(path)} was added{self._move(path, aside)}"
        for path in list(self._known):
            status = found.get(path)
            if status is None or not self._is_as_it_was(path, status):
                yield f"{self._told(path)} was {'deleted' if status is None else 'changed'}{self._restore(path, aside)}"

    def _is_as_it_was(self, path: str, status: os.stat_result) -> bool:
        before = self._known[path]
        if _signature(status) == before.signature:
            return True
        now = _known(path, status, room_bytes=LARGEST_FILE_BYTES)
        if now is None or (now.content, now.link, now.mode) != (before.content, before.link, before.mode):
            return False
        before.signature = now.signature  # it was only touched
        return before.content is not None or before.link is not None

    def _restore(self, path: str, aside: Path) -> str:
        """What there is to say about it where it is not as it was."""
        known, place = self._known[path], Path(path)
        if known.content is None and known.link is None:
            del self._known[path]
            return " (its content was not kept, so it cannot be put back)"
        said = self._move(path, aside)
        try:
            if known.link is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(known.link)
            elif known.content is not None:
                replace_bytes(place, known.content, mode=known.mode & 0o7777)
                os.utime(place, ns=(known.mtime_ns, known.mtime_ns))
            known.signature = _signature(place.lstat())
        except (OSError, Unavailable) as error:
            return f" (it could not be put back: {error})"
        return said

    def _move(self, path: str, aside: Path) -> str:
        if not os.path.lexists(path):
            return ""
        destination = aside / self._told(path)
        try:
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, destination)
        except OSError as error:
            return f" (it could not be moved: {error})"
        return ""

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Absolute paths, as text: there are many."""
        workspace = str(self.workspace)
        others = {str(self.root / FOLDER), workspace}
        count = 0
        for top in dict.fromkeys((str(self.root), workspace)):
            waiting = [top]
            while waiting:
                folder = waiting.pop()
                for entry in _entries(folder):
                    hidden = entry.name.startswith(".")
                    if entry.is_dir(follow_symlinks=False):
                        if not hidden and entry.name not in _LEFT_OUT and entry.path not in others:
                            waiting.append(entry.path)
                        continue
                    if folder == workspace and (hidden or entry.name.endswith(_GROWING)):
                        continue
                    count += 1
                    if count > MOST_FILES:
                        return
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.path, entry.stat(follow_symlinks=False)

    def _told(self, path: str) -> str:
        top = self.root if Path(path).is_relative_to(self.root) else self.workspace
        return Path(path).relative_to(top).as_posix()


@functools.cache
def tree_of(root: Path, workspace: Path) -> Tree:
    """One for all workers of a repository."""
    return Tree(root, workspace)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _signature(status: os.stat_result) -> _Signature:
    """No program can choose the time of a change, other than that of a modification."""
    return status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode


def _known(path: str, status: os.stat_result, *, room_bytes: int) -> _Known | None:
    """None where it is gone."""
    content = link = None
    try:
        if stat.S_ISLNK(status.st_mode):
            link = os.readlink(path)
        elif stat.S_ISREG(status.st_mode) and status.st_size <= min(room_bytes, LARGEST_FILE_BYTES):
            content = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        content = None  # it cannot be read, so it cannot be put back
    return _Known(_signature(status), status.st_mode, status.st_mtime_ns, content, link)
