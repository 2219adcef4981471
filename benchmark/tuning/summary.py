"""What is made of the tuned kernels and the comparisons that are kept: page and plot. Needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuning.claims import as_good_as_exhaustive, known_gains, known_gains_found, none_slower
from tuning.kept import EXHAUSTIVE, SUFFIX, Exhausted, Tuned, read_kept, tuned_path
from tuning.page import page
from tuning.plot import save_plot


def read_tuned(directory: Path, kernels: Sequence[str]) -> dict[str, Tuned]:
    """Those of the kernels that are there, in that order."""
    there = {kernel: tuned_path(directory, kernel) for kernel in kernels}
    return {kernel: read_kept(path, Tuned) for kernel, path in there.items() if path.is_file()}


def read_exhausted(directory: Path) -> list[Exhausted]:
    return [read_kept(path, Exhausted) for path in sorted((directory / EXHAUSTIVE).glob(f"*{SUFFIX}"))]


def write_summary(directory: Path, kernels: Sequence[str]) -> bool:
    """Writes README.md and tuned.png. False where nothing was tuned."""
    tuned = read_tuned(directory, kernels)
    if not tuned:
        return False
    compared, known = read_exhausted(directory), known_gains()
    asked = (known_gains_found(tuned, known), none_slower(tuned), as_good_as_exhaustive(compared))
    missing = [kernel for kernel in kernels if kernel not in tuned]
    (directory / "README.md").write_text(page(tuned, compared, known, asked, missing), encoding="utf-8")
    save_plot(tuned, known, directory / "tuned.png")
    return True
