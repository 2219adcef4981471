"""What warpsmith by itself makes of Liger-Kernel's kernels: profile and search with no model, on a GPU.

    python benchmark/autonomous.py fix
    python benchmark/autonomous.py measure [KERNEL ...] --into DIRECTORY --within SECONDS
    python benchmark/autonomous.py summarize --into DIRECTORY

`fix` says which cases count, by the profiles in benchmark/data/profiles/, before anything is tried: it writes
benchmark/data/autonomous/cases.json, once. `measure` is `warpsmith profile` and `warpsmith optimize` of each kernel in
a scratch copy of the repository, then the winner measured afresh, as `warpsmith finalize` does before it applies one.
With `--within` a run stops where what comes next might not end in time. The same command goes on from there, on any GPU
of that model with that software: DIRECTORY/running/ has the workspaces of runs that have not ended (git ignores them),
and every answer is there as soon as it was measured, also where the command is killed. `summarize` needs no GPU: it
writes README.md, autonomous.png and a .diff of each winner. Liger-Kernel comes with the extra `liger`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from jobs import (
    ROOT,
    Job,
    Pace,
    asked,
    kernels_of,
    missing,
    say_failed,
    summarized,
    teller,
    watched,
    work_through,
)
from liger.installed import KERNELS as LIGERS
from optimizing.fixed import FIXED, PROFILES, fix, read_fixed
from optimizing.kept import path_of, write_kept
from optimizing.sittings import keep_workspaces, pack, sitting, sittings_s
from profiling.scratch import WHOLE, ScratchProject, scratch_project, told_of

from warpsmith.contracts.errors import WarpsmithError

DATA = FIXED.parent
#: Chosen: what a question may take that nothing as long was asked before. Several hundred settings are compiled at one
#: go, and a check of all cases at another.
LEAST_S = 60.0


def jobs(kernels: Sequence[str], into: Path, pace: Pace) -> list[Job[ScratchProject]]:
    return [
        Job(kernel, kernel, path_of(into, kernel), partial(_optimize, kernel, into, pace), goes_on=True)
        for kernel in kernels
    ]


def _optimize(kernel: str, into: Path, pace: Pace, project: ScratchProject) -> None:
    from optimizing.run import optimized_in  # its stages reach pandas and matplotlib

    project.expect_source_of(kernel)
    source_sha256 = read_fixed().of_kernel(kernel).source_sha256
    keep_workspaces(project.root, into)
    with sitting(into, kernel, pace.clock):
        tell = watched(teller(kernel), pace)
        found = optimized_in(project.root, kernel, told_of(kernel), source_sha256, tell)
    write_kept(into, found.model_copy(update={"sittings_s": sittings_s(into, kernel)}))
    pack(into, kernel)


def _measure(kernels: Sequence[str], into: Path, within_s: float | None) -> int:
    pace = Pace(within_s, first_s=LEAST_S, least_s=LEAST_S)
    wanted = jobs(kernels, into, pace)
    with scratch_project(ROOT, kernels_of(missing(wanted)), WHOLE) as project:
        return 0 if work_through(wanted, project, pace) else 1


def _summarize(directory: Path) -> int:
    from optimizing.summary import write_summary  # draws, which needs matplotlib

    return summarized(lambda: write_summary(directory, read_fixed()), "optimized", directory, "autonomous.py")


def _fix() -> int:
    try:
        fix(FIXED, PROFILES, LIGERS)
    except WarpsmithError as error:
        say_failed(str(error), error)
        return 1
    return 0


def main() -> int:
    found = asked(__doc__, LIGERS, DATA, measuring=["measure"], others=["fix", "summarize"])
    if found.step == "measure":
        return _measure(found.kernels, found.into, found.within_s)
    return _fix() if found.step == "fix" else _summarize(found.into)


if __name__ == "__main__":
    sys.exit(main())
