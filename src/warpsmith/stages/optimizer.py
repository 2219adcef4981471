"""Stage 2: writes variants by the profile's strategies, judges each against the original, keeps the best.

For every variant the hypothesis and the prediction are on disk before its result. The best so far is what the
next variant builds on; what does not improve on it is recorded and left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Profile, Recommendation
from warpsmith.contracts.result import SearchResult
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import TargetResult
from warpsmith.diagnose.grounds import basis_of, evidence_for
from warpsmith.measure.worker.protocol import WorkerError
from warpsmith.project.apply import with_line_endings_of
from warpsmith.project.snapshot import expect_sha256, file_sha256
from warpsmith.report.pages import render_comparison
from warpsmith.search.bench import Bench
from warpsmith.search.strategies import CATALOGUE
from warpsmith.search.strategies.base import Card, Ground, Inapplicable, Proposal
from warpsmith.search.strategies.settings import SettingsSweep
from warpsmith.source.encoding import encoded
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.stages.aiming import bench_aimed, original_target
from warpsmith.stages.checkpoints import expect_source_unchanged
from warpsmith.stages.examining import reproducible
from warpsmith.stages.in_place import OPTIMIZED
from warpsmith.stages.judge import Judgement, time_copy
from warpsmith.stages.narrowing import judge_proposal
from warpsmith.stages.notebook import Notebook, learnings_of, lessons
from warpsmith.stages.rules import Rules, Standing
from warpsmith.stages.session import Session, source_ref, text_of
from warpsmith.stages.timings import COPY
from warpsmith.verdict.decision import told_noise_floor, too_few_rounds
from warpsmith.verdict.noise import noise_floor
from warpsmith.verdict.predictions import check_predictions
from warpsmith.verdict.standing import beats_best
from warpsmith.verdict.stopping import stop_reason
from warpsmith.workspace.documents import read_document, write_bytes, write_document, write_text

#: Where noise cannot be told from a gain there is nothing to search by.
NO_NOISE_FLOOR = "how far noise reaches is not known"

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
        if self.best is None:
            return self.notebook.original_text
        return text_of(self.session.workspace.variant(self.best.number))

    @property
    def target(self) -> TargetResult | None:
        """What the best so far makes of the target metric."""
        if self.best is None:
            return original_target(self.profile, self.rules, self.bench.spec.cases)
        return self.best.verdict.target if self.best.verdict else None


def optimize(session: Session) -> SearchResult:
    """Runs the search to its end. Raises PreflightError without a profile, WorkerError where measuring breaks down."""
    workspace = session.workspace
    if not workspace.profile.is_file():
        raise PreflightError(
            f"{workspace.profile} is not there: stage 2 builds on the profile",
            next_command=f"warpsmith profile {session.request.kernel}",
        )
    profile = read_document(workspace.profile, Profile)
    expect_sha256(workspace.original, profile.source_sha256)
    expect_source_unchanged(workspace, session.request.kernel)
    session.expect_environment_of(profile.device)
    bench = session.bench(session.describe(), profile.device)
    text = text_of(workspace.original)
    session.progress.step("noise floor: the original against a copy of itself")
    rules = Rules.of(session.request, session.config.thresholds, bench.spec, None)
    copied = time_copy(bench, rules, text)
    few = too_few_rounds(copied, ORIGINAL, COPY)
    floor = None if few else noise_floor(copied, ORIGINAL, COPY, weights=rules.weights)
    if floor is not None and (told := told_noise_floor(floor, session.config.thresholds)):
        session.progress.note(told)
    notebook = Notebook(workspace, profile, bench.spec, text)
    search = Search(session, profile, bench, replace(rules, noise_floor=floor), notebook)
    reason = f"{NO_NOISE_FLOOR}: {few[0]}" if few else _run(search)
    result = SearchResult(
        run_id=session.request.run_id,
        winner=search.best.number if search.best else None,
        winner_sha256=search.best.source_sha256 if search.best else None,
        stop_reason=reason,
        noise_floor=floor,
        variants=tuple(variant.number for variant in search.variants),
        origin=profile.origin,
        predictions=check_predictions(search.variants),
        target=search.target,
    )
    write_text(workspace.comparison, render_comparison(search.variants, result, session.request.aim))
    workspace.log(OPTIMIZED, winner=result.winner, stop_reason=reason)  # before its document: see expect_own_winner
    write_document(workspace.search_result, result)
    return result


def _run(search: Search) -> str:
    """Tries strategies until one of the stop conditions holds; returns it."""
    started = search.session.clock()
    queue = list(search.profile.recommendations)
    while True:
        if not queue and (again := _settings_again(search)):
            queue.append(again)
        untried = [recommendation.predicted_high for recommendation in queue]
        elapsed_s = search.session.clock() - started
        reason = stop_reason(search.variants, search.session.request, untried, elapsed_s, search.target)
        if reason is not None:
            return reason
        if not queue:
            return "every strategy that the profile recommends was tried"
        recommendation = queue.pop(0)
        if recommendation.strategy in CATALOGUE:
            _try(search, recommendation)


def _settings_again(search: Search) -> Recommendation | None:
    """Another sweep, once, where the source that won has changed since the settings were chosen."""
    if search.best is None or search.swept_source in (None, search.best_text):
        return None
    search.swept_source = search.best_text
    return Recommendation(
        strategy=SettingsSweep().card.name,
        why="the source has changed since its settings were chosen",
        predicted_low=1.0,
        predicted_high=1.02,
    )


def _try(search: Search, recommendation: Recommendation) -> None:
    """One variant, from its prediction to its verdict."""
    session, strategy = search.session, CATALOGUE[recommendation.strategy]
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
    session.progress.step(f"v{variant.number}: {card.title}", variant.number, at_most=session.request.max_variants)
    search.notebook.begin(variant)
    base_text = search.best_text
    searched = bench_aimed(search.bench, session.request)
    ground = Ground(base_text, scan(base_text), search.profile, searched, search.inert)
    try:
        proposal = strategy.propose(ground)
    except (Inapplicable, NotApplicable) as reason:
        _finish(search, variant, Judgement(VariantStatus.INAPPLICABLE, str(reason)), None)
        return
    except WorkerError as error:
        _finish(search, variant, Judgement(VariantStatus.FAILED, str(error)), None)
        return
    search.inert |= {knob.id for sweep in proposal.sweeps for knob in sweep.inert_knobs}
    proposal, judgement = judge_proposal(
        search.bench, search.rules, search.notebook.original_text, proposal, lambda each: _placed(search, variant, each)
    )
    _finish(search, variant, judgement, proposal)


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


def _finish(search: Search, variant: Variant, judgement: Judgement, proposal: Proposal | None) -> None:
    """Writes the result down, and moves the best on if the variant beat it."""
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
    thresholds = search.rules.thresholds
    if beats_best(finished.verdict, is_first=search.best is None, thresholds=thresholds):
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
