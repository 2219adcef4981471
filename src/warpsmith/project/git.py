"""A commit on a branch of its own, by git's plumbing: working tree, index and the branch that is checked out stay.

Owns what is asked of git and how. Must not know what is committed, nor why.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.errors import Unavailable, UsageError

#: Chosen: what git does here is local and takes milliseconds; a minute is a file system that hangs.
TIME_LIMIT_S = 60.0

#: Settings of the user's that concern an index, and a guessed identity, are no part of such a commit.
_SETTINGS = (
    "core.splitIndex=false",
    "core.fsmonitor=false",
    "index.sparse=false",
    "user.useConfigOnly=true",
    "i18n.commitEncoding=UTF-8",
)
#: What a hook that runs this has set, about another repository or index than is meant here.
_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
#: Nothing asks, messages are in English, a path is no pattern, and what only looks leaves the user's index alone.
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_LITERAL_PATHSPECS": "1", "GIT_OPTIONAL_LOCKS": "0"}


@dataclass(frozen=True)
class Entry:
    """A file in a commit: its mode, such as "100644", and the id of its content."""

    mode: str
    blob: str


@dataclass(frozen=True)
class Git:
    """git in one repository. `top` is the root of its working tree; paths are from there."""

    top: Path

    def run(self, *arguments: str, given: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """What git prints, without the last line's end. Raises Unavailable with what it says."""
        done = _run(self.top, *arguments, given=given, env=env)
        if done.returncode != 0:
            raise Unavailable(f"git {arguments[0]} failed: {_said(done)}")
        return os.fsdecode(done.stdout).removesuffix("\n")

    def ask(self, *arguments: str) -> str | None:
        """The same, None where git says no."""
        done = _run(self.top, *arguments)
        return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else None

    def entry(self, commit: str, path: str) -> Entry | None:
        """The file as it is in a commit; None where it is not there."""
        listed = self.run("ls-tree", "-z", commit, "--", path)
        if not listed:
            return None
        mode, _, blob = listed.partition("\t")[0].split()
        return Entry(mode, blob)

    def blob_of(self, content: bytes, path: str, *, write: bool = False) -> str:
        """The id that the content would have in a commit, as git converts it for that path."""
        return self.run("hash-object", *(["-w"] if write else []), "--path", path, "--stdin", given=content)

    def commit_of(self, name: str) -> str | None:
        return self.ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")

    def changed(self) -> tuple[str, ...]:
        """Files that git knows and that are in the working tree otherwise than in the last commit."""
        listed = self.run("diff", "--name-only", "-z", "HEAD")
        return tuple(name for name in listed.split("\0") if name)


def repository_of(file: Path) -> Git:
    """The repository that a file lies in. Raises UsageError where there is none, Unavailable where git is not there."""
    done = _run(file.parent, "rev-parse", "--show-toplevel")
    if done.returncode != 0:
        raise UsageError(f"a branch needs a git repository, and {file.parent} is in none: {_said(done)}")
    return Git(Path(os.fsdecode(done.stdout).removesuffix("\n")))


def expect_identity(git: Git) -> None:
    """Raises UsageError where git does not know who commits. What it could guess from the machine does not count."""
    for role in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        done = _run(git.top, "var", role)
        if done.returncode != 0:
            raise UsageError(
                "git does not know whose commit it would be: expected user.name and user.email in its configuration",
                next_command="git config --global user.name 'Your Name' && "
                "git config --global user.email you@example.com",
            )


def expect_branch_name(git: Git, name: str) -> None:
    """Raises UsageError for what git does not take for a branch's name."""
    if name.startswith("-") or git.ask("check-ref-format", f"refs/heads/{name}") is None:
        raise UsageError(f"{name!r} is no name of a branch; expected one such as warpsmith/kernel")


def commit_on_branch(git: Git, branch: str, parent: str, path: str, content: bytes, message: str) -> str:
    """The commit on a new branch in which the file alone differs from `parent`; its mode is the parent's.

    A branch that is just that already is taken as it is. Raises UsageError where the name is another branch's,
    Unavailable where git fails. The branch is made last and in one step: before, nothing is to be seen of it.
    """
    before = git.entry(parent, path)
    assert before is not None
    blob = git.blob_of(content, path, write=True)
    with tempfile.TemporaryDirectory(prefix="warpsmith-index-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git.run("read-tree", parent, env=index)
        git.run("update-index", "--cacheinfo", f"{before.mode},{blob},{path}", env=index)
        tree = git.run("write-tree", env=index)
    ref = f"refs/heads/{branch}"
    there = git.commit_of(ref)
    if there is not None:
        if git.run("log", "-1", "--format=%T %P", there) == f"{tree} {parent}":
            return there
        raise UsageError(f"there is a branch {branch} already, and it is something else; choose another name")
    commit = git.run("commit-tree", tree, "-p", parent, "-F", "-", given=message.encode())
    git.run("update-ref", "-m", "warpsmith finalize", ref, commit, "0" * len(commit))
    return commit


def git_environment() -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}, **_ENVIRONMENT}


def _run(
    folder: Path, *arguments: str, given: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    command = ["git", "-C", str(folder), *settings, *arguments]
    environment = {**git_environment(), **(env or {})}
    try:
        return subprocess.run(command, input=given, capture_output=True, env=environment, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"git {arguments[0]} did not end within {TIME_LIMIT_S:.0f} s") from error
    except OSError as error:
        raise Unavailable(f"git cannot be run: {error.strerror}; a branch needs it") from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    said = (done.stderr or done.stdout).decode(errors="replace").strip()
    return said.removeprefix("fatal: ") or f"exit status {done.returncode}"
