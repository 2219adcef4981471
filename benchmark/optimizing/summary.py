"""What is made of the optimized kernels that are kept: page, plot and the winners' patches. Needs no GPU."""

from __future__ import annotations

from pathlib import Path

from optimizing.claims import claims
from optimizing.fixed import FixedCases
from optimizing.kept import read_kept
from optimizing.page import page
from optimizing.plot import save_plot
from optimizing.rows import rows_of


def write_summary(directory: Path, fixed: FixedCases) -> bool:
    """Writes README.md, autonomous.png and a .diff of each winner. False where nothing was optimized.

    Raises UsageError where figures would not compare.
    """
    kernels = read_kept(directory, [each.kernel for each in fixed.kernels])
    if not kernels:
        return False
    rows = rows_of(kernels, fixed)
    told = page(kernels, fixed, rows, claims(kernels, fixed, rows))
    (directory / "README.md").write_text(told, encoding="utf-8")
    save_plot(next(iter(kernels.values())), fixed, rows, directory / "autonomous.png")
    for kernel, optimized in kernels.items():
        if optimized.is_gain:
            (directory / f"{kernel}.diff").write_text(optimized.diff, encoding="utf-8")
    return True
