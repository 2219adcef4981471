"""A pull request has the branch's own commit alone; where none is opened, the reason and the command are told."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

# Test modules are imported by path, so what they share is found only if they are told where.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from small_repository import committed, git, without_configuration

from warpsmith.contracts.errors import ExitCode, Unavailable
from warpsmith.contracts.handover import PullRequest
from warpsmith.project.git import Git, commit_on_branch
from warpsmith.project.pull_request import Proposal, open_pull_request, remote_of

URL = "https://forge.example/team/kernels/pull/7"
GH = f"""#!{sys.executable}
import json, sys
open("../asked.json", "w").write(json.dumps(sys.argv[1:]))
print("Creating pull request for warpsmith/k into main")
print({URL!r})
"""
REFUSES = f"""#!{sys.executable}
import sys
sys.exit("To get started with GitHub CLI, please run:  gh auth login")
"""


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with git and nothing else."""
    without_configuration(monkeypatch)
    folder = tmp_path / "bin"
    folder.mkdir()
    found = shutil.which("git")
    assert found is not None
    (folder / "git").symlink_to(found)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/lib/git-core")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Git:
    """With a remote that has its branch main."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "k.py").write_text("x = 1\n")
    committed(root)
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(root, "push", "--quiet", "--set-upstream", "origin", "main")
    return Git(root)


def has_gh(tools: Path, program: str) -> None:
    (tools / "gh").write_text(program)
    (tools / "gh").chmod(0o755)


def proposed(repository: Git) -> Proposal:
    head = repository.commit_of("HEAD")
    assert head is not None
    commit_on_branch(repository, "warpsmith/k", head, "k.py", b"x = 2\n", "k: faster\n")
    body = repository.top / "pull request.md"
    body.write_text("text\n")
    return Proposal("warpsmith/k", head, "k: faster", body)


def on_the_remote(repository: Git) -> list[str]:
    listed = git(repository.top, "ls-remote", "--heads", "origin").splitlines()
    return sorted(line.split("refs/heads/")[1] for line in listed)


def test_the_branch_is_pushed_and_gh_is_asked_for_a_request_against_the_upstream(repository: Git, tools: Path) -> None:
    has_gh(tools, GH)
    assert open_pull_request(repository, proposed(repository)) == PullRequest(url=URL)

    assert on_the_remote(repository) == ["main", "warpsmith/k"]
    assert json.loads((repository.top.parent / "asked.json").read_text()) == [
        *("pr", "create", "--head", "warpsmith/k", "--base", "main"),
        *("--title", "k: faster", "--body-file", "pull request.md"),
    ]


def test_without_gh_nothing_is_pushed_and_the_commands_are_told(repository: Git) -> None:
    assert open_pull_request(repository, proposed(repository)) == PullRequest(
        reason="gh is not installed",
        command="git push origin refs/heads/warpsmith/k:refs/heads/warpsmith/k && gh pr create --head warpsmith/k "
        "--base main --title 'k: faster' --body-file 'pull request.md'",
    )
    assert on_the_remote(repository) == ["main"]


def test_without_a_remote_that_is_the_reason(repository: Git, tools: Path) -> None:
    has_gh(tools, GH)
    git(repository.top, "remote", "remove", "origin")
    opened = open_pull_request(repository, proposed(repository))
    assert opened.reason == "git has no remote to push to"
    assert (opened.command or "").startswith("git remote add origin URL && git push origin ")


def test_commits_of_the_users_that_are_not_pushed_are_not_proposed_along(repository: Git, tools: Path) -> None:
    has_gh(tools, GH)
    git(repository.top, "commit", "--quiet", "--allow-empty", "--message", "mine")
    opened = open_pull_request(repository, proposed(repository))
    assert opened.reason == "the branch stands on commits that are not on origin (1), and they would be part of it"
    assert (opened.command or "").startswith("git push origin HEAD && git push origin ")
    assert on_the_remote(repository) == ["main"]


def test_what_gh_says_is_told_with_the_command_that_failed(repository: Git, tools: Path) -> None:
    has_gh(tools, REFUSES)
    with pytest.raises(Unavailable, match=r"the branch is there\. gh pr create said: .* gh auth login") as caught:
        open_pull_request(repository, proposed(repository))
    assert caught.value.exit_code is ExitCode.UNAVAILABLE
    assert (caught.value.next_command or "").startswith("gh pr create --head warpsmith/k ")


def test_a_gh_that_tells_no_address_has_opened_nothing_that_is_known(repository: Git, tools: Path) -> None:
    has_gh(tools, f"#!{sys.executable}\nprint('done')\n")
    with pytest.raises(Unavailable, match="gh told no address of a pull request; it said: done"):
        open_pull_request(repository, proposed(repository))


def test_a_push_that_is_refused_is_told_and_gh_is_not_asked(repository: Git, tools: Path) -> None:
    has_gh(tools, GH)
    shutil.rmtree(repository.top.parent / "remote.git")
    with pytest.raises(Unavailable, match=r"git push said: .*remote\.git"):
        open_pull_request(repository, proposed(repository))
    assert not (repository.top.parent / "asked.json").exists()


def test_the_remote_is_the_one_that_the_checked_out_branch_goes_to(repository: Git) -> None:
    git(repository.top, "remote", "add", "fork", "elsewhere")
    assert remote_of(repository) == "origin"
    git(repository.top, "config", "branch.main.pushRemote", "fork")
    assert remote_of(repository) == "fork"
    git(repository.top, "config", "branch.main.pushRemote", "gone")
    git(repository.top, "config", "branch.main.remote", "fork")
    assert remote_of(repository) == "fork"
