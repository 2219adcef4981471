"""What the shell sees of `warpsmith finalize --branch` and `--pr`, on a run that is finished and on one that is not."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from command_line import Command
from simulated_run import SOURCE, Run

from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.result import FinalOutcome, FinalResult, SearchResult
from warpsmith.project.snapshot import sha256_of
from warpsmith.workspace.documents import read_document, write_document

# Test modules are imported by path, so what they share is found only if they are told where.
sys.path.append(str(Path(__file__).resolve().parents[1] / "project"))

from small_repository import committed, git, without_configuration

WINNER = b"# faster\n"
BRANCH = "warpsmith/rms_norm"


@pytest.fixture(autouse=True)
def no_gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git is on the PATH, and gh is not."""
    without_configuration(monkeypatch)
    found = shutil.which("git")
    assert found is not None
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").symlink_to(found)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/lib/git-core")


@pytest.fixture
def searched(profiled: Run) -> Run:
    """A committed run that says of a file that it is its winner."""
    committed(profiled.root)
    profile = profiled.workspace.profile.read_bytes()
    winner = profiled.production.read_bytes() + WINNER
    profiled.workspace.variant(1).write_bytes(winner)
    told = json.loads(profile)
    search = SearchResult(
        run_id=told["run_id"],
        winner=1,
        winner_sha256=sha256_of(winner),
        stop_reason="all was tried",
        noise_floor=None,
        variants=(),
        origin=told["origin"],
    )
    write_document(profiled.workspace.search_result, search)
    return profiled


def finished(run: Run, outcome: FinalOutcome) -> Run:
    applied = outcome is FinalOutcome.APPLIED
    search = read_document(run.workspace.search_result, SearchResult)
    result = FinalResult(
        run_id=search.run_id,
        outcome=outcome,
        reason="confirmed",
        winner=1,
        applied_sha256=search.winner_sha256 if applied else None,
        original_sha256=sha256_of(run.workspace.original.read_bytes()),
        origin=search.origin,
    )
    if applied:
        run.production.write_bytes(run.workspace.variant(1).read_bytes())
    write_document(run.workspace.final_result, result)
    return run


def test_a_finished_run_is_handed_over_and_status_and_report_tell_so(searched: Run, command: Command) -> None:
    run = finished(searched, FinalOutcome.APPLIED)
    run.workspace.report_page.write_text("# the report\n")
    (run.root / "warpsmith.yaml").write_text("# mine\n")
    ended = command(run.root, "finalize", "rms_norm", "--branch")
    commit = git(run.root, "rev-parse", "--short=12", BRANCH)

    assert ended.exit_code == ExitCode.DONE
    assert f"branch: {BRANCH}, commit {commit}; see it with git show {BRANCH}" in ended.told
    assert "not on it, though it was tested with them: changes that are not committed, to warpsmith.yaml" in ended.told
    assert git(run.root, "diff", "--name-only", "main", BRANCH) == SOURCE
    for reading in ("status", "report", "finalize"):
        assert f"on branch {BRANCH} ({commit})" in command(run.root, reading, "rms_norm").told


def test_a_pull_request_without_gh_is_told_with_the_command_that_opens_it(searched: Run, command: Command) -> None:
    run = finished(searched, FinalOutcome.APPLIED)
    git(run.root, "remote", "add", "origin", "elsewhere")
    git(run.root, "update-ref", "refs/remotes/origin/main", "main")
    ended = command(run.root, "finalize", "rms_norm", "--branch-name", "faster", "--pr", "--json")

    assert ended.exit_code == ExitCode.DONE
    told = json.loads(ended.out)
    proposed = told["hand_over"]["pull_request"]
    assert (told["outcome"], told["hand_over"]["branch"]) == ("applied", "faster")
    assert (proposed["url"], proposed["reason"]) == (None, "gh is not installed")
    assert proposed["command"].startswith("git push origin refs/heads/faster:refs/heads/faster && gh pr create ")
    assert run.workspace.pull_request.read_text().startswith(f"Only {SOURCE} changes")
    shown = command(run.root, "finalize", "rms_norm", "--pr").told
    assert "pull request: not opened: gh is not installed its text: optimization/rms_norm/pull-request.md" in shown


def test_where_nothing_was_applied_there_is_no_branch(searched: Run, command: Command) -> None:
    run = finished(searched, FinalOutcome.NOT_CONFIRMED)
    git(run.root, "config", "--unset", "user.name")
    ended = command(run.root, "finalize", "rms_norm", "--branch")
    assert (ended.exit_code, ended.out.splitlines()[-1].strip()) == (0, "no branch: nothing was applied")
    assert git(run.root, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_what_could_not_be_handed_over_is_refused_before_the_stage_begins(searched: Run, command: Command) -> None:
    git(searched.root, "config", "--unset", "user.email")
    ended = command(searched.root, "finalize", "rms_norm", "--branch", "--json")
    assert ended.exit_code == ExitCode.USAGE
    assert "git does not know whose commit it would be" in json.loads(ended.out)["error"]["message"]
    assert not searched.workspace.final_result.exists()
