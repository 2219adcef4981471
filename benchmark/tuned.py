"""What launch settings alone win on Liger-Kernel's kernels, and what an exhaustive search would, on a GPU.

    python benchmark/tuned.py measure [KERNEL ...] --into DIRECTORY --within SECONDS
    python benchmark/tuned.py exhaust [KERNEL ...] --into DIRECTORY --within SECONDS
    python benchmark/tuned.py summarize --into DIRECTORY

`measure` searches the settings of each kernel in every pass, writes the variant and judges it as the optimizer would,
in a scratch copy of the repository. `exhaust` times every setting at a few places, beside what the search finds there.
What is kept already is not measured again, and with `--within` nothing is begun that might not end in time, so that the
same command goes on from there. `summarize` needs no GPU: it writes README.md and tuned.png. In benchmark/data/tuned/
these are committed. Liger-Kernel comes with the extra `liger`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from jobs import ROOT, Job, Pace, asked, kernels_of, missing, summarized, teller, work_through
from liger.installed import KERNELS as LIGERS
from profiling.scratch import WHOLE, ScratchProject, scratch_project, told_of
from tuning.kept import exhausted_path, tuned_path, write_kept

from warpsmith.contracts.case import Mode

DATA = ROOT / "benchmark" / "data" / "tuned"
#: Where both searches are compared: a row kernel's forward and backward pass, a loop over blocks, a matrix product.
PLACES = (
    ("liger_layer_norm", Mode.FORWARD, "8192x8192-bf16"),
    ("liger_rms_norm", Mode.BACKWARD, "32768x2048-bf16"),
    ("liger_layer_norm", Mode.BACKWARD, "8192x4096-bf16"),
    ("liger_cross_entropy", Mode.FORWARD, "4096x32000-bf16"),
)
#: Chosen: what one kernel, or one place, may take on an H200.
FIRST_S = 150.0


def tune_jobs(kernels: Sequence[str], into: Path) -> list[Job[ScratchProject]]:
    return [Job(kernel, kernel, tuned_path(into, kernel), partial(_tune, kernel, into)) for kernel in kernels]


def _tune(kernel: str, into: Path, project: ScratchProject) -> None:
    from tuning.alone import opened, tune_alone

    project.expect_source_of(kernel)
    with opened(project.root, kernel, told_of(kernel), teller(kernel)) as opened_kernel:
        write_kept(tuned_path(into, kernel), tune_alone(opened_kernel))


def exhaust_jobs(kernels: Sequence[str], into: Path) -> list[Job[ScratchProject]]:
    """The searches are compared at the places of these kernels."""
    return [
        Job(
            f"{kernel} {mode.value} {case}",
            kernel,
            exhausted_path(into, kernel, mode, case),
            partial(_exhaust, kernel, mode, case, into),
        )
        for kernel, mode, case in PLACES
        if kernel in kernels
    ]


def _exhaust(kernel: str, mode: Mode, case: str, into: Path, project: ScratchProject) -> None:
    from tuning.alone import opened
    from tuning.exhaustive import compare_searches, place_of

    project.expect_source_of(kernel)
    tell = teller(f"{kernel} {mode.value}")
    with opened(project.root, kernel, told_of(kernel), tell) as opened_kernel:
        found = compare_searches(opened_kernel.bench, place_of(opened_kernel, mode, case), tell)
        write_kept(exhausted_path(into, kernel, mode, case), found)


def _work(jobs: Sequence[Job[ScratchProject]], within_s: float | None) -> int:
    pace = Pace(within_s, FIRST_S)
    with scratch_project(ROOT, kernels_of(missing(jobs)), WHOLE) as project:
        return 0 if work_through(jobs, project, pace) else 1


def _summarize(directory: Path) -> int:
    from tuning.summary import write_summary  # draws, which needs matplotlib

    return summarized(lambda: write_summary(directory, LIGERS), "tuned", directory, "tuned.py")


def main() -> int:
    found = asked(__doc__, LIGERS, DATA, measuring=["measure", "exhaust"], others=["summarize"])
    if found.step == "summarize":
        return _summarize(found.into)
    jobs = tune_jobs if found.step == "measure" else exhaust_jobs
    return _work(jobs(found.kernels, found.into), found.within_s)


if __name__ == "__main__":
    sys.exit(main())
