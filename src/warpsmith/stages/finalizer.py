"""Stage 3: confirms the winner afresh, puts it into the production file behind the kernel's own tests, reports.

The tree ends as the original or as the winner, never between: the file is replaced in one step, and the only
way forward from there is passing tests or the original's bytes again.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

from warpsmith.contracts.approval import Gate
from warpsmith.contracts.device import OriginKind
from warpsmith.contracts.errors import PreflightError, Rejected
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL, Timing
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult, TestRun
from warpsmith.contracts.verdict import Outcome
from warpsmith.project.apply import apply, clear, revert
from warpsmith.project.commands import import_path
from warpsmith.project.demonstration import is_demonstration
from warpsmith.project.snapshot import expect_sha256, file_sha256, sha256_of
from warpsmith.project.style import run_style
from warpsmith.project.tests_gate import run_tests
from warpsmith.source.encoding import decoded
from warpsmith.source.syntax import equal_syntax_tree
from warpsmith.stages.checkpoints import require
from warpsmith.stages.judge import check_all, measure_host_times, measure_memories
from warpsmith.stages.reporting import Confirmation, write_report
from warpsmith.stages.session import Session, source_ref
from warpsmith.stages.timings import contenders, pairs, with_providers
from warpsmith.verdict.decision import Evidence, decide
from warpsmith.workspace.documents import read_document, write_document

#: The confirmation runs on inputs that no search has seen.
FRESH_SEED_OFFSET = 1000

#: What a person is told step by step.
STEPS = 3


def finalize(session: Session) -> FinalResult:
    """Ends the run. Raises Rejected where the file is not what was measured, ApprovalRequired where nobody said yes."""
    workspace = session.workspace
    if not workspace.search_result.is_file():
        raise PreflightError(
            f"{workspace.relative(workspace.search_result)} is not there: stage 3 builds on the search",
            next_command=f"warpsmith optimize {session.request.kernel}",
        )
    search = read_document(workspace.search_result, SearchResult)
    profile = read_document(workspace.profile, Profile)
    if search.winner is None:
        reason = f"no variant was accepted: {search.stop_reason}"
        return _conclude(session, profile, search, _result(session, search, FinalOutcome.NO_IMPROVEMENT, reason), None)
    production = session.root / profile.source
    clear(production)
    accepted = _guard(session, profile, search, production)
    confirmation = _confirm(session, profile, search)
    if confirmation.verdict.outcome is not Outcome.ACCEPTED:
        reason = "measured afresh, the winner did not hold: " + "; ".join(confirmation.verdict.reasons)
        _take_back(session, production, accepted)
        result = _result(session, search, FinalOutcome.NOT_CONFIRMED, reason)
        return _conclude(session, profile, search, result, confirmation)
    return _conclude(session, profile, search, _apply_behind_tests(session, search, production, accepted), confirmation)


def _guard(session: Session, profile: Profile, search: SearchResult, production: Path) -> str:
    """Refuses what was not measured here, not measured against this file, or not approved.

    Returns the sha256 of the production file that it accepted: the original, or a winner that a killed run left.
    Whatever is done to the file afterwards is done to exactly that.
    """
    assert search.winner is not None
    replayed_in_a_copy = profile.origin.kind is OriginKind.RECORDED and is_demonstration(session.root)
    if profile.origin.kind is not OriginKind.MEASURED and not replayed_in_a_copy:
        raise Rejected(
            f"the winner was not measured here ({profile.origin}); a recorded one is applied only in a demonstration "
            "copy",
            next_command=f"warpsmith demo {session.request.kernel}",
        )
    winner = session.workspace.variant(search.winner)
    if file_sha256(winner) != search.winner_sha256:
        raise Rejected(f"{session.workspace.relative(winner)} is not the file that was measured; run optimize again")
    expect_sha256(session.workspace.original, profile.source_sha256)
    current = file_sha256(production)
    left_by_a_kill = _same_code(winner.read_bytes(), production.read_bytes())
    if current != profile.source_sha256 and not left_by_a_kill:
        raise Rejected(
            f"{profile.source} changed since it was profiled (sha256 {profile.source_sha256[:12]}, now "
            f"{current[:12]}); the winner was measured against the old file",
            next_command=f"warpsmith run {session.request.kernel} --fresh",
        )
    require(session.workspace, session.request, Gate.FINALIZE, terminal_only=session.config.terminal_only)
    return current


def _confirm(session: Session, profile: Profile, search: SearchResult) -> Confirmation:
    """Asks a worker that has just started, with a seed that no search used."""
    assert search.winner is not None
    session.worker.close()
    spec = session.describe()
    bench = replace(session.bench(spec, profile.device), seed=session.request.seed + FRESH_SEED_OFFSET)
    winner = source_ref(session.workspace.variant(search.winner))
    sides = contenders(**{ORIGINAL: bench.original, OPTIMIZED: winner})
    session.progress.step("confirming the winner on new inputs, in a new process", 1, of=STEPS)
    correctness = check_all(bench, winner)
    timings: list[Timing] = []
    todo = pairs(spec.cases, spec.modes)
    for index, (case, mode) in enumerate(todo):
        session.progress.note(f"confirming {case.name} {mode.value}", index, len(todo))
        timings.extend(with_providers(bench, sides, case, mode))
    memories = measure_memories(bench, sides)
    both = tuple(t for t in timings if OPTIMIZED in t.failures or any(b.contender == OPTIMIZED for b in t.blocks))
    evidence = Evidence(
        candidate=OPTIMIZED,
        best=None,
        goal_mode=session.request.goal,
        correctness=correctness,
        timings=both,
        memories=memories,
        host_times=measure_host_times(bench, sides),
        noise_floor=search.noise_floor,
    )
    return Confirmation(decide(evidence, session.config.thresholds), correctness, tuple(timings), memories)


def _apply_behind_tests(session: Session, search: SearchResult, production: Path, accepted: str) -> FinalResult:
    """The winner in place and its tests passed, or the original back in place and its tests run again."""
    assert search.winner is not None and search.winner_sha256 is not None
    workspace = session.workspace
    original, winner = workspace.original.read_bytes(), workspace.variant(search.winner).read_bytes()
    applied = search.winner_sha256 if accepted == sha256_of(original) else accepted
    expect_sha256(production, accepted)
    try:
        if accepted != applied:
            workspace.log("applying", winner=search.winner)
            apply(production, winner, expected_sha256=accepted)
        session.progress.step("the kernel's own tests on the winner", 2, of=STEPS)
        tests = _tests(session)
        if file_sha256(production) != applied:
            raise Rejected(
                f"{production.name} was changed by somebody while its tests ran; it is left as it is now",
                next_command=shlex.join(["cp", workspace.relative(workspace.original), workspace.relative(production)]),
            )
        if not tests.passed:
            revert(production, original, expected_sha256=applied)
    except BaseException:
        if file_sha256(production) == applied:
            revert(production, original, expected_sha256=applied)
        raise
    if not tests.passed:
        workspace.log("reverted", winner=search.winner)
        again = _tests(session)
        reason = (
            f"the kernel's tests failed on the winner ({tests.reason}); the original is back and its tests "
            f"{'pass' if again.passed else 'fail too, so they were failing before'}"
        )
        return _result(session, search, FinalOutcome.REVERTED, reason).model_copy(update={"tests": tests})
    style, styled_sha256 = _style(session, production, winner, applied)
    workspace.log("applied", winner=search.winner)
    return _result(session, search, FinalOutcome.APPLIED, "confirmed afresh, applied, tests passed").model_copy(
        update={"tests": tests, "style": style, "applied_sha256": styled_sha256}
    )


def _take_back(session: Session, production: Path, accepted: str) -> None:
    """The original's bytes again, where an earlier finalize was killed after it had applied the winner."""
    original = session.workspace.original.read_bytes()
    if accepted != sha256_of(original):
        revert(production, original, expected_sha256=accepted)


def _tests(session: Session) -> TestRun:
    return run_tests(
        session.root,
        session.config.test_command,
        session.describe().tests,
        log_path=session.workspace.tests_log,
        env={**os.environ, "PYTHONPATH": import_path(session.root)},
    )


def _style(session: Session, production: Path, measured: bytes, applied: str) -> tuple[str, str]:
    """What the style command makes of the file, applied only if the syntax tree is what was measured.

    Returns what to tell of it, and the sha256 of the file as it then is.
    """
    styled = run_style(session.root, session.config.style_command, production)
    expect_sha256(production, applied)
    styled_sha256 = sha256_of(styled.content)
    if styled_sha256 == applied:
        return styled.told, applied
    if not _same_code(measured, styled.content):
        return f"{styled.told}; it changed more than layout, so the measured bytes stay", applied
    apply(production, styled.content, expected_sha256=applied)
    return f"{styled.told}; the syntax tree is the one that was measured", styled_sha256


def _same_code(measured: bytes, other: bytes) -> bool:
    """Whether only the layout differs. False for what is no Python source."""
    try:
        return equal_syntax_tree(decoded(measured, ""), decoded(other, ""))
    except PreflightError:
        return False


def _result(session: Session, search: SearchResult, outcome: FinalOutcome, reason: str) -> FinalResult:
    return FinalResult(
        run_id=session.request.run_id,
        outcome=outcome,
        reason=reason,
        winner=search.winner,
        original_sha256=file_sha256(session.workspace.original),
        origin=search.origin,
    )


def _conclude(
    session: Session, profile: Profile, search: SearchResult, result: FinalResult, confirmation: Confirmation | None
) -> FinalResult:
    if confirmation is not None:
        result = result.model_copy(update={"confirmation": confirmation.verdict})
    session.progress.step("report and plots", STEPS, of=STEPS)
    write_report(session, profile, search, result, confirmation)
    write_document(session.workspace.final_result, result)
    session.workspace.log("finished", outcome=result.outcome.value)
    return result
