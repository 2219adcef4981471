"""Opens a pull request for a branch: pushes it and calls `gh`, or says why not and by which commands it is done.

Must not know what is in the branch.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.errors import Unavailable
from warpsmith.contracts.handover import PullRequest
from warpsmith.project.git import Git, git_environment

#: Chosen: both speak to a server once.
TIME_LIMIT_S = 300.0

_URL = re.compile(r"https?://\S+")
_SHOWN_CHARACTERS = 500


@dataclass(frozen=True)
class Proposal:
    """What is proposed: a branch on top of the commit `parent`. `body` is a file."""

    branch: str
    parent: str
    title: str
    body: Path


def open_pull_request(git: Git, proposal: Proposal) -> PullRequest:
    """Opens it where gh and a remote are there and nothing but the branch's own commit would be in it.

    Raises Unavailable, with what it said and the command that failed, where git or gh refuse.
    """
    remote = remote_of(git)
    push = ["git", "push", remote or "origin", f"refs/heads/{proposal.branch}:refs/heads/{proposal.branch}"]
    create = _create(git, proposal, remote)
    by_hand = f"{shlex.join(push)} && {shlex.join(create)}"
    if remote is None:
        return PullRequest(reason="git has no remote to push to", command=f"git remote add origin URL && {by_hand}")
    if ahead := _not_pushed(git, proposal.parent, remote):
        reason = f"the branch stands on commits that are not on {remote} ({ahead}), and they would be part of it"
        return PullRequest(reason=reason, command=f"{shlex.join(['git', 'push', remote, 'HEAD'])} && {by_hand}")
    if shutil.which("gh") is None:
        return PullRequest(reason="gh is not installed", command=by_hand)
    _do(git, push)
    said = _do(git, create)
    found = _URL.findall(said)
    if not found:
        raise Unavailable(f"gh told no address of a pull request; it said: {said or 'nothing'}")
    return PullRequest(url=found[-1])


def remote_of(git: Git) -> str | None:
    """Where the branch that is checked out is pushed to, else origin, else the only remote."""
    here = git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
    remotes = git.run("remote").split()
    asked = [f"branch.{here}.pushRemote", "remote.pushDefault", f"branch.{here}.remote"]
    wanted = [*(git.ask("config", key) for key in asked), "origin"]
    return next((name for name in wanted if name in remotes), remotes[0] if len(remotes) == 1 else None)


def _create(git: Git, proposal: Proposal, remote: str | None) -> list[str]:
    """Against the branch that the one that is checked out follows, else against the remote's default."""
    upstream = git.ask("rev-parse", "--symbolic-full-name", "@{upstream}") or ""
    prefix = f"refs/remotes/{remote}/"
    base = ["--base", upstream.removeprefix(prefix)] if upstream.startswith(prefix) else []
    body = os.path.relpath(proposal.body.resolve(), git.top.resolve())
    return ["gh", "pr", "create", "--head", proposal.branch, *base, "--title", proposal.title, "--body-file", body]


def _not_pushed(git: Git, commit: str, remote: str) -> int:
    return int(git.run("rev-list", "--count", commit, "--not", f"--remotes={remote}"))


def _do(git: Git, command: Sequence[str]) -> str:
    """What the command prints. Raises Unavailable where it fails, is not there or takes too long."""
    environment = {**git_environment(), "GH_PROMPT_DISABLED": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=git.top,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(command, f"did not end within {TIME_LIMIT_S:.0f} s") from error
    except OSError as error:
        raise _failed(command, f"cannot be run: {error.strerror}") from error
    said = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0:
        raise _failed(command, f"said: {said[-_SHOWN_CHARACTERS:] or f'exit status {done.returncode}'}")
    return said


def _failed(command: Sequence[str], what: str) -> Unavailable:
    name = " ".join(command[:3] if command[0] == "gh" else command[:2])
    return Unavailable(
        f"no pull request was opened; the branch is there. {name} {what}", next_command=shlex.join(command)
    )
