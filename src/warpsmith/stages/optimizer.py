"""Stage 2: writes variants by the profile's strategies, judges each against the original, keeps the best.

For every variant the hypothesis and the prediction are on disk before its result. The best so far is what the
next variant builds on; what does not improve on it is recorded and left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Profile, Recommendation
from warpsmith.contracts.result import SearchResult
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import Outcome, Verdict
from warpsmith.measure.worker.protocol import WorkerError
from warpsmith.project.apply import with_line_endings_of
from warpsmith.project.snapshot import expect_sha256, file_sha256
from warpsmith.report.diff import unified_diff
from warpsmith.report.pages import render_comparison, render_variant_notes
from warpsmith.report.tables import results_frame, sweep_frame, to_csv
from warpsmith.search.bench import Bench
from warpsmith.search.strategies import CATALOGUE
from warpsmith.search.strategies.base import Ground, Inapplicable, Proposal, narrow
from warpsmith.search.strategies.settings import SettingsSweep
from warpsmith.search.table import narrowed, row_count
from warpsmith.source.editing import NotApplicable
from warpsmith.source.encoding import encoded
from warpsmith.source.scan import scan
from warpsmith.stages.checkpoints import OPTIMIZED, expect_source_unchanged
from warpsmith.stages.examining import reproducible
from warpsmith.stages.judge import Judgement, Rules, Standing, judge, time_copy
from warpsmith.stages.session import Session, source_ref, text_of
from warpsmith.stages.timings import COPY
from warpsmith.verdict.decision import told_noise_floor, too_few_rounds
from warpsmith.verdict.statistics import noise_floor
from warpsmith.verdict.stopping import stop_reason
from warpsmith.workspace.documents import read_document, write_bytes, write_document, write_text

#: Where noise cannot be told from a gain there is nothing to search by.
NO_NOISE_FLOOR = "how far noise reaches is not known"


@dataclass
class Search:
    """The state of one search. `best` is the variant to build on, None while that is the original."""

    session: Session
    profile: Profile
    bench: Bench
    rules: Rules
    original_text: str
    variants: list[Variant] = field(default_factory=list)
    best: Variant | None = None
    inert: frozenset[str] = frozenset()
    swept_source: str | None = None

    @property
    def best_text(self) -> str:
        if self.best is None:
            return self.original_text
        return text_of(self.session.workspace.variant(self.best.number))


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
    copied = time_copy(bench, session.request.goal, text)
    few = too_few_rounds(copied, ORIGINAL, COPY)
    floor = None if few else noise_floor(copied, ORIGINAL, COPY)
    if floor is not None and (told := told_noise_floor(floor, session.config.thresholds)):
        session.progress.note(told)
    rules = Rules(session.request.goal, session.config.thresholds, floor)
    search = Search(session, profile, bench, rules, text)
    reason = f"{NO_NOISE_FLOOR}: {few[0]}" if few else _run(search)
    result = SearchResult(
        run_id=session.request.run_id,
        winner=search.best.number if search.best else None,
        winner_sha256=search.best.source_sha256 if search.best else None,
        stop_reason=reason,
        noise_floor=floor,
        variants=tuple(variant.number for variant in search.variants),
        origin=profile.origin,
    )
    write_text(workspace.comparison, render_comparison(search.variants, result.winner, reason, origin=profile.origin))
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
        reason = stop_reason(search.variants, search.session.request, untried, elapsed_s)
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
        strategy=SettingsSweep().name,
        why="the source has changed since its settings were chosen",
        predicted_low=1.0,
        predicted_high=1.02,
    )


def _try(search: Search, recommendation: Recommendation) -> None:
    """One variant, from its prediction to its verdict."""
    session, strategy = search.session, CATALOGUE[recommendation.strategy]
    base_gain = (
        search.best.verdict.goal.value if search.best and search.best.verdict and search.best.verdict.goal else 1.0
    )
    variant = Variant(
        number=len(search.variants) + 1,
        strategy=strategy.name,
        title=strategy.title,
        based_on=search.best.number if search.best else 0,
        hypothesis=f"{strategy.hypothesis} {recommendation.why}",
        predicted_low=base_gain * recommendation.predicted_low,
        predicted_high=base_gain * recommendation.predicted_high,
        origin=search.profile.origin,
    )
    session.progress.step(f"v{variant.number}: {strategy.title}", variant.number, at_most=session.request.max_variants)
    _write(search, variant)
    base_text = search.best_text
    ground = Ground(base_text, scan(base_text), search.profile, search.bench, search.inert)
    try:
        proposal = strategy.propose(ground)
    except (Inapplicable, NotApplicable) as reason:
        _finish(search, variant, Judgement(VariantStatus.INAPPLICABLE, str(reason)), None)
        return
    except WorkerError as error:
        _finish(search, variant, Judgement(VariantStatus.FAILED, str(error)), None)
        return
    search.inert |= {knob.id for sweep in proposal.sweeps for knob in sweep.inert_knobs}
    judgement = _judge(search, variant, proposal)
    if judgement.verdict is not None and judgement.verdict.outcome is Outcome.MIXED and proposal.tables:
        proposal, judgement = _narrow_and_judge(search, variant, proposal, judgement)
    _finish(search, variant, judgement, proposal)


def _judge(search: Search, variant: Variant, proposal: Proposal) -> Judgement:
    path = search.session.workspace.variant(variant.number)
    original = search.session.workspace.original.read_bytes()
    write_bytes(path, with_line_endings_of(original, encoded(proposal.source, original)))
    best = search.best
    standing = Standing(
        name=f"v{variant.number}",
        source=source_ref(path),
        text=proposal.source,
        best_name=f"v{best.number}" if best else None,
        best_source=source_ref(search.session.workspace.variant(best.number)) if best else None,
    )
    return judge(search.bench, standing, search.rules, search.original_text)


def _narrow_and_judge(
    search: Search, variant: Variant, proposal: Proposal, judgement: Judgement
) -> tuple[Proposal, Judgement]:
    """The table without the bands where a case was slower, judged again."""
    assert judgement.verdict is not None
    spec, tables = search.bench.spec, list(proposal.tables)
    modes = {knob.jit_function: sweep.mode for sweep in proposal.sweeps for knob in sweep.knobs}
    for found in judgement.verdict.cases:
        if found.regressed:
            case = spec.case(found.case)
            shape = case.axes[spec.plot_axis], row_count(case, spec.plot_axis)
            at_fault = _passes_at_fault(judgement.verdict, found.case)
            tables = [narrowed(t, *shape) if modes[t.jit_function] in at_fault else t for t in tables]
    tables = [table for table in tables if table.bands]
    if not tables or tables == list(proposal.tables):
        return proposal, judgement
    search.session.progress.note(f"v{variant.number}: mixed; judged again without the bands that were slower")
    proposal = narrow(proposal, tables)
    return proposal, _judge(search, variant, proposal)


def _passes_at_fault(verdict: Verdict, case: str) -> set[Mode]:
    """The passes that are slower at a case that regressed; every pass where none is slower by itself."""
    passes = {c.mode: c.speedup.value for c in verdict.cases if c.case == case and c.mode is not Mode.FULL}
    return {mode for mode, speedup in passes.items() if speedup < 1} or set(Mode)


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
            "learnings": (*learnings, *_learnings(variant, judgement)),
            "source_sha256": file_sha256(search.session.workspace.variant(variant.number)) if proposal else None,
        }
    )
    finished = Variant.model_validate(finished.model_dump())
    search.variants.append(finished)
    _write(search, finished, judgement, proposal)
    if _beats_best(search, finished):
        search.best = finished
        if proposal and proposal.sweeps:
            search.swept_source = proposal.source
        assert finished.verdict is not None
        search.session.progress.best(f"v{finished.number}, {finished.verdict.goal} × the original")
    search.session.progress.note(f"v{finished.number}: {_told(finished)}")


def _beats_best(search: Search, variant: Variant) -> bool:
    """Accepted against the original, and clear of the best so far by its interval and twice the noise floor."""
    if not variant.accepted or variant.verdict is None:
        return False
    if search.best is None:
        return True
    gain = variant.verdict.over_best
    return gain is not None and gain.low > 1 and gain.value >= 1 + 2 * (search.rules.noise_floor or 0.0)


def _write(
    search: Search, variant: Variant, judgement: Judgement | None = None, proposal: Proposal | None = None
) -> None:
    """The variant's record and notes, and with a result its CSV and the sweep's."""
    workspace = search.session.workspace
    diff = None
    if proposal is not None:
        diff = unified_diff(
            search.original_text, proposal.source, workspace.original.name, workspace.variant(variant.number).name
        )
    write_document(workspace.variant_record(variant.number), variant)
    write_text(
        workspace.variant_notes(variant.number), render_variant_notes(variant, diff, origin=search.profile.origin)
    )
    if judgement is not None and judgement.timings:
        frame = results_frame(
            search.bench.spec,
            judgement.timings,
            judgement.memories,
            search.profile.device,
            sources={f"v{variant.number}": variant.source_sha256} if variant.source_sha256 else None,
        )
        write_text(workspace.results_csv(variant.number), to_csv(frame, variant.origin))
    if proposal is not None and proposal.sweeps:
        readings = [reading for sweep in proposal.sweeps for reading in sweep.readings]
        original_ms = {
            (each.case.name, sweep.mode): each.original_ms for sweep in proposal.sweeps for each in sweep.cases
        }
        frame = sweep_frame(readings, original_ms=original_ms)
        write_text(workspace.sweep_csv, to_csv(frame, variant.origin))
    workspace.log("variant", number=variant.number, status=variant.status.value)


def _learnings(variant: Variant, judgement: Judgement) -> tuple[str, ...]:
    """What the result says of the prediction."""
    verdict = judgement.verdict
    if verdict is None or verdict.goal is None:
        return (f"{judgement.status.value}: {judgement.detail}",) if judgement.detail else ()
    low, high, found = variant.predicted_low, variant.predicted_high, verdict.goal.value
    place = variant.against_prediction(found)
    return (f"predicted {low:.2f} to {high:.2f} ×, found {found:.3f} ×: {place} the prediction", *verdict.reasons)


def _told(variant: Variant) -> str:
    if variant.verdict is None:
        return f"{variant.status.value}: {variant.detail}"
    return f"{variant.verdict.outcome.value}: {'; '.join(variant.verdict.reasons)}"
