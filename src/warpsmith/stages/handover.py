"""Hands an applied winner over: a branch with one commit of the kernel alone, and if asked a pull request.

The danger is to commit somebody's own edits under the winner's name. So the branch is made only where the last commit
has the very file that was profiled, from which the winner differs by what was measured and by nothing else.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.errors import Rejected, UsageError
from warpsmith.contracts.handover import HandOver
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.project.git import Git, commit_on_branch, expect_branch_name, expect_identity, repository_of
from warpsmith.project.pull_request import Proposal, open_pull_request
from warpsmith.project.snapshot import read_source, sha256_of
from warpsmith.report import handover_view
from warpsmith.report.context import ReportContext
from warpsmith.stages.reporting import command_of
from warpsmith.workspace.documents import read_document, write_document, write_text
from warpsmith.workspace.layout import Workspace

#: The ledger's events of a hand-over.
ON_A_BRANCH, PROPOSED = "on_a_branch", "proposed"


@dataclass(frozen=True)
class Asked:
    """What is wanted. `branch` None is warpsmith/<kernel>, or the one that the run is on already."""

    branch: str | None = None
    pull_request: bool = False


@dataclass(frozen=True)
class _Place:
    """Where the kernel's source lies in a repository, and the commit that is checked out there."""

    git: Git
    path: str
    head: str

    @classmethod
    def of(cls, production: Path) -> _Place:
        """Of a symbolic link, the file it points to, as that is what changes. Raises UsageError, Unavailable."""
        file = production.resolve()
        git = repository_of(file)
        head = git.commit_of("HEAD")
        path = file.relative_to(git.top.resolve()).as_posix()
        if head is None or git.entry(head, path) is None:
            where = "there is no commit yet" if head is None else f"{path} is not in the last commit"
            raise UsageError(
                f"{where}: a branch with the winner alone needs the original in the commit before it",
                next_command="git status",
            )
        return cls(git, path, head)


def expect_possible(workspace: Workspace, asked: Asked) -> None:
    """Before anything is measured or applied: whether a branch could be made.

    Raises UsageError, Unavailable, and Rejected where the last commit has another file than was profiled.
    """
    if not workspace.profile.is_file() or _known(workspace, asked) is not None:
        return
    profile = read_document(workspace.profile, Profile)
    place = _Place.of(workspace.root / profile.source)
    expect_branch_name(place.git, _branch(workspace, asked))
    expect_identity(place.git)
    _expect_original_committed(workspace, profile, place)


def hand_over(workspace: Workspace, asked: Asked) -> HandOver | None:
    """The branch, and the pull request if asked; None where nothing was applied. Call it with the run's lock held.

    What is there already is not made again. Raises as `expect_possible` does, and Rejected where the winner was taken
    back or edited since; Unavailable, with the branch there, where the pull request could not be opened.
    """
    result, profile = read_document(workspace.final_result, FinalResult), read_document(workspace.profile, Profile)
    if result.outcome is not FinalOutcome.APPLIED:
        return None
    handed_over = _known(workspace, asked)
    context = context_of(workspace)
    if handed_over is None:
        expect_possible(workspace, asked)
        handed_over = _on_a_branch(workspace, asked, profile, result, context)
        write_document(workspace.handover, handed_over)
        workspace.log(ON_A_BRANCH, branch=handed_over.branch, commit=handed_over.commit)
    if asked.pull_request and (handed_over.pull_request is None or handed_over.pull_request.url is None):
        write_text(workspace.pull_request, handover_view.pull_request(context))
        proposal = Proposal(
            branch=handed_over.branch,
            parent=handed_over.parent,
            title=handover_view.subject(context),
            body=workspace.pull_request,
        )
        opened = open_pull_request(repository_of((workspace.root / profile.source).resolve()), proposal)
        handed_over = handed_over.model_copy(update={"pull_request": opened})
        write_document(workspace.handover, handed_over)
        workspace.log(PROPOSED, url=opened.url, reason=opened.reason)
    return handed_over


def context_of(workspace: Workspace) -> ReportContext:
    """The finished run as its documents tell it."""
    request = read_document(workspace.request, Request)
    return ReportContext(
        request=request,
        profile=read_document(workspace.profile, Profile),
        search=read_document(workspace.search_result, SearchResult),
        result=read_document(workspace.final_result, FinalResult),
        variants=tuple(read_document(path, Variant) for path in workspace.variant_records()),
        folder=workspace.directory,
        reproduce_commands=(command_of(request),),
    )


def _on_a_branch(
    workspace: Workspace, asked: Asked, profile: Profile, result: FinalResult, context: ReportContext
) -> HandOver:
    production = workspace.root / profile.source
    applied = read_source(production)
    if sha256_of(applied) != result.applied_sha256:
        raise Rejected(
            f"{profile.source} is no longer what run {result.run_id} applied, so there is nothing to hand over",
            next_command=f"warpsmith status {workspace.kernel}",
        )
    place = _Place.of(production)
    branch = _branch(workspace, asked)
    commit = commit_on_branch(place.git, branch, place.head, place.path, applied, handover_view.commit_message(context))
    return HandOver(
        run_id=result.run_id,
        branch=branch,
        commit=commit,
        parent=place.head,
        applied_sha256=sha256_of(applied),
        left_behind=tuple(name for name in place.git.changed() if name != place.path),
    )


def _known(workspace: Workspace, asked: Asked) -> HandOver | None:
    """What this run's hand-over has made already, where that is what is asked for and still there."""
    if not workspace.handover.is_file():
        return None
    handed_over = read_document(workspace.handover, HandOver)
    source = read_document(workspace.profile, Profile).source
    git = repository_of((workspace.root / source).resolve())
    is_there = git.commit_of(f"refs/heads/{handed_over.branch}") == handed_over.commit
    return handed_over if is_there and asked.branch in (None, handed_over.branch) else None


def _branch(workspace: Workspace, asked: Asked) -> str:
    return asked.branch or f"warpsmith/{workspace.kernel}"


def _expect_original_committed(workspace: Workspace, profile: Profile, place: _Place) -> None:
    """Raises Rejected where the commit before would not have the file that was profiled."""
    committed = place.git.entry(place.head, place.path)
    assert committed is not None
    if committed.blob == place.git.blob_of(read_source(workspace.original), place.path):
        return
    production = read_source(workspace.root / profile.source)
    if sha256_of(production) == profile.source_sha256:
        raise Rejected(
            f"{place.path} was profiled with changes that are not in the last commit, and a branch would commit them "
            "under the winner's name; commit them first, then the same command goes on",
            next_command=shlex.join(["git", "commit", profile.source]),
        )
    if committed.blob == place.git.blob_of(production, place.path):
        raise Rejected(f"{place.path} is in the last commit as it is now: there is nothing left to hand over")
    raise Rejected(
        f"the last commit has another {place.path} than the one that was profiled, and a branch would commit the "
        "difference under the winner's name; take the winner back, commit what is yours, and begin anew",
        next_command=f"warpsmith revert {workspace.kernel}",
    )
