"""The folder in which `bench` measures, beside a run's files or wherever it is asked to. It is no part of any run."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.atomic import unwritable
from warpsmith.workspace.documents import write_text
from warpsmith.workspace.layout import Workspace


@dataclass(frozen=True)
class BenchWorkspace(Workspace):
    """A folder of the same form in which `bench` measures, so that it disturbs no run: bench/, or the one given."""

    into: Path | None = None

    def create(self) -> None:
        """Makes the folder, out of git also where a run is kept in it. Raises as `expect_outside_runs` does, and
        Unavailable as the disk does."""
        self.expect_outside_runs()
        if self.into is None:
            Workspace(self.root, self.kernel).create()
            write_text(self.directory / ".gitignore", "*\n")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.directory, error) from error

    def expect_outside_runs(self) -> None:
        """Raises UsageError where the folder would lie among a run's files, or has files and is no bench's."""
        if self.into is None:
            return
        usual = Workspace(self.root, self.kernel)
        workspaces, here = usual.directory.parent.resolve(), self.into.resolve()
        bench = BenchWorkspace(self.root, self.kernel).directory.resolve()
        if (here == workspaces or workspaces in here.parents) and here != bench and bench not in here.parents:
            raise UsageError(
                f"{self.into} lies among the files of runs; choose a folder outside {self.relative(workspaces)}"
            )
        if (stranger := self._stranger_in(self.into)) is not None:
            raise UsageError(f"{self.into} has files that no bench wrote, such as {stranger}; choose an empty folder")

    def _stranger_in(self, folder: Path) -> str | None:
        """A file in a folder that is no bench's own; None where there is none."""
        try:
            if not folder.is_dir() or self.result.is_file() or self.lock.is_file():
                return None
            return min((path.name for path in folder.iterdir()), default=None)
        except OSError as error:
            raise unwritable(folder, error) from error

    @property
    def lock(self) -> Path:
        """Has a name of its own, by which a folder is known to be a bench's even before bench.json is there."""
        return self.directory / ".lock-bench"

    @property
    def is_empty(self) -> bool:
        """Whether nothing lies there but what whoever holds its lock has made."""
        own = (self.lock.name, self.progress.name, ".gitignore")
        return not self.directory.is_dir() or all(path.name.startswith(own) for path in self.directory.iterdir())

    def discard(self) -> None:
        """Takes the folder away, and the kernel's if nothing else is in it. A folder that was given stays, empty."""
        shutil.rmtree(self.directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty, or gone already
            if self.into is None:
                self.directory.parent.rmdir()
            else:
                self.into.mkdir()

    @property
    def directory(self) -> Path:
        return super().directory / "bench" if self.into is None else self.into

    @property
    def result(self) -> Path:
        return self.directory / "bench.json"

    @property
    def csv(self) -> Path:
        return self.directory / "results.csv"
