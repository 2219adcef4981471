"""Where runs that have not ended yet lie, so that another command, on another machine, goes on with them.

A scratch project is gone when its command ends. Its workspaces are a folder of the one that results are kept in, so
what is measured is there at once, whatever becomes of the command. What has ended is packed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsmith.workspace.documents import write_text
from warpsmith.workspace.layout import FOLDER

#: The folder, in the one that results are kept in. Out of git, as every folder of workspaces is.
RUNNING = "running"


def keep_workspaces(root: Path, into: Path) -> None:
    """From here on the scratch project at `root` has its workspaces below `into`."""
    running = into.resolve() / RUNNING
    running.mkdir(parents=True, exist_ok=True)
    write_text(running / ".gitignore", "*\n")  # before anything lies there: a scratch copy leaves out what git ignores
    link = root / FOLDER
    if not link.is_symlink():
        link.symlink_to(running, target_is_directory=True)


@contextmanager
def sitting(into: Path, kernel: str, clock: Callable[[], float]) -> Iterator[None]:
    """Writes down how long it was, however it ends but by a kill."""
    began_s = clock()
    try:
        yield
    finally:
        so_far = sittings_s(into, kernel)
        write_text(_told(into, kernel), json.dumps([*so_far, round(clock() - began_s, 1)]))


def sittings_s(into: Path, kernel: str) -> tuple[float, ...]:
    path = _told(into, kernel)
    return tuple(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else ()


def pack(into: Path, kernel: str) -> None:
    """The whole workspace of a run that has ended, as one file."""
    running = into.resolve() / RUNNING
    shutil.make_archive(str(running / kernel), "gztar", running, kernel)
    shutil.rmtree(running / kernel)


def _told(into: Path, kernel: str) -> Path:
    return into / RUNNING / f"{kernel}.seconds.json"
