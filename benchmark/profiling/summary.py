"""What is made of the kept profiles: a row a pass, the claims, and page and plot from both. Needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profiling.claims import claims, share_of_ceiling
from profiling.gains import read_grid
from profiling.kept import Kept, read_kept
from profiling.ncu_rule import by_ncu
from profiling.page import page
from profiling.plot import save_plot
from profiling.telling import WORTH_TELLING
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Bottleneck, PricedOpportunity


@dataclass(frozen=True)
class Row:
    """One pass of one kernel. `by_ncu` is None where no launch was counted; `best` has the best of each kind."""

    kernel: str
    mode: Mode
    bottleneck: Bottleneck
    share: float | None
    headroom_us: float | None
    by_ncu: Bottleneck | None
    disagreement: str | None
    best: tuple[PricedOpportunity, ...]


def rows(kept: Sequence[Kept]) -> list[Row]:
    return [
        Row(
            kernel=each.kernel,
            mode=mode.mode,
            bottleneck=mode.bottleneck,
            share=share_of_ceiling(each.profile, mode),
            headroom_us=mode.headroom_us,
            by_ncu=by_ncu(each.profile, mode),
            disagreement=mode.ncu_disagreement,
            best=_best(each, mode.mode),
        )
        for each in kept
        for mode in each.profile.modes
    ]


def _best(kept: Kept, mode: Mode) -> tuple[PricedOpportunity, ...]:
    """Of each kind the one that may bring most in a mode, the largest first; less than WORTH_TELLING is left out."""
    found: dict[str, PricedOpportunity] = {}
    for each in sorted(kept.profile.opportunities, key=lambda each: each.predicted_high, reverse=True):
        if each.mode is mode and each.predicted_high > 1 + WORTH_TELLING:
            found.setdefault(each.opportunity.kind.value, each)
    return tuple(found.values())


def write_summary(directory: Path, kernels: Sequence[str]) -> bool:
    """Writes README.md and profiles.png. False where nothing was profiled. Raises UsageError, as `read_kept` does."""
    kept = read_kept(directory, kernels)
    if not kept:
        return False
    found, missing = rows(kept), [kernel for kernel in kernels if kernel not in {each.kernel for each in kept}]
    grid = read_grid()
    (directory / "README.md").write_text(page(kept, found, claims(kept, grid), grid, missing), encoding="utf-8")
    save_plot(kept[0], found, directory / "profiles.png")
    return True
