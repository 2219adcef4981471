"""The state machine between the stages: what is on disk decides the one legal next step.

In an interactive run a person approves twice: the profile before anything is searched, the winner before the
production file is touched. The gate is in the code: an approval names the hashes of what was judged, and one
that was given for other evidence does not count.
"""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from pathlib import Path

from warpsmith.contracts.approval import Approval, Approvals, Gate
from warpsmith.contracts.base import Sha256
from warpsmith.contracts.errors import ApprovalRequired, Rejected, Unavailable, UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import NextStep, RunState, SearchResult
from warpsmith.project.demonstration import is_demonstration
from warpsmith.project.snapshot import file_sha256
from warpsmith.stages.in_place import changed_since, unproven_winner_is_in_place
from warpsmith.stages.known import known_so_far
from warpsmith.stages.pages import expect_file, expect_named_files
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace

#: Where a run goes on that only a GPU can go on with.
ON_A_GPU = "on a machine with an NVIDIA GPU"

#: States in which the production file is still what was profiled.
BEFORE_FINALIZE = (RunState.WAITING_OPTIMIZE, RunState.OPTIMIZE, RunState.WAITING_FINALIZE)

#: The page of the skill about what comes next. A finished run needs one where its winner was taken back.
REFERENCES = {
    **dict.fromkeys((RunState.NEW, RunState.PROFILE, RunState.PREDICTED, RunState.WAITING_OPTIMIZE), "profile"),
    **dict.fromkeys((RunState.OPTIMIZE, RunState.WAITING_FINALIZE), "optimize"),
    RunState.FINALIZE: "finalize",
}


def state_of(workspace: Workspace, *, terminal_only: bool = False) -> RunState:
    """Where the run stands, read from its workspace. `terminal_only`: only a yes from a terminal opens a gate.

    Raises UsageError where a document that the rest of the run builds on is damaged, or a file that one names is gone.
    """
    if not workspace.request.is_file():
        return RunState.NEW
    request = read_document(workspace.request, Request)
    if not workspace.profile.is_file():
        return RunState.PROFILE
    if workspace.search_result.is_file() and workspace.final_result.is_file():
        return RunState.DONE
    read_document(workspace.profile, Profile)
    expect_file(workspace, workspace.original, workspace.profile)
    if request.predicted:
        return RunState.PREDICTED
    if not workspace.search_result.is_file():
        opened = _open(workspace, request, Gate.OPTIMIZE, terminal_only=terminal_only)
        return RunState.OPTIMIZE if opened else RunState.WAITING_OPTIMIZE
    search = read_document(workspace.search_result, SearchResult)
    expect_named_files(workspace, search)
    if search.winner is None or _open(workspace, request, Gate.FINALIZE, terminal_only=terminal_only):
        return RunState.FINALIZE
    return RunState.WAITING_FINALIZE


def next_step(workspace: Workspace, kernel: str, *, terminal_only: bool = False) -> NextStep:
    """The one legal next command. An agent that forgot everything can go on from it."""
    state = state_of(workspace, terminal_only=terminal_only)
    page, comparison, report = (
        workspace.relative(path) for path in (workspace.profile_page, workspace.comparison, workspace.report_page)
    )
    steps: dict[RunState, tuple[str, str, tuple[str, ...]]] = {
        RunState.NEW: (f"warpsmith profile {kernel}", "no run has begun", ()),
        RunState.PROFILE: (f"warpsmith profile {kernel}", "the profile is not finished; what was measured is kept", ()),
        RunState.PREDICTED: (
            f"warpsmith run {kernel}",
            "the profile is a prediction, made with no GPU; a GPU (or a recording) is needed to go on, from the start",
            (page,),
        ),
        RunState.WAITING_OPTIMIZE: (
            f"warpsmith approve {kernel} --gate optimize",
            "a person reads the profile and decides whether to search",
            (page,),
        ),
        RunState.OPTIMIZE: (f"warpsmith optimize {kernel}", "the profile is there; variants come next", (page,)),
        RunState.WAITING_FINALIZE: (
            f"warpsmith approve {kernel} --gate finalize",
            "a person reads the comparison and the winner, and decides whether it goes into the production file",
            (comparison,),
        ),
        RunState.FINALIZE: (f"warpsmith finalize {kernel}", "the search has ended", (comparison,)),
        RunState.DONE: (f"warpsmith report {kernel}", "the run is finished", (report,)),
    }
    command, why, read = steps[state]
    if state is RunState.PROFILE:
        command = profile_command(read_document(workspace.request, Request))
    if state in BEFORE_FINALIZE and (source := changed_source(workspace)) is not None:
        command, why = f"warpsmith run {kernel} --fresh", f"{source} has changed since it was profiled"
    if state is RunState.FINALIZE and unproven_winner_is_in_place(workspace):
        why = "the winner lies in the production file and its tests have not passed yet; this goes on, or takes it back"
    if state is RunState.FINALIZE and _is_refused(workspace):
        command, why = f"warpsmith demo {kernel}", "a recorded winner is applied only in a demonstration copy"
    if state is RunState.DONE:
        why = f"the run is finished{changed_since(workspace)}"
    return NextStep(
        kernel=kernel,
        state=state,
        command=command,
        why=why,
        read=read,
        for_a_person=command.startswith("warpsmith approve"),
        known_so_far=known_so_far(workspace, state),
        reference=f"references/{REFERENCES[state]}.md" if state in REFERENCES else None,
        where=ON_A_GPU if state is RunState.PREDICTED else None,
    )


def profile_command(request: Request) -> str:
    """What takes up a profile that was begun. A prediction stays one for its GPU."""
    named = ["--target-gpu", request.target_gpu] if request.predicted and request.target_gpu else []
    return shlex.join(["warpsmith", "profile", request.kernel, *named])


def expect_measured(workspace: Workspace, kernel: str) -> None:
    """Raises Unavailable where the run is a prediction: nothing is searched, judged or applied by that."""
    if workspace.request.is_file() and read_document(workspace.request, Request).predicted:
        raise Unavailable(
            f"the profile of {kernel} is a prediction, made with no GPU; to go on, the kernel has to be measured",
            next_command=f"{ON_A_GPU}: warpsmith run {kernel}",
        )


def expect_source_unchanged(workspace: Workspace, kernel: str) -> None:
    """Raises Rejected where the production file is no longer what was profiled, before anything is done with it."""
    if (source := changed_source(workspace)) is not None:
        raise Rejected(
            f"{source} has changed since it was profiled; what was measured is of the old file",
            next_command=f"warpsmith run {kernel} --fresh",
        )


def changed_source(workspace: Workspace) -> str | None:
    """The production file where it is no longer what was profiled. Raises UsageError where there is no profile."""
    profile = read_document(workspace.profile, Profile)
    production = workspace.root / profile.source
    unchanged = production.is_file() and file_sha256(production) == profile.source_sha256
    return None if unchanged else profile.source


def _is_refused(workspace: Workspace) -> bool:
    """Whether a replay has a winner that may not be applied where it is."""
    request, search = read_document(workspace.request, Request), read_document(workspace.search_result, SearchResult)
    return request.recording is not None and search.winner is not None and not is_demonstration(workspace.root)


def approve(workspace: Workspace, gate: Gate, *, from_terminal: bool) -> Approval:
    """Records a yes for what is on disk now. Raises UsageError where there is nothing yet to approve."""
    request = read_document(workspace.request, Request)
    page = _evidence(workspace, gate)
    if not page.is_file():
        kernel = request.kernel
        command = f"warpsmith profile {kernel}" if gate is Gate.OPTIMIZE else f"warpsmith optimize {kernel}"
        raise UsageError(
            f"nothing to approve yet: {workspace.relative(page)} is not there",
            next_command=command,
        )
    expect_source_unchanged(workspace, request.kernel)
    evidence_sha256, winner_sha256 = evidence(workspace, gate)
    approval = Approval(
        gate=gate,
        run_id=request.run_id,
        evidence_sha256=evidence_sha256,
        winner_sha256=winner_sha256,
        from_terminal=from_terminal,
        approved_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    write_document(workspace.approvals, Approvals(approvals=(*_approvals(workspace), approval)))
    workspace.log("approved", gate=gate.value, from_terminal=from_terminal)
    return approval


def evidence(workspace: Workspace, gate: Gate) -> tuple[Sha256, Sha256 | None]:
    """The hashes that a yes is bound to, as they are now: of what was judged, and of the winner, where there is one.

    Raises UsageError where the winner's file is gone, OSError where there is nothing to judge.
    """
    return file_sha256(_evidence(workspace, gate)), _winner_sha256(workspace, gate)


def require(workspace: Workspace, request: Request, gate: Gate, *, terminal_only: bool = False) -> None:
    """Raises ApprovalRequired unless the gate is open: an autonomous request, or a yes to exactly this evidence."""
    if not _open(workspace, request, gate, terminal_only=terminal_only):
        raise ApprovalRequired(
            f"{workspace.relative(_evidence(workspace, gate))} waits for a person's approval"
            + (" from a terminal (approval: tty in warpsmith.yaml)" if terminal_only else ""),
            next_command=f"warpsmith approve {request.kernel} --gate {gate.value}",
        )


def _open(workspace: Workspace, request: Request, gate: Gate, *, terminal_only: bool = False) -> bool:
    if request.autonomous and not terminal_only:
        return True
    if not _evidence(workspace, gate).is_file():
        return False  # nothing that a yes could have been given for
    bound_to = evidence(workspace, gate)
    return any(
        approval.gate is gate
        and approval.run_id == request.run_id
        and (approval.evidence_sha256, approval.winner_sha256) == bound_to
        and (approval.from_terminal or not terminal_only)
        for approval in _approvals(workspace)
    )


def _evidence(workspace: Workspace, gate: Gate) -> Path:
    return workspace.profile if gate is Gate.OPTIMIZE else workspace.comparison


def _winner_sha256(workspace: Workspace, gate: Gate) -> str | None:
    """The hash of the winner's file as it is now, so that an edit after the approval shuts the gate."""
    if gate is Gate.OPTIMIZE or not workspace.search_result.is_file():
        return None
    winner = read_document(workspace.search_result, SearchResult).winner
    if winner is None:
        return None
    expect_file(workspace, workspace.variant(winner), workspace.search_result)
    return file_sha256(workspace.variant(winner))


def _approvals(workspace: Workspace) -> tuple[Approval, ...]:
    return read_document(workspace.approvals, Approvals).approvals if workspace.approvals.is_file() else ()
