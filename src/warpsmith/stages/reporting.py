"""Writes the report of a finished run, whatever its outcome, from what the finalizer measured."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.measurement import Correctness, Memory, Timing
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.report.context import ReportContext
from warpsmith.report.diff import unified_diff
from warpsmith.report.figures import save_plots
from warpsmith.report.pages import render_html, render_report
from warpsmith.report.rows import provider_rows
from warpsmith.stages.session import Session
from warpsmith.workspace.documents import read_document, write_text


def write_report(
    session: Session,
    profile: Profile,
    search: SearchResult,
    result: FinalResult,
    timings: Sequence[Timing],
    memories: Sequence[Memory],
    correctness: Correctness | None,
) -> None:
    """report.md, report.html and the plots."""
    workspace, request = session.workspace, session.request
    rows = provider_rows(timings, memories)
    speedups = result.confirmation.cases if result.confirmation else ()
    applied = result.outcome is FinalOutcome.APPLIED
    context = ReportContext(
        request=request,
        profile=profile,
        search=search,
        result=result,
        variants=tuple(read_document(path, Variant) for path in workspace.variant_records()),
        folder=workspace.directory,
        rows=rows,
        correctness=correctness,
        diff=_diff(session, profile, search) if applied else "",
        plots=save_plots(workspace.plots, profile, rows, speedups, search.noise_floor),
        reproduce_commands=(f"warpsmith run {request.kernel} --goal {request.goal.value} --fresh",),
        revert_commands=(f"cp {workspace.relative(workspace.original)} {profile.source}",) if applied else (),
    )
    write_text(workspace.report_page, render_report(context))
    write_text(workspace.report_html, render_html(context))


def _diff(session: Session, profile: Profile, search: SearchResult) -> str:
    """The change to the production file as git would show it."""
    assert search.winner is not None
    original = session.workspace.original.read_text(encoding="utf-8")
    applied = (session.root / profile.source).read_text(encoding="utf-8")
    return unified_diff(original, applied, f"a/{profile.source}", f"b/{profile.source}")
