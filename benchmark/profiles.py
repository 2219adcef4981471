"""What profiles say of the kernel library and of Liger-Kernel's kernels, and whether that is true, on a GPU.

    python benchmark/profiles.py measure [KERNEL ...] --into DIRECTORY --within SECONDS
    python benchmark/profiles.py rediagnose --into DIRECTORY
    python benchmark/profiles.py summarize --into DIRECTORY

`measure` is `warpsmith profile KERNEL` in a scratch copy of the repository, one kernel after the other, at the tuning
cases of its target and beside no other implementation: `benchmark/library.py` measures those. A kernel whose profile is
kept already is not profiled again, and with `--within` none is begun that might not end in time, so that the same
command goes on from there. `rediagnose` needs no GPU: it keeps what was measured and lets today's rules say what it
means. `summarize` needs no GPU: it writes README.md and profiles.png beside the profiles. In
benchmark/data/profiles/ these are committed. Liger-Kernel comes with the extra `liger`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from jobs import ROOT, Job, Pace, asked, kernels_of, missing, summarized, work_through
from liger.installed import KERNELS as LIGERS
from profiling.anew import diagnosed_anew
from profiling.kept import path_of, read_kept, write_kept
from profiling.scratch import ProfileFailed, ScratchProject, scratch_project

from warpsmith.project.config import load_config
from warpsmith.project.discover import list_targets

DATA = ROOT / "benchmark" / "data" / "profiles"
KERNELS = (*LIGERS, *list_targets(ROOT, load_config(ROOT)))
#: Chosen: a profile of all cases, ceilings included, took up to 70 s on an H200.
FIRST_S = 90.0


def measure(
    kernels: Sequence[str],
    into: Path,
    project: ScratchProject,
    *,
    within_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Profiles what is not kept yet. False where one fails."""
    return work_through(_jobs(kernels, into), project, Pace(within_s, FIRST_S, clock=clock))


def _jobs(kernels: Sequence[str], into: Path) -> list[Job[ScratchProject]]:
    return [Job(kernel, kernel, path_of(into, kernel), partial(_profile, kernel, into)) for kernel in kernels]


def _profile(kernel: str, into: Path, project: ScratchProject) -> None:
    into.mkdir(parents=True, exist_ok=True)
    kept = project.profiled(kernel, into / f"{kernel}.log")
    if kept.profile.is_predicted:
        raise ProfileFailed("nothing was measured; expected a GPU")
    write_kept(into, kept)


def _measure(kernels: Sequence[str], into: Path, within_s: float | None) -> int:
    jobs, pace = _jobs(kernels, into), Pace(within_s, FIRST_S)
    with scratch_project(ROOT, kernels_of(missing(jobs))) as project:
        return 0 if work_through(jobs, project, pace) else 1


def _summarize(directory: Path) -> int:
    from profiling.summary import write_summary  # draws, which needs matplotlib

    return summarized(lambda: write_summary(directory, KERNELS), "profiled", directory, "profiles.py")


def rediagnose(directory: Path) -> int:
    for kept in read_kept(directory, KERNELS):
        write_kept(directory, kept.model_copy(update={"profile": diagnosed_anew(kept.profile)}))
    return 0


def main() -> int:
    found = asked(__doc__, KERNELS, DATA, measuring=["measure"], others=["rediagnose", "summarize"])
    if found.step == "measure":
        return _measure(found.kernels, found.into, found.within_s)
    return rediagnose(found.into) if found.step == "rediagnose" else _summarize(found.into)


if __name__ == "__main__":
    sys.exit(main())
