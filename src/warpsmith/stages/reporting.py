"""Writes the report of a finished run, whatever its outcome, from what the finalizer measured."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from warpsmith.contracts.aim import Objective, told_conditions
from warpsmith.contracts.measurement import L2, Correctness, Memory, Timing
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import Verdict
from warpsmith.report.context import ReportContext
from warpsmith.report.diff import unified_diff
from warpsmith.report.figures import save_plots
from warpsmith.report.pages import render_html, render_report
from warpsmith.report.rows import provider_rows
from warpsmith.stages.session import GPU_SHARED, Session, text_of
from warpsmith.workspace.documents import read_document, write_text
from warpsmith.workspace.layout import Workspace


@dataclass(frozen=True)
class Confirmation:
    """The winner measured afresh in cold processes on new inputs.

    `timings` are those of the first process, with the baselines beside the winner in each comparison; the verdict rests
    on all of them.
    """

    verdict: Verdict
    correctness: Correctness
    timings: tuple[Timing, ...]
    memories: tuple[Memory, ...]


def write_report(
    session: Session,
    profile: Profile,
    search: SearchResult,
    result: FinalResult,
    confirmation: Confirmation | None,
) -> None:
    """report.md, report.html and the plots. `confirmation` is None where there was nothing to measure afresh."""
    workspace, request = session.workspace, session.request
    rows = provider_rows(confirmation.timings, confirmation.memories) if confirmation else ()
    speedups = confirmation.verdict.cases if confirmation else ()
    applied = result.outcome is FinalOutcome.APPLIED
    restore = (f"warpsmith revert {request.kernel}",) if applied else ()
    context = ReportContext(
        request=request,
        profile=profile,
        search=search,
        result=result,
        variants=tuple(read_document(path, Variant) for path in workspace.variant_records()),
        folder=workspace.directory,
        rows=rows,
        correctness=confirmation.correctness if confirmation else None,
        diff=_diff(session, profile, search) if applied else "",
        plots=save_plots(workspace.plots, profile, rows, speedups, search.noise_floor),
        reproduce_commands=(*restore, command_of(request)),
        revert_commands=restore,
        shared_with=_shared_with(workspace),
    )
    write_text(workspace.report_page, render_report(context))
    write_text(workspace.report_html, render_html(context))


def _shared_with(workspace: Workspace) -> tuple[int, ...]:
    """Process ids, from the ledger."""
    return tuple(sorted({pid for event in workspace.events() if event["event"] == GPU_SHARED for pid in event["pids"]}))


def command_of(request: Request) -> str:
    """The command that begins such a run anew."""
    options = ["--fresh", f"--goal {request.goal.value}", f"--max-variants {request.max_variants}"]
    if request.autonomous:
        options.append("--autonomous")
    if request.target_speedup is not None:
        options.append(f"--target-speedup {request.target_speedup:g}")
    if request.l2 is not L2.COLD:
        options.append(f"--l2 {request.l2.value}")
    if request.objective is not Objective.SPEED:
        options.append(f"--objective {request.objective.value}")
    options += [f"--regime {shlex.quote(told_conditions(request.regime))}"] if request.regime else []
    options += [f"--weight {shlex.quote(str(weight))}" for weight in request.weights]
    if request.target_metric is not None:
        options.append(f"--target-metric {shlex.quote(str(request.target_metric))}")
    return f"warpsmith run {request.kernel} {' '.join(options)}"


def _diff(session: Session, profile: Profile, search: SearchResult) -> str:
    """The change to the production file as git would show it."""
    assert search.winner is not None
    original, applied = text_of(session.workspace.original), text_of(session.root / profile.source)
    return unified_diff(original, applied, f"a/{profile.source}", f"b/{profile.source}")
