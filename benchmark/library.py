"""How the kernel library stands beside torch, torch.compile, Liger and Quack, on a GPU, in device time.

    python benchmark/library.py measure [KERNEL ...] --into DIRECTORY
    python benchmark/library.py summarize --into DIRECTORY

`measure` is `warpsmith bench KERNEL` for each kernel, or those that are named, at the tuning cases of its target, with
L2 cold. What was measured is kept, and the same command goes on from there; a kernel takes a minute or two on an H200.
`summarize` needs no GPU: it writes README.md, library.csv and library.png beside what was measured, and packs the raw
samples. In benchmark/data/library/ these are committed, with bench.json and measurements.jsonl.gz of each kernel. Liger
comes with the extra `liger`, Quack is `pip install quack-kernels`; what is not installed is named on the page.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from comparing.aims import SAVE_MEMORY, aims_of

from warpsmith.cli.bench import bench
from warpsmith.contracts.errors import WarpsmithError
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Describe, WorkerError, answer_of
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_target, list_targets
from warpsmith.stages.bench_request import Asked
from warpsmith.stages.session import target_ref, worker_without_gpu

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmark" / "data" / "library"


def measure(kernel: str, into: Path) -> None:
    """Raises WarpsmithError, WorkerError."""
    with worker_without_gpu(ROOT) as worker:
        target = target_ref(ROOT, find_target(ROOT, load_config(ROOT), kernel))
        spec = answer_of(worker, Describe(target=target), TargetSpec)
    asked = Asked(
        modes=tuple(mode for mode in spec.modes if mode in aims_of(kernel)),
        cases=tuple(case.name for case in spec.tuning_cases),
        l2=L2.COLD,
        device_time_only=kernel not in SAVE_MEMORY,
    )
    bench(ROOT, kernel, asked, into=into / kernel, as_json=False, quiet=False)


def _summarize(directory: Path) -> int:
    from comparing.summary import write_summary  # draws, which needs matplotlib

    try:
        if write_summary(directory):
            return 0
    except WarpsmithError as error:
        _tell(str(error), error)
        return 1
    print(f"nothing is measured in {directory}", file=sys.stderr)
    print(f"  next, on a GPU: python benchmark/library.py measure --into {directory}", file=sys.stderr)
    return 1


def _tell(message: str, error: Exception) -> None:
    print(message, file=sys.stderr)
    if (command := getattr(error, "next_command", None)) is not None:
        print(f"  next: {command}", file=sys.stderr)


def main() -> int:
    kernels = tuple(list_targets(ROOT, load_config(ROOT)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["measure", "summarize"])
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(kernels)}; all, if none is given")
    parser.add_argument(
        "--into", type=Path, default=DATA, metavar="DIRECTORY", help=f"default: {DATA.relative_to(ROOT)}"
    )
    options = parser.parse_args()
    if unknown := set(options.kernels) - set(kernels):
        parser.error(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(kernels)}")
    if options.step == "summarize":
        if options.kernels:
            parser.error("summarize takes no kernel: it is about all that was measured")
        return _summarize(options.into)
    failed = False
    for kernel in options.kernels or kernels:
        try:
            measure(kernel, options.into)
        except (WarpsmithError, WorkerError) as error:
            _tell(f"{kernel}: {error}", error)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
