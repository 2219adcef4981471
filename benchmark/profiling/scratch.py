"""A scratch copy of the repository in which every kernel is a target as it is profiled, and Liger's are files too."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from liger.installed import KERNELS as LIGERS
from liger.installed import MISSING, copy_installed, installed_folder
from liger.installed import told as liger_told

from profiling.kept import Kept
from warpsmith import __version__
from warpsmith.contracts.errors import PreflightError, WarpsmithError
from warpsmith.contracts.profile import Profile
from warpsmith.project.config import FILE_NAME
from warpsmith.project.demonstration import copy_repository

#: Where the copy has its targets. Files of the repository, which has none there, cannot be taken for them.
_TARGETS = "benchmark/profiled"
#: In the repository.
AS_PROFILED = Path("benchmark", "profiling", "as_profiled.py")
WHOLE = Path("benchmark", "profiling", "as_it_is.py")
#: Chosen: the end of a log says why a command failed.
_LAST_LINES = 12


class ProfileFailed(WarpsmithError):
    """`warpsmith profile` ended without a profile, or cannot be run."""


@dataclass(frozen=True)
class ScratchProject:
    """The copy. `has_liger` is whether Liger-Kernel was found and lies in it."""

    root: Path
    has_liger: bool

    def expect_source_of(self, kernel: str) -> None:
        """Raises PreflightError where the kernel is Liger's and Liger is not there."""
        if kernel in LIGERS and not self.has_liger:
            raise PreflightError(MISSING)

    def profiled(self, kernel: str, log: Path) -> Kept:
        """What `warpsmith profile` makes of the kernel; what it tells meanwhile goes to `log`.

        Raises ProfileFailed, PreflightError.
        """
        self.expect_source_of(kernel)
        began_s = time.monotonic()
        command = [sys.executable, "-m", "warpsmith", "profile", kernel, "--fresh", "--json"]
        with log.open("w", encoding="utf-8") as told:
            done = subprocess.run(command, cwd=self.root, env=self._environment, stdout=subprocess.PIPE, stderr=told)
        if done.returncode != 0:
            last = log.read_text(encoding="utf-8").splitlines()[-_LAST_LINES:]
            raise ProfileFailed("\n".join([f"warpsmith profile ended with {done.returncode}:", *last]))
        return Kept(
            kernel=kernel,
            of=told_of(kernel),
            elapsed_s=round(time.monotonic() - began_s, 1),
            profile=Profile.model_validate_json(done.stdout),
        )

    @property
    def _environment(self) -> dict[str, str]:
        """The copy's own program; what PYTHONPATH names relative to here is named whole."""
        here = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.root / "src"), *here])}


def told_of(kernel: str) -> str:
    """The package that the kernel is from, with its version."""
    return liger_told() if kernel in LIGERS else f"warpsmith {__version__}"


@contextmanager
def scratch_project(repository: Path, kernels: Sequence[str], target: Path = AS_PROFILED) -> Iterator[ScratchProject]:
    """A copy that is gone afterwards, whose targets are those kernels: `target` is the file that each of them is."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-profiles-") as folder:
        root = Path(folder) / "repository"
        config = f"targets: [{_TARGETS}/*.py]\n".encode()
        copy_repository(repository, root, source=FILE_NAME, original=config)
        (root / _TARGETS).mkdir()
        for kernel in kernels:
            shutil.copy(repository / target, root / _TARGETS / f"{kernel}.py")
        if has_liger := installed_folder() is not None:
            copy_installed(root)
        # Workers are confined and may not write bytecode: without it each would compile all that it imports.
        compileall.compile_dir(root, quiet=2)
        yield ScratchProject(root, has_liger)
