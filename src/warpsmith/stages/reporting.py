"""Writes the report of a finished run, whatever its outcome, from what the finalizer measured."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.aim import Objective, told_conditions
from warpsmith.contracts.measurement import L2, Correctness, Memory, Timing
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import Verdict
from warpsmith.report.context import ReportContext, SampleFiles
from warpsmith.report.diff import unified_diff
from warpsmith.report.pages import render_html, render_report
from warpsmith.report.report_plots import save_plots
from warpsmith.report.rows import provider_rows
from warpsmith.report.samples import samples_csv
from warpsmith.stages.session import GPU_SHARED, Session, text_of
from warpsmith.workspace.documents import read_document, write_text
from warpsmith.workspace.layout import Workspace


@dataclass(frozen=True)
class Confirmation:
    """The winner measured afresh in cold processes on new inputs.

    `timings` are those of the first process, with the baselines beside the winner in each comparison. The verdict rests
    on `pairs`, original and winner in all of the processes.
    """

    verdict: Verdict
    correctness: Correctness
    timings: tuple[Timing, ...]
    memories: tuple[Memory, ...]
    pairs: tuple[Timing, ...]


def write_report(
    session: Session,
    profile: Profile,
    search: SearchResult,
    result: FinalResult,
    confirmation: Confirmation | None,
) -> None:
    """report.md, report.html, plots and raw samples. `confirmation` is None where nothing had to be measured afresh."""
    workspace, request = session.workspace, session.request
    if confirmation is not None:
        comparisons = {"original and optimized": confirmation.pairs, "with the baselines": confirmation.timings}
        samples = samples_csv(comparisons, confirmation.memories, profile.origin)
        write_text(workspace.confirmation_csv, samples)
    applied = result.outcome is FinalOutcome.APPLIED
    restore = (f"warpsmith revert {request.kernel}",) if applied else ()
    context = ReportContext(
        request=request,
        profile=profile,
        search=search,
        result=result,
        variants=tuple(read_document(path, Variant) for path in workspace.variant_records()),
        folder=workspace.directory,
        rows=provider_rows(confirmation.timings, confirmation.memories) if confirmation else (),
        correctness=confirmation.correctness if confirmation else None,
        diff=_diff(session, profile, search, applied=applied),
        samples=_samples(workspace, search, confirmation),
        reproduce_commands=(*restore, command_of(request)),
        revert_commands=restore,
        shared_with=_shared_with(workspace),
    )
    context = context.model_copy(update={"plots": save_plots(workspace.plots, context)})
    write_text(workspace.report_page, render_report(context))
    write_text(workspace.report_html, render_html(context))


def _samples(workspace: Workspace, search: SearchResult, confirmation: Confirmation | None) -> SampleFiles:
    """Those that are there."""
    of_variants = {number: workspace.samples_csv(number) for number in search.variants}
    return SampleFiles(
        baseline=_if_there(workspace.samples_csv(0)),
        variants={number: path for number, path in of_variants.items() if path.is_file()},
        confirmation=workspace.confirmation_csv if confirmation else None,
        sweep=_if_there(workspace.sweep_csv),
    )


def _if_there(path: Path) -> Path | None:
    return path if path.is_file() else None


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


def _diff(session: Session, profile: Profile, search: SearchResult, *, applied: bool) -> str:
    """The winner's change to the production file as git would show it, or would have. Empty without a winner."""
    if search.winner is None:
        return ""
    workspace = session.workspace
    changed = session.root / profile.source if applied else workspace.variant(search.winner)
    return unified_diff(text_of(workspace.original), text_of(changed), f"a/{profile.source}", f"b/{profile.source}")
