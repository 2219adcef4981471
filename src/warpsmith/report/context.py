"""All that a final report is made of, as one frozen value. Owns what is derived from it, not how it is worded."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.measurement import Correctness
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import CaseSpeedup
from warpsmith.report.baseline_view import least_times_ms
from warpsmith.report.rows import ProviderRow
from warpsmith.verdict.statistics import geometric_mean


class Plot(Contract):
    """One figure as it was saved, in two forms. `title` says in a sentence what it shows.

    `samples` are the files with the raw samples that it is drawn from.
    """

    title: str
    png: Path
    svg: Path
    samples: tuple[Path, ...] = ()


class SampleFiles(Contract):
    """Where raw samples lie as CSV: of the profile, of each variant, of the fresh measurement, of the sweeps.

    None, or not among the variants, where nothing was measured.
    """

    baseline: Path | None = None
    variants: dict[int, Path] = Field(default_factory=dict)
    confirmation: Path | None = None
    sweep: Path | None = None


class ReportContext(Contract):
    """What a report tells. Its figures come from `result.confirmation`, the fresh measurement, and nothing earlier.

    `rows` are the three-way measurement: original, optimized and baselines. `diff` is of the winner, applied or not,
    and empty without one. `folder` is where report.md will stand, and plots are linked relative to it. The commands are
    lines that a person can paste. `shared_with` are processes that computed on the GPU during the run.
    """

    request: Request
    profile: Profile
    search: SearchResult
    result: FinalResult
    variants: tuple[Variant, ...]
    folder: Path
    rows: tuple[ProviderRow, ...] = ()
    correctness: Correctness | None = None
    diff: str = ""
    plots: tuple[Plot, ...] = ()
    samples: SampleFiles = SampleFiles()
    reproduce_commands: tuple[str, ...] = ()
    revert_commands: tuple[str, ...] = ()
    shared_with: tuple[int, ...] = ()

    @property
    def winner(self) -> Variant | None:
        return next((v for v in self.variants if v.number == self.result.winner), None)

    @property
    def winning_changes(self) -> tuple[tuple[Variant, tuple[str, ...]], ...]:
        """What the winner is made of: itself and the variants that it builds on, oldest first, with their changes.

        Of several tables of settings only the last is in the source, so only the last is told. What a later one takes
        out again is not told either.
        """
        by_number = {variant.number: variant for variant in self.variants}
        chain: list[Variant] = []
        taken_out: set[int] = set()
        variant = self.winner
        while variant is not None:
            replaced = variant.chosen_settings and any(later.chosen_settings for later in chain)
            if not replaced and variant.number not in taken_out:
                chain.append(variant)
            taken_out |= set(variant.without)
            variant = by_number.get(variant.based_on)
        return tuple((each, each.changes) for each in reversed(chain))

    @property
    def applied(self) -> bool:
        return self.result.outcome is FinalOutcome.APPLIED

    @property
    def speedups(self) -> tuple[CaseSpeedup, ...]:
        """Every case and mode of the fresh measurement; empty where there was none."""
        return self.result.confirmation.cases if self.result.confirmation else ()

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes that were measured, in the order forward, backward, full."""
        measured = {m.mode for m in self.profile.modes} | {c.mode for c in self.speedups}
        return tuple(mode for mode in Mode if mode in measured)

    @property
    def unsuccessful(self) -> tuple[Variant, ...]:
        return tuple(variant for variant in self.variants if variant.number != self.result.winner)

    def relative(self, path: Path) -> str:
        """A path as a link from the report."""
        return Path(os.path.relpath(path, self.folder)).as_posix()

    def share_before_and_after(self, mode: Mode) -> tuple[float, float] | None:
        """Geometric means over the tuning cases of the share of the ceiling, of the original and of the optimized.

        Both are the least possible time, by the profile, over the fresh measurement's. None where no tuning case has
        both.
        """
        least_ms = least_times_ms(self.profile)
        tuning = [c for c in self.speedups if c.mode is mode and c.role is Role.TUNING and (c.case, mode) in least_ms]
        if not tuning:
            return None
        before = geometric_mean([least_ms[c.case, mode] / c.baseline_ms for c in tuning])
        after = geometric_mean([least_ms[c.case, mode] / c.variant_ms for c in tuning])
        return before, after
