"""Undoes a finalize: the original's bytes again, where the production file is exactly what the run applied.

Whatever else lies there is somebody's, and is left. What was done is written down after it was done: the same command
finds a file that is back already, and only writes that down.
"""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from pathlib import Path

from warpsmith.contracts.errors import Rejected, UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult, TakenBack
from warpsmith.project.apply import clear, revert
from warpsmith.project.snapshot import file_sha256, read_source, sha256_of
from warpsmith.stages.applying import same_code
from warpsmith.stages.in_place import REVERTED, has_applied
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace


def take_back(workspace: Workspace) -> TakenBack:
    """The original in the production file. Call it with the run's lock held.

    Raises UsageError where the run has applied nothing, Rejected where the file or the snapshot of the original is not
    what the run left, Unavailable where the file cannot be written; it is then as it was.
    """
    kernel = workspace.kernel
    if not workspace.request.is_file():
        raise UsageError(f"no run of {kernel} has begun: nothing to take back", next_command=f"warpsmith run {kernel}")
    if not workspace.final_result.is_file():
        return _unproven_taken_back(workspace)
    result, profile = read_document(workspace.final_result, FinalResult), read_document(workspace.profile, Profile)
    if result.outcome is not FinalOutcome.APPLIED or result.applied_sha256 is None:
        raise UsageError(
            f"run {result.run_id} of {kernel} applied nothing ({result.outcome.value})", next_command=_way_on(workspace)
        )
    found = _found(workspace, profile)
    was_back = found == profile.source_sha256
    if not was_back:
        if found != result.applied_sha256:
            raise _edited(workspace, profile, f"what run {result.run_id} applied", result.applied_sha256, found)
        _put_back(workspace, profile, found)
    if result.taken_back_at is None:
        workspace.log(REVERTED, winner=result.winner, by="warpsmith revert")
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        write_document(workspace.final_result, result.model_copy(update={"taken_back_at": now}))
    return _taken_back(workspace, profile, result.winner, was_back=was_back)


def _unproven_taken_back(workspace: Workspace) -> TakenBack:
    """The winner that a killed finalize left in place, in whatever layout, and whose tests have not passed."""
    kernel = workspace.kernel
    if workspace.search_result.is_file() and has_applied(workspace):
        profile = read_document(workspace.profile, Profile)
        search = read_document(workspace.search_result, SearchResult)
        found = _found(workspace, profile)
        was_back = found == profile.source_sha256
        if not was_back:
            if not _is_winner(workspace, search, profile):
                raise _edited(workspace, profile, f"the winner of run {search.run_id}", search.winner_sha256, found)
            _put_back(workspace, profile, found)
        workspace.log(REVERTED, winner=search.winner, by="warpsmith revert")
        return _taken_back(workspace, profile, search.winner, was_back=was_back)
    run_id = read_document(workspace.request, Request).run_id
    raise UsageError(f"run {run_id} of {kernel} has applied nothing yet", next_command=_way_on(workspace))


def _is_winner(workspace: Workspace, search: SearchResult, profile: Profile) -> bool:
    if search.winner is None:
        return False
    winner = read_source(workspace.variant(search.winner))
    return sha256_of(winner) == search.winner_sha256 and same_code(winner, read_source(_production(workspace, profile)))


def _put_back(workspace: Workspace, profile: Profile, found: str) -> None:
    """Raises Rejected where the snapshot is not what was profiled."""
    original = read_source(workspace.original)
    if sha256_of(original) != profile.source_sha256:
        raise Rejected(
            f"{workspace.relative(workspace.original)} is not the file that was profiled any more (expected sha256 "
            f"{profile.source_sha256[:12]}, found {sha256_of(original)[:12]}); {profile.source} is left as it is: "
            "bring it back from version control",
            next_command=shlex.join(["git", "log", "--oneline", "--", profile.source]),
        )
    production = _production(workspace, profile)
    clear(production)
    revert(production, original, expected_sha256=found)


def _found(workspace: Workspace, profile: Profile) -> str:
    production = _production(workspace, profile)
    if not production.is_file():
        raise Rejected(
            f"{profile.source} is not there any more, so nothing is put in its place",
            next_command=shlex.join(["cp", workspace.relative(workspace.original), profile.source]),
        )
    return file_sha256(production)


def _edited(workspace: Workspace, profile: Profile, what: str, expected: str | None, found: str) -> Rejected:
    return Rejected(
        f"{profile.source} is not {what} (expected sha256 {(expected or '')[:12]}, found {found[:12]}): it was edited "
        "since, and is left as it is. Take out by hand what the winner brought; the snapshot of the original shows "
        "what that is",
        next_command=shlex.join(["diff", "-u", workspace.relative(workspace.original), profile.source]),
    )


def _way_on(workspace: Workspace) -> str:
    """Where an earlier run's winner lies in the production file, the command that takes that back."""
    for past in workspace.past():
        try:
            result, profile = read_document(past.final_result, FinalResult), read_document(past.profile, Profile)
        except UsageError:
            continue
        production = _production(workspace, profile)
        if production.is_file() and file_sha256(production) == result.applied_sha256:
            restore = shlex.join(["cp", workspace.relative(past.original), profile.source])
            return f"{restore}   (takes back what run {past.run_id} applied)"
    return f"warpsmith status {workspace.kernel}"


def _production(workspace: Workspace, profile: Profile) -> Path:
    return workspace.root / profile.source


def _taken_back(workspace: Workspace, profile: Profile, winner: int | None, *, was_back: bool) -> TakenBack:
    return TakenBack(
        kernel=workspace.kernel,
        run_id=profile.run_id,
        source=profile.source,
        winner=winner,
        original_sha256=profile.source_sha256,
        was_back=was_back,
    )
