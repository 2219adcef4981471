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

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from liger.installed import KERNELS as LIGERS
from profiling.anew import diagnosed_anew
from profiling.kept import path_of, read_kept, write_kept
from profiling.scratch import ProfileFailed, ScratchProject, scratch_project

from warpsmith.contracts.errors import WarpsmithError
from warpsmith.project.config import load_config
from warpsmith.project.discover import list_targets

ROOT = Path(__file__).resolve().parents[1]
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
    """Profiles what is not kept yet. False where one fails. None is begun with less time left than the longest took."""
    until_s, whole = None if within_s is None else clock() + within_s, True
    missing = [kernel for kernel in kernels if not path_of(into, kernel).is_file()]
    into.mkdir(parents=True, exist_ok=True)
    taken_s: list[float] = []
    for place, kernel in enumerate(missing):
        if until_s is not None and until_s - clock() < max(taken_s, default=FIRST_S):
            print(f"not begun for want of time: {', '.join(missing[place:])}", file=sys.stderr)
            break
        try:
            kept = project.profiled(kernel, into / f"{kernel}.log")
            if kept.profile.is_predicted:
                raise ProfileFailed("nothing was measured; expected a GPU")
        except WarpsmithError as error:
            _tell(f"{kernel}: {error}", error)
            whole = False
            continue
        write_kept(into, kept)
        taken_s.append(kept.elapsed_s)
        print(f"{kernel}: {kept.elapsed_s:.0f} s", file=sys.stderr, flush=True)
    return whole


def _measure(kernels: Sequence[str], into: Path, within_s: float | None) -> int:
    began_s = time.monotonic()
    with scratch_project(ROOT, kernels) as project:
        left_s = None if within_s is None else within_s - (time.monotonic() - began_s)
        return 0 if measure(kernels, into, project, within_s=left_s) else 1


def _summarize(directory: Path) -> int:
    from profiling.summary import write_summary  # draws, which needs matplotlib

    try:
        if write_summary(directory, KERNELS):
            return 0
    except WarpsmithError as error:
        _tell(str(error), error)
        return 1
    print(f"nothing is profiled in {directory}", file=sys.stderr)
    print(f"  next, on a GPU: python benchmark/profiles.py measure --into {directory}", file=sys.stderr)
    return 1


def rediagnose(directory: Path) -> int:
    for kept in read_kept(directory, KERNELS):
        write_kept(directory, kept.model_copy(update={"profile": diagnosed_anew(kept.profile)}))
    return 0


def _tell(message: str, error: WarpsmithError) -> None:
    print(message, file=sys.stderr)
    if error.next_command is not None:
        print(f"  next: {error.next_command}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["measure", "rediagnose", "summarize"])
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(KERNELS)}; all, if none is given")
    parser.add_argument(
        "--into", type=Path, default=DATA, metavar="DIRECTORY", help=f"default: {DATA.relative_to(ROOT)}"
    )
    parser.add_argument("--within", type=float, metavar="SECONDS", help="begin no profile that might not end by then")
    options = parser.parse_args()
    if unknown := set(options.kernels) - set(KERNELS):
        parser.error(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(KERNELS)}")
    if options.step != "measure":
        if options.kernels or options.within is not None:
            parser.error(f"{options.step} takes neither a kernel nor a time: it is about all that was profiled")
        return rediagnose(options.into) if options.step == "rediagnose" else _summarize(options.into)
    return _measure(options.kernels or KERNELS, options.into, options.within)


if __name__ == "__main__":
    sys.exit(main())
