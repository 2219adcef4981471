"""The state of a search, and what is done with one variant: its prediction, its verdict, and whether it is the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from warpsmith.contracts.profile import Profile, Recommendation
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import TargetResult, Verdict
from warpsmith.diagnose.grounds import basis_of, evidence_for
from warpsmith.measure.worker.protocol import WorkerError
from warpsmith.project.apply import with_line_endings_of
from warpsmith.project.snapshot import file_sha256
from warpsmith.search.bench import Bench
from warpsmith.search.strategies import CATALOGUE
from warpsmith.search.strategies.base import Card, Ground, Inapplicable, Proposal
from warpsmith.search.strategies.settings import SettingsSweep
from warpsmith.source.encoding import encoded
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.stages.aiming import bench_aimed, original_target
from warpsmith.stages.examining import reproducible
from warpsmith.stages.judge import Judgement
from warpsmith.stages.narrowing import judge_proposal
from warpsmith.stages.notebook import Notebook, learnings_of, lessons
from warpsmith.stages.rules import Rules, Standing
from warpsmith.stages.session import Session, source_ref, text_of
from warpsmith.verdict.standing import beats_best
from warpsmith.workspace.documents import write_bytes

SETTINGS_AGAIN_BASIS = "chosen: what settings still bring that were chosen once before"


@dataclass
class Search:
    """The state of one search. `best` is the variant to build on, None while that is the original."""

    session: Session
    profile: Profile
    bench: Bench
    rules: Rules
    notebook: Notebook
    variants: list[Variant] = field(default_factory=list)
    best: Variant | None = None
    inert: frozenset[str] = frozenset()
    swept_source: str | None = None

    @property
    def best_text(self) -> str:
        return self.text(self.best.number if self.best else 0)

    @property
    def target(self) -> TargetResult | None:
        """What the best so far makes of the target metric."""
        if self.best is None:
            return original_target(self.profile, self.rules, self.bench.spec.cases)
        return self.best.verdict.target if self.best.verdict else None

    def text(self, number: int) -> str:
        """The source of a variant that has one; 0 is the original."""
        if number == 0:
            return self.notebook.original_text
        return text_of(self.session.workspace.variant(number))

    def takes_the_best(self, verdict: Verdict | None) -> bool:
        return beats_best(verdict, is_first=self.best is None, thresholds=self.rules.thresholds)


def try_strategy(search: Search, recommendation: Recommendation) -> None:
    """One variant by a strategy of the catalogue."""
    strategy = CATALOGUE[recommendation.strategy]
    card, base_gain, basis = strategy.card, 1.0, basis_of(search.profile, recommendation)
    if recommendation not in search.profile.recommendations:
        basis = (SETTINGS_AGAIN_BASIS,)
    if search.best and search.best.verdict and search.best.verdict.speedup:
        base_gain = search.best.verdict.speedup.value
        basis += (f"times {base_gain:.3f}×, which v{search.best.number} was measured at",)
    with_settings = _settings_beside(search, card)
    if with_settings > 1:
        basis += (f"times up to {with_settings:.2f}× by settings, which are searched with it and which the best lacks",)
    variant = Variant(
        number=len(search.variants) + 1,
        strategy=card.name,
        title=card.title,
        based_on=search.best.number if search.best else 0,
        hypothesis=f"{card.hypothesis} {recommendation.why}",
        evidence=evidence_for(search.profile, card.name),
        basis=basis,
        taught=lessons(search.variants),
        predicted_low=base_gain * recommendation.predicted_low,
        predicted_high=base_gain * with_settings * recommendation.predicted_high,
        origin=search.profile.origin,
    )

    def propose() -> Proposal:
        base_text, searched = search.best_text, bench_aimed(search.bench, search.session.request)
        return strategy.propose(Ground(base_text, scan(base_text), search.profile, searched, search.inert))

    try_variant(search, variant, propose, search.takes_the_best)


def try_variant(
    search: Search, variant: Variant, propose: Callable[[], Proposal], takes_the_best: Callable[[Verdict | None], bool]
) -> None:
    """Writes the prediction down, then the proposal and its judgement; the best moves on where the verdict tells so."""
    session = search.session
    session.progress.step(f"v{variant.number}: {variant.title}", variant.number, at_most=session.request.max_variants)
    search.notebook.begin(variant)
    try:
        proposal = propose()
    except (Inapplicable, NotApplicable) as reason:
        _finish(search, variant, Judgement(VariantStatus.INAPPLICABLE, str(reason)), None, takes_the_best)
        return
    except WorkerError as error:
        _finish(search, variant, Judgement(VariantStatus.FAILED, str(error)), None, takes_the_best)
        return
    search.inert |= {knob.id for sweep in proposal.sweeps for knob in sweep.inert_knobs}
    proposal, judgement = judge_proposal(
        search.bench, search.rules, search.notebook.original_text, proposal, lambda each: _placed(search, variant, each)
    )
    _finish(search, variant, judgement, proposal, takes_the_best)


def _settings_beside(search: Search, card: Card) -> float:
    """The most that settings may bring to a strategy that searches them too: 1 where the best has them already."""
    settings = SettingsSweep().card.name
    if not card.searches_settings or card.name == settings or search.swept_source is not None:
        return 1.0
    return max((r.predicted_high for r in search.profile.recommendations if r.strategy == settings), default=1.0)


def _placed(search: Search, variant: Variant, proposal: Proposal) -> Standing:
    """The proposal as the file of its variant."""
    path = search.session.workspace.variant(variant.number)
    original = search.session.workspace.original.read_bytes()
    write_bytes(path, with_line_endings_of(original, encoded(proposal.source, original)))
    best = search.best
    return Standing(
        name=f"v{variant.number}",
        source=source_ref(path),
        text=proposal.source,
        best_name=f"v{best.number}" if best else None,
        best_source=source_ref(search.session.workspace.variant(best.number)) if best else None,
    )


def _finish(
    search: Search,
    variant: Variant,
    judgement: Judgement,
    proposal: Proposal | None,
    takes_the_best: Callable[[Verdict | None], bool],
) -> None:
    """Writes the result down, and moves the best on if the variant takes its place."""
    learnings = proposal.learnings if proposal else ()
    finished = variant.model_copy(
        update={
            "status": judgement.status,
            "detail": judgement.detail,
            "verdict": judgement.verdict,
            "examination": reproducible(judgement.examination, search.session, variant.number),
            "changes": proposal.changes if proposal else (),
            "chosen_settings": proposal.chosen_settings if proposal else {},
            "learnings": (*learnings, *learnings_of(variant, judgement)),
            "plots": search.notebook.plots_of(proposal, variant.number),
            "source_sha256": file_sha256(search.session.workspace.variant(variant.number)) if proposal else None,
        }
    )
    finished = Variant.model_validate(finished.model_dump())
    search.variants.append(finished)
    search.notebook.finish(finished, judgement, proposal)
    if takes_the_best(finished.verdict):
        search.best = finished
        if proposal and proposal.sweeps:
            search.swept_source = proposal.source
        assert finished.verdict is not None
        search.session.progress.best(f"v{finished.number}, {finished.verdict.goal_told}")
    search.session.progress.note(f"v{finished.number}: {_told(finished)}")


def _told(variant: Variant) -> str:
    if variant.verdict is None:
        return f"{variant.status.value}: {variant.detail}"
    return f"{variant.verdict.outcome.value}: {'; '.join(variant.verdict.reasons)}"
