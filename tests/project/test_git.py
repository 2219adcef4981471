"""A branch gets one commit with one file, and nothing of the user's moves: index, working tree, branch, identity."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Test modules are imported by path, so what they share is found only if they are told where.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from small_repository import committed, git, without_configuration

from warpsmith.contracts.errors import Unavailable, UsageError
from warpsmith.project import git as module
from warpsmith.project.git import (
    Git,
    commit_on_branch,
    expect_branch_name,
    expect_identity,
    repository_of,
)

KERNEL, WINNER = "src/kernel [a]*.py", b"x = 2\n"
BRANCH, MESSAGE = "warpsmith/kernel", "kernel: 1.3\u00d7 as fast\n\nWhat changed.\n"


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    without_configuration(monkeypatch)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "src").mkdir(parents=True)
    (root / KERNEL).write_bytes(b"x = 1\n")
    (root / KERNEL).chmod(0o755)
    (root / "src" / "kernel a.py").write_bytes(b"y = 1\n")
    (root / "other.py").write_bytes(b"z = 1\n")
    return committed(root)


def make(repository: Path, content: bytes = WINNER) -> str:
    found = repository_of(repository / KERNEL)
    head = found.commit_of("HEAD")
    assert head is not None
    return commit_on_branch(found, BRANCH, head, KERNEL, content, MESSAGE)


def state_of(repository: Path) -> dict[str, Any]:
    files = {path: path.read_bytes() for path in repository.rglob("*") if path.is_file() and ".git" not in path.parts}
    return {
        "files": files,
        "index": (repository / ".git" / "index").read_bytes(),
        "head": (repository / ".git" / "HEAD").read_bytes(),
        "branch": git(repository, "rev-parse", "main"),
    }


def branches(repository: Path) -> list[str]:
    return git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()


def test_the_commit_changes_one_file_and_nothing_that_the_user_has_moves(repository: Path) -> None:
    (repository / "other.py").write_bytes(b"staged = 1\n")
    git(repository, "add", "other.py")
    (repository / "src" / "kernel a.py").write_bytes(b"not_staged = 1\n")
    (repository / "new.py").write_bytes(b"not_known = 1\n")
    (repository / KERNEL).write_bytes(WINNER)
    before = state_of(repository)

    commit = make(repository)

    assert state_of(repository) == before
    assert git(repository, "rev-parse", BRANCH) == commit
    assert git(repository, "diff-tree", "-r", "-z", "main", BRANCH).endswith(f"M\0{KERNEL}\0")
    assert git(repository, "ls-tree", BRANCH, "src/").splitlines()[0].startswith("100755 blob")
    assert git(repository, "show", f"{BRANCH}:{KERNEL}").encode() + b"\n" == WINNER
    assert git(repository, "log", "-1", "--format=%an <%ae>|%cn|%P|%B", BRANCH) == (
        f"A. Person <person@example.com>|A. Person|{git(repository, 'rev-parse', 'main')}|{MESSAGE}".rstrip("\n")
    )


def test_the_same_once_more_is_the_same_commit_and_something_else_is_refused(repository: Path) -> None:
    commit = make(repository)
    assert make(repository) == commit
    with pytest.raises(UsageError, match="there is a branch warpsmith/kernel already, and it is something else"):
        make(repository, b"x = 3\n")
    assert git(repository, "rev-parse", BRANCH) == commit


def test_line_ends_are_committed_as_git_converts_them(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.py text eol=crlf\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "line ends")
    found = repository_of(repository / KERNEL)
    entry = found.entry("HEAD", KERNEL)
    assert entry is not None and found.blob_of(b"x = 1\r\n", KERNEL) == entry.blob

    make(repository, b"x = 2\r\n")
    blob = subprocess.run(["git", "-C", repository, "cat-file", "blob", f"{BRANCH}:{KERNEL}"], capture_output=True)
    assert blob.stdout == b"x = 2\n"


def test_an_identity_that_git_would_guess_does_not_count(repository: Path) -> None:
    found = repository_of(repository / KERNEL)
    expect_identity(found)
    git(repository, "config", "--unset", "user.email")
    with pytest.raises(UsageError, match=r"expected user\.name and user\.email") as caught:
        expect_identity(found)
    assert "git config --global user.email you@example.com" in (caught.value.next_command or "")


@pytest.mark.parametrize("name", ["", "-d", "a..b", "a b", "a.lock", "@{-1}", "main~1"])
def test_what_is_no_name_of_a_branch_is_refused(repository: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a branch"):
        expect_branch_name(repository_of(repository / KERNEL), name)


STEPS = ("hash-object", "read-tree", "update-index", "write-tree", "commit-tree", "update-ref")


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_leaves_no_branch_and_the_next_try_makes_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before, run = state_of(repository), module._run

    def full(folder: Path, *arguments: str, **named: Any) -> subprocess.CompletedProcess[bytes]:
        if arguments[0] == step:
            return subprocess.CompletedProcess([], 128, b"", b"fatal: No space left on device\n")
        return run(folder, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_run", full)
        with pytest.raises(Unavailable, match=f"git {step} failed: No space left on device"):
            make(repository)
    assert (state_of(repository), branches(repository)) == (before, ["main"])
    make(repository)
    assert branches(repository) == ["main", BRANCH]


def test_what_a_hook_has_set_concerns_another_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository / "no-such"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / "no-index"))
    assert make(repository)
    assert not (repository / "no-index").exists()


def test_without_git_or_a_repository_that_is_what_is_told(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(repository / ".git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with pytest.raises(UsageError, match="a branch needs a git repository"):
        repository_of(repository / KERNEL)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(Unavailable, match=r"git cannot be run: .*; a branch needs it"):
        repository_of(repository / KERNEL)


def test_changed_files_are_those_of_the_working_tree(repository: Path) -> None:
    (repository / "other.py").write_bytes(b"z = 2\n")
    assert Git(repository).changed() == ("other.py",)
