"""Stage 2: writes variants by the profile's strategies, judges each against the original, keeps the best.

For every variant the hypothesis and the prediction are on disk before its result. The best so far is what the
next variant builds on; what does not improve on it is recorded and left behind. In the end what won apart is tried
together, and what brings nothing is taken out of the winner.
"""

from __future__ import annotations

import math
from dataclasses import replace

from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Profile, Recommendation
from warpsmith.contracts.result import AblatedPart, SearchResult
from warpsmith.project.snapshot import expect_sha256
from warpsmith.report.pages import render_comparison
from warpsmith.search.strategies import CATALOGUE
from warpsmith.search.strategies.settings import SettingsSweep
from warpsmith.stages.checkpoints import expect_source_unchanged
from warpsmith.stages.in_place import OPTIMIZED
from warpsmith.stages.judge import time_copy
from warpsmith.stages.notebook import Notebook
from warpsmith.stages.refining import refine
from warpsmith.stages.rules import Rules
from warpsmith.stages.session import Session, text_of
from warpsmith.stages.timings import COPY
from warpsmith.stages.trying import Search, try_strategy
from warpsmith.verdict.decision import told_noise_floor, too_few_rounds
from warpsmith.verdict.noise import noise_floor
from warpsmith.verdict.predictions import check_predictions
from warpsmith.verdict.stopping import stop_reason
from warpsmith.workspace.documents import read_document, write_document, write_text

#: Where noise cannot be told from a gain there is nothing to search by.
NO_NOISE_FLOOR = "how far noise reaches is not known"


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
    reason, parts = (f"{NO_NOISE_FLOOR}: {few[0]}", ()) if few else _run(search)
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
        parts=parts,
    )
    write_text(workspace.comparison, render_comparison(search.variants, result, session.request.aim))
    workspace.log(OPTIMIZED, winner=result.winner, stop_reason=reason)  # before its document: see expect_own_winner
    write_document(workspace.search_result, result)
    return result


def _run(search: Search) -> tuple[str, tuple[AblatedPart, ...]]:
    """Tries strategies until one of the stop conditions holds, then refines what won; that condition, and its parts."""
    started = search.session.clock()
    reason = _try_all(search, started)
    elapsed_s = search.session.clock() - started
    if elapsed_s >= search.session.request.time_budget_s:
        return reason, ()
    more = stop_reason(search.variants, search.session.request, [math.inf], elapsed_s, search.target) is None
    return reason, refine(search, combining=more)


def _try_all(search: Search, started: float) -> str:
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
            try_strategy(search, recommendation)


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
