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

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from liger.installed import KERNELS as LIGERS
from liger.installed import MISSING
from liger.installed import told as liger_told
from profiling.scratch import scratch_project
from tuning.kept import Exhausted, Tuned, exhausted_path, tuned_path, write_kept

from warpsmith import __version__
from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import PreflightError, WarpsmithError
from warpsmith.measure.worker.protocol import WorkerError

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmark" / "data" / "tuned"
AS_TUNED = Path("benchmark", "tuning", "as_tuned.py")
#: Where both searches are compared: a row kernel's forward and backward pass, a loop over blocks, a matrix product.
PLACES = (
    ("liger_layer_norm", Mode.FORWARD, "8192x8192-bf16"),
    ("liger_rms_norm", Mode.BACKWARD, "32768x2048-bf16"),
    ("liger_layer_norm", Mode.BACKWARD, "8192x4096-bf16"),
    ("liger_cross_entropy", Mode.FORWARD, "4096x32000-bf16"),
)
#: Chosen: what one kernel, or one place, may take on an H200.
FIRST_S = 150.0


def measure(kernels: Sequence[str], into: Path, within_s: float | None) -> bool:
    """Tunes what is not kept yet. False where one fails."""
    from tuning.alone import opened, tune_alone

    def tuned(root: Path, kernel: str) -> Tuned:
        with opened(root, kernel, _of(kernel), _teller(kernel)) as opened_kernel:
            return tune_alone(opened_kernel)

    missing = [kernel for kernel in kernels if not tuned_path(into, kernel).is_file()]
    jobs = [(kernel, kernel, tuned_path(into, kernel), tuned) for kernel in missing]
    return _work(jobs, within_s)


def exhaust(kernels: Sequence[str], into: Path, within_s: float | None) -> bool:
    """Compares the searches at the places of these kernels that are not kept yet. False where one fails."""
    from tuning.alone import opened
    from tuning.exhaustive import compare_searches, place_of

    jobs: list[Job] = []
    for kernel, mode, case in PLACES:
        path = exhausted_path(into, kernel, mode, case)
        if kernel not in kernels or path.is_file():
            continue

        def exhausted(root: Path, kernel: str, mode: Mode = mode, case: str = case) -> Exhausted:
            with opened(root, kernel, _of(kernel), _teller(f"{kernel} {mode.value}")) as opened_kernel:
                return compare_searches(opened_kernel.bench, place_of(opened_kernel, mode, case), _teller(kernel))

        jobs.append((f"{kernel} {mode.value} {case}", kernel, path, exhausted))
    return _work(jobs, within_s)


#: Its name, its kernel, where its result is kept, and how it is made in a scratch project.
Job = tuple[str, str, Path, Callable[[Path, str], "Tuned | Exhausted"]]


def _work(jobs: Sequence[Job], within_s: float | None) -> bool:
    """None is begun with less time left than the longest took."""
    began_s, taken_s, whole = time.monotonic(), [FIRST_S], True
    with scratch_project(ROOT, list(dict.fromkeys(kernel for _, kernel, _, _ in jobs)), AS_TUNED) as project:
        for number, (name, kernel, path, made) in enumerate(jobs):
            job_began_s = time.monotonic()
            if within_s is not None and began_s + within_s - job_began_s < max(taken_s[1:] or taken_s):
                print(f"not begun for want of time: {', '.join(each[0] for each in jobs[number:])}", file=sys.stderr)
                break
            try:
                if kernel in LIGERS and not project.has_liger:
                    raise PreflightError(MISSING)
                write_kept(path, made(project.root, kernel))
            except (WarpsmithError, WorkerError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                whole = False
                continue
            taken_s.append(time.monotonic() - job_began_s)
            print(f"{name}: {taken_s[-1]:.0f} s", file=sys.stderr, flush=True)
    return whole


def _of(kernel: str) -> str:
    return liger_told() if kernel in LIGERS else f"warpsmith {__version__}"


def _teller(name: str) -> Callable[[str], None]:
    began_s = time.monotonic()
    return lambda text: print(f"[{time.monotonic() - began_s:6.1f} s] {name}: {text}", file=sys.stderr, flush=True)


def _summarize(directory: Path) -> int:
    from tuning.summary import write_summary  # draws, which needs matplotlib

    if write_summary(directory, LIGERS):
        return 0
    print(f"nothing is tuned in {directory}", file=sys.stderr)
    print(f"  next, on a GPU: python benchmark/tuned.py measure --into {directory}", file=sys.stderr)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["measure", "exhaust", "summarize"])
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(LIGERS)}; all, if none is given")
    parser.add_argument(
        "--into", type=Path, default=DATA, metavar="DIRECTORY", help=f"default: {DATA.relative_to(ROOT)}"
    )
    parser.add_argument("--within", type=float, metavar="SECONDS", help="begin nothing that might not end by then")
    options = parser.parse_args()
    if unknown := set(options.kernels) - set(LIGERS):
        parser.error(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(LIGERS)}")
    if options.step == "summarize":
        if options.kernels or options.within is not None:
            parser.error("summarize takes neither a kernel nor a time: it is about all that is kept")
        return _summarize(options.into)
    step = measure if options.step == "measure" else exhaust
    return 0 if step(options.kernels or LIGERS, options.into, options.within) else 1


if __name__ == "__main__":
    sys.exit(main())
