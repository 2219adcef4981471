"""Stage 3: confirms the winner afresh, puts it into the production file behind the kernel's own tests, reports.

The tree ends as the original or as the winner, never between: the file is replaced in one step, and the only
way forward from there is passing tests or the original's bytes again.
"""

from __future__ import annotations

from warpsmith.contracts.approval import Gate
from warpsmith.contracts.device import OriginKind
from warpsmith.contracts.errors import PreflightError, Rejected
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import FailedTest, FinalOutcome, FinalResult, SearchResult
from warpsmith.contracts.verdict import Outcome
from warpsmith.project.apply import clear, revert
from warpsmith.project.demonstration import is_demonstration
from warpsmith.project.snapshot import read_source, sha256_of
from warpsmith.source.admit import admit
from warpsmith.source.encoding import decoded
from warpsmith.stages.applying import Applied, Change, apply_behind_tests, flaky_told, same_code
from warpsmith.stages.checkpoints import require
from warpsmith.stages.confirmation import confirm
from warpsmith.stages.guarding import expect_guarded
from warpsmith.stages.in_place import FINISHED, REVERTED, expect_own_winner, has_applied
from warpsmith.stages.reporting import Confirmation, write_report
from warpsmith.stages.session import Session
from warpsmith.workspace.documents import read_document, write_document

#: How a winner that was applied had been confirmed.
CONFIRMED = {
    OriginKind.MEASURED: "confirmed afresh, applied, tests passed",
    OriginKind.RECORDED: "its confirmation is on record; applied in a demonstration copy, whose tests passed here",
}

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
        return conclude(session, profile, search, no_improvement(session, profile, search), None)
    clear(session.root / profile.source)
    change = _guard(session, profile, search)
    _expect_same_tests(session, change, search)
    session.progress.step("confirming the winner on new inputs, in new processes", 1, of=STEPS)
    confirmation = confirm(session, profile, search)
    if confirmation.verdict.outcome is not Outcome.ACCEPTED:
        if change.is_applied:
            revert(change.production, change.original, expected_sha256=change.accepted)
            workspace.log(REVERTED, winner=search.winner)
        return conclude(session, profile, search, not_confirmed(session, profile, search, confirmation), confirmation)
    session.progress.step("the kernel's own tests on the winner", 2, of=STEPS)
    applied = apply_behind_tests(session, change, search.winner)
    return conclude(session, profile, search, _settled(session, profile, search, applied), confirmation)


def _settled(session: Session, profile: Profile, search: SearchResult, applied: Applied) -> FinalResult:
    """What became of a winner that was confirmed."""
    told = {"tests": applied.tests, "failed_tests": applied.failed, "style": applied.style}
    if applied.applied_sha256 is None:
        result = result_of(session, profile, search, FinalOutcome.REVERTED, applied.why_reverted)
    else:
        session.workspace.log("applied", winner=search.winner)
        reason = why_applied(search.origin.kind, applied.failed)
        result = result_of(session, profile, search, FinalOutcome.APPLIED, reason)
    return result.model_copy(update={**told, "applied_sha256": applied.applied_sha256})


def _guard(session: Session, profile: Profile, search: SearchResult) -> Change:
    """Refuses what was not measured here, not measured against this file, or not approved."""
    assert search.winner is not None
    kernel, workspace, production = session.request.kernel, session.workspace, session.root / profile.source
    replayed_in_a_copy = profile.origin.kind is OriginKind.RECORDED and is_demonstration(session.root)
    if profile.origin.kind is not OriginKind.MEASURED and not replayed_in_a_copy:
        raise Rejected(
            f"the winner was not measured here ({profile.origin}); a recorded one is applied only in a demonstration "
            "copy",
            next_command=f"warpsmith demo {kernel}",
        )
    if search.origin != profile.origin or search.run_id != profile.run_id:
        raise Rejected(
            f"{workspace.relative(workspace.search_result)} is of another run than the profile",
            next_command=f"warpsmith run {kernel} --fresh",
        )
    original, winner = read_source(workspace.original), read_source(workspace.variant(search.winner))
    for path, content, sha256 in (
        (workspace.original, original, profile.source_sha256),
        (workspace.variant(search.winner), winner, search.winner_sha256),
    ):
        if sha256_of(content) != sha256:
            raise Rejected(
                f"{workspace.relative(path)} is not the file that was measured",
                next_command=f"warpsmith run {kernel} --fresh",
            )
    _expect_admission(session, search, original, winner)
    expect_own_winner(workspace, search, profile)
    found = read_source(production)
    if found != original and not (same_code(winner, found) and has_applied(workspace)):
        raise Rejected(
            f"{profile.source} changed since it was profiled (sha256 {profile.source_sha256[:12]}, now "
            f"{sha256_of(found)[:12]}); the winner was measured against the old file",
            next_command=f"warpsmith run {kernel} --fresh",
        )
    require(workspace, session.request, Gate.FINALIZE, terminal_only=session.config.terminal_only)
    return Change(production, original, winner, sha256_of(found))


def _expect_same_tests(session: Session, change: Change, search: SearchResult) -> None:
    """Before minutes are spent on a confirmation. A winner that a killed run left is not left to other tests."""
    try:
        expect_guarded(session, consequence="nothing is applied")
    except Rejected:
        if change.is_applied:
            revert(change.production, change.original, expected_sha256=change.accepted)
            session.workspace.log(REVERTED, winner=search.winner)
        raise


def _expect_admission(session: Session, search: SearchResult, original: bytes, winner: bytes) -> None:
    """The drop-in check once more, on the very bytes that would be applied. Raises Rejected."""
    assert search.winner is not None
    workspace = session.workspace
    name = workspace.relative(workspace.variant(search.winner))
    try:
        reasons = admit(decoded(original, workspace.relative(workspace.original)), decoded(winner, name))
    except PreflightError as error:
        reasons = (error.message,)
    if reasons:
        raise Rejected(
            f"{name} is not admitted in the place of {session.describe().source}: {'; '.join(reasons)}",
            next_command=f"warpsmith run {session.request.kernel} --fresh",
        )


def result_of(
    session: Session, profile: Profile, search: SearchResult, outcome: FinalOutcome, reason: str
) -> FinalResult:
    return FinalResult(
        run_id=session.request.run_id,
        outcome=outcome,
        reason=reason,
        winner=search.winner,
        original_sha256=profile.source_sha256,
        origin=search.origin,
    )


def why_applied(origin: OriginKind, failed: tuple[FailedTest, ...]) -> str:
    return CONFIRMED[origin] + flaky_told(failed)


def no_improvement(session: Session, profile: Profile, search: SearchResult) -> FinalResult:
    reason = f"no variant was accepted: {search.stop_reason}"
    return result_of(session, profile, search, FinalOutcome.NO_IMPROVEMENT, reason)


def not_confirmed(session: Session, profile: Profile, search: SearchResult, confirmation: Confirmation) -> FinalResult:
    reason = "measured afresh, the winner did not hold: " + "; ".join(confirmation.verdict.reasons)
    return result_of(session, profile, search, FinalOutcome.NOT_CONFIRMED, reason)


def conclude(
    session: Session, profile: Profile, search: SearchResult, result: FinalResult, confirmation: Confirmation | None
) -> FinalResult:
    """Writes the report, the plots and the result, in that order."""
    if confirmation is not None:
        result = result.model_copy(update={"confirmation": confirmation.verdict})
    session.progress.step("report and plots", STEPS, of=STEPS)
    write_report(session, profile, search, result, confirmation)
    write_document(session.workspace.final_result, result)
    session.workspace.log(FINISHED, outcome=result.outcome.value)
    return result
