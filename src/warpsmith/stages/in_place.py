"""Whose bytes lie in the production file: the original's, this run's winner, proven or not, or somebody else's.

Reads only. By the hashes of what is there, and by the ledger where two runs could have left the same bytes.
"""

from __future__ import annotations

import shlex
from contextlib import suppress

from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.handover import HandOver
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import FinalResult, SearchResult
from warpsmith.project.snapshot import file_sha256
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

#: Events of the ledger between which the production file may hold a winner that is not proven yet.
APPLYING, REVERTED, FINISHED = "applying", "reverted", "finished"
#: The event that ends a search: a ledger with a winner and without it is not whole.
OPTIMIZED = "optimized"


def has_applied(workspace: Workspace) -> bool:
    """Whether a finalize of this run has put its winner in place, or was about to, and has not taken it back.

    Raises UsageError where the ledger is damaged.
    """
    return _last_of(workspace, APPLYING, REVERTED) == APPLYING


def expect_own_winner(workspace: Workspace, search: SearchResult, profile: Profile) -> None:
    """Raises UsageError where the winner is in place and the ledger, which tells whose doing that is, is lost."""
    production = workspace.root / profile.source
    if not production.is_file() or file_sha256(production) != search.winner_sha256:
        return
    if not any(event.get("event") == OPTIMIZED for event in workspace.events()):
        raise UsageError(
            f"{profile.source} is the winner of run {search.run_id}, and nothing in "
            f"{workspace.relative(workspace.ledger)} tells any more whether the run put it there, before its tests had "
            "passed; bring the original back, or move the workspace away if the winner is yours",
            next_command=shlex.join(["cp", workspace.relative(workspace.original), profile.source]),
        )


def is_applying(workspace: Workspace) -> bool:
    """Whether such a finalize has not come to its end either. Raises UsageError where the ledger is damaged."""
    return _last_of(workspace, APPLYING, REVERTED, FINISHED) == APPLYING


def _last_of(workspace: Workspace, *events: str) -> str | None:
    return next((event["event"] for event in reversed(workspace.events()) if event.get("event") in events), None)


def unproven_winner_is_in_place(workspace: Workspace) -> bool:
    search, profile = read_document(workspace.search_result, SearchResult), read_document(workspace.profile, Profile)
    production = workspace.root / profile.source
    if not is_applying(workspace) or not production.is_file():
        return False
    return search.winner_sha256 == file_sha256(production) != profile.source_sha256


def changed_since(workspace: Workspace) -> str:
    """How the production file is no longer what the finished run applied, to go on a sentence; else empty.

    Empty also where that cannot be told.
    """
    with suppress(UsageError):
        result = read_document(workspace.final_result, FinalResult)
        if result.applied_sha256 is None:
            return ""
        source = read_document(workspace.profile, Profile).source
        production = workspace.root / source
        found = file_sha256(production) if production.is_file() else None
        if result.taken_back_at is not None:
            edited = "" if found == result.original_sha256 else f"; {source} was changed since then"
            return f"; its winner was {taken_back_told(result)}{edited}"
        if found != result.applied_sha256:
            return f"; the production file, {source}, is no longer what this run applied"
    return ""


def handed_over(workspace: Workspace) -> HandOver | None:
    """The branch that the finished run's winner was put on, if it was."""
    return read_document(workspace.handover, HandOver) if workspace.handover.is_file() else None


def taken_back_told(result: FinalResult) -> str:
    """That `warpsmith revert` brought the original back, and when."""
    assert result.taken_back_at is not None
    return f"taken back by `warpsmith revert` on {result.taken_back_at[:10]}"
