"""The lab notebook of a search: writes down each variant before its result and after it, and what it taught.

Whoever proposes the next variant reads all of it: `history.prior_notes` has the records, `lessons` a line of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warpsmith.contracts.profile import Profile
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.variant import Variant
from warpsmith.report.diff import unified_diff
from warpsmith.report.figures import save_sweep_plot
from warpsmith.report.pages import render_variant_notes
from warpsmith.report.samples import samples_csv
from warpsmith.report.sweep_view import searched_rows, sweep_views
from warpsmith.report.tables import results_frame, to_csv
from warpsmith.search.strategies.base import Proposal
from warpsmith.search.tuning.results import Tuning
from warpsmith.stages.judge import Judgement
from warpsmith.workspace.documents import write_document, write_text
from warpsmith.workspace.layout import Workspace


@dataclass(frozen=True)
class Notebook:
    """Where a search writes, and what all of its variants are of."""

    workspace: Workspace
    profile: Profile
    spec: TargetSpec
    original_text: str
    #: The searches through settings so far, by the variant's number.
    _searched: dict[int, tuple[Tuning, ...]] = field(default_factory=dict)

    def begin(self, variant: Variant) -> None:
        """Hypothesis and prediction, before there is anything to know."""
        self._write(variant, None)

    def finish(self, variant: Variant, judgement: Judgement, proposal: Proposal | None) -> None:
        """The result: record and notes, the CSV of what was timed, and of a search through settings
        its rows and plots."""
        if judgement.timings:
            sources = {f"v{variant.number}": variant.source_sha256} if variant.source_sha256 else None
            frame = results_frame(
                self.spec, judgement.timings, judgement.memories, self.profile.device, sources=sources
            )
            write_text(self.workspace.results_csv(variant.number), to_csv(frame, variant.origin))
            samples = samples_csv({"search": judgement.timings}, judgement.memories, variant.origin)
            write_text(self.workspace.samples_csv(variant.number), samples)
        if proposal is not None and proposal.sweeps:
            self._write_sweeps(variant, proposal)
        self._write(variant, proposal)

    def plots_of(self, proposal: Proposal | None, number: int) -> tuple[str, ...]:
        """The plots that `finish` draws of a proposal's sweeps, relative to the workspace."""
        views = sweep_views(proposal.sweeps) if proposal else ()
        folder = self.workspace.plots.relative_to(self.workspace.directory)
        return tuple((folder / f"{view.function.stem(number)}.png").as_posix() for view in views)

    def _write(self, variant: Variant, proposal: Proposal | None) -> None:
        workspace, diff = self.workspace, None
        if proposal is not None:
            names = workspace.original.name, workspace.variant(variant.number).name
            diff = unified_diff(self.original_text, proposal.source, *names)
        write_document(workspace.variant_record(variant.number), variant)
        notes = render_variant_notes(variant, diff, origin=self.profile.origin)
        write_text(workspace.variant_notes(variant.number), notes)
        workspace.log("variant", number=variant.number, status=variant.status.value)

    def _write_sweeps(self, variant: Variant, proposal: Proposal) -> None:
        self._searched[variant.number] = proposal.sweeps
        write_text(self.workspace.sweep_csv, to_csv(searched_rows(self._searched), variant.origin))
        for view in sweep_views(proposal.sweeps):
            save_sweep_plot(self.workspace.plots, view, view.function.stem(variant.number), self.profile)


def lessons(variants: Sequence[Variant]) -> tuple[str, ...]:
    """What each taught, a line each."""
    return tuple(f"v{variant.number}, {variant.strategy.replace('_', ' ')}: {_lesson(variant)}" for variant in variants)


def learnings_of(variant: Variant, judgement: Judgement) -> tuple[str, ...]:
    """What the result says of the prediction."""
    verdict = judgement.verdict
    if verdict is None or verdict.speedup is None:
        return (f"{judgement.status.value}: {judgement.detail}",) if judgement.detail else ()
    low, high, found = variant.predicted_low, variant.predicted_high, verdict.speedup.value
    place = variant.against_prediction(found)
    return (f"predicted {low:.2f} to {high:.2f} ×, found {found:.3f} ×: {place} the prediction", *verdict.reasons)


def _lesson(variant: Variant) -> str:
    """How it ended, where that lies to its prediction, and what its strategy found out on the way."""
    verdict = variant.verdict
    if verdict is None or verdict.speedup is None:
        return _in_a_line(f"{variant.status.value.replace('_', ' ')}: {variant.detail or 'no reason was recorded'}")
    found = verdict.speedup.value
    low, high = variant.predicted_low, variant.predicted_high
    told = f"{verdict.outcome.value}, {found:.3f}×, {variant.against_prediction(found)} the {low:.2f} to {high:.2f}×"
    on_the_way = [
        each for each in variant.learnings if each not in verdict.reasons and not each.startswith("predicted")
    ]
    return _in_a_line("; ".join([f"{told} predicted", *on_the_way]))


def _in_a_line(text: str) -> str:
    return " ".join(text.split())
