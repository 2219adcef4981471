"""A winner is handed over as one commit of the kernel alone, and only where that is all that would be committed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from simulated_run import SOURCE, Run

from warpsmith.contracts.errors import ExitCode, Rejected, Unavailable, UsageError
from warpsmith.contracts.handover import HandOver, PullRequest
from warpsmith.contracts.result import FinalOutcome, FinalResult
from warpsmith.stages import handover
from warpsmith.stages.checkpoints import next_step
from warpsmith.stages.handover import Asked, expect_possible, hand_over
from warpsmith.stages.taking_back import take_back
from warpsmith.workspace.documents import read_document, write_document

# Test modules are imported by path, so what they share is found only if they are told where.
sys.path.append(str(Path(__file__).resolve().parents[1] / "project"))

from small_repository import committed, git, without_configuration

BRANCH = "warpsmith/rms_norm"
URL = "https://forge.example/team/kernels/pull/7"


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    without_configuration(monkeypatch)


@pytest.fixture
def tracked(finalized: Run) -> Run:
    """A run whose winner is applied and not committed; its original is in the last commit."""
    with_original_committed(finalized)
    return finalized


def with_original_committed(run: Run) -> None:
    in_place = run.production.read_bytes()
    run.production.write_bytes(run.workspace.original.read_bytes())
    committed(run.root)
    run.production.write_bytes(in_place)


def test_the_branch_has_the_winner_and_nothing_else_and_all_that_tells_of_the_run_names_it(tracked: Run) -> None:
    status = git(tracked.root, "status", "--porcelain")
    given = hand_over(tracked.workspace, Asked())
    assert given is not None

    assert (given.branch, given.parent) == (BRANCH, git(tracked.root, "rev-parse", "main"))
    assert (given.commit, given.left_behind) == (git(tracked.root, "rev-parse", BRANCH), ())
    assert git(tracked.root, "diff", "--name-only", "main", BRANCH) == SOURCE
    assert git(tracked.root, "diff", "--stat", BRANCH, "--", SOURCE) == ""
    assert git(tracked.root, "status", "--porcelain") == status == f" M {SOURCE}"
    assert read_document(tracked.workspace.handover, HandOver) == given
    assert next_step(tracked.workspace, "rms_norm").known_so_far[-1] == f"on branch {BRANCH} ({given.commit[:12]})"
    last = tracked.workspace.last_event()
    assert last is not None and (last["event"], last["commit"]) == ("on_a_branch", given.commit)


def test_the_message_says_what_changed_how_much_it_brings_where_and_how_to_reproduce_it(tracked: Run) -> None:
    hand_over(tracked.workspace, Asked())
    message = git(tracked.root, "log", "-1", "--format=%B", BRANCH)
    title, _, rest = message.partition("\n\n")
    result = read_document(tracked.workspace.final_result, FinalResult)
    assert result.confirmation is not None and result.confirmation.goal is not None
    gain = f"{result.confirmation.goal.value:.3f}\u00d7"

    assert title == f"rms_norm: {gain} as fast in forward then backward on Simulated H200"
    assert rest.startswith(f"Only {SOURCE} changes: it is v3 of a search by\nwarpsmith:\n- ")
    assert "  8192\u00d74096 bf16  " in rest and "held-out" in rest
    assert "GPU: Simulated H200, compute capability 9.0" in rest
    assert "The kernel's own tests pass with it (1 passed):" in rest
    assert rest.endswith("\n  warpsmith run rms_norm --fresh --goal full --max-variants 8 --autonomous")
    assert max(map(len, rest.splitlines()[:-1])) <= 80
    assert str(tracked.root) not in message


def test_what_is_made_already_is_not_made_again_wherever_head_is_by_then(tracked: Run) -> None:
    given = hand_over(tracked.workspace, Asked())
    git(tracked.root, "commit", "--quiet", "--all", "--message", "by hand")
    assert hand_over(tracked.workspace, Asked()) == given
    assert git(tracked.root, "rev-parse", BRANCH) == (given and given.commit)

    git(tracked.root, "branch", "--delete", "--force", BRANCH)
    with pytest.raises(Rejected, match="is in the last commit as it is now: there is nothing left to hand over"):
        hand_over(tracked.workspace, Asked())


def test_a_branch_whose_making_was_not_written_down_is_taken_as_it_is(tracked: Run) -> None:
    given = hand_over(tracked.workspace, Asked())
    tracked.workspace.handover.unlink()
    assert hand_over(tracked.workspace, Asked()) == given


def test_another_name_makes_another_branch_and_a_name_that_is_taken_is_refused(tracked: Run) -> None:
    hand_over(tracked.workspace, Asked())
    given = hand_over(tracked.workspace, Asked(branch="faster"))
    assert given is not None and git(tracked.root, "rev-parse", "faster") == given.commit
    with pytest.raises(UsageError, match="there is a branch main already"):
        hand_over(tracked.workspace, Asked(branch="main"))


def test_changes_that_the_winner_was_tested_with_and_that_are_not_on_the_branch_are_named(tracked: Run) -> None:
    with (tracked.root / "warpsmith.yaml").open("a") as file:
        file.write("# mine\n")
    given = hand_over(tracked.workspace, Asked())
    assert given is not None and given.left_behind == ("warpsmith.yaml",)
    assert git(tracked.root, "diff", "--name-only", "main", BRANCH) == SOURCE


def test_what_was_profiled_with_changes_that_are_not_committed_is_refused_before_it_is_applied(optimized: Run) -> None:
    mine = optimized.production.read_bytes()
    optimized.production.write_bytes(b"# as it was committed\n" + mine)
    committed(optimized.root)
    optimized.production.write_bytes(mine)
    with pytest.raises(
        Rejected, match="a branch would commit them under the winner's name; commit them first"
    ) as caught:
        expect_possible(optimized.workspace, Asked())
    assert (caught.value.exit_code, caught.value.next_command) == (ExitCode.REJECTED, f"git commit {SOURCE}")

    git(optimized.root, "commit", "--quiet", "--message", "mine", SOURCE)
    expect_possible(optimized.workspace, Asked())
    assert optimized.finalize().outcome is FinalOutcome.APPLIED
    given = hand_over(optimized.workspace, Asked())
    assert given is not None and given.parent == git(optimized.root, "rev-parse", "main")


def test_once_such_a_winner_is_applied_the_way_leads_over_taking_it_back(finalized: Run) -> None:
    winner = finalized.production.read_bytes()
    finalized.production.write_bytes(b"# as it was committed\n")
    committed(finalized.root)
    finalized.production.write_bytes(winner)
    with pytest.raises(Rejected, match="a branch would commit the difference under the winner's name") as caught:
        hand_over(finalized.workspace, Asked())
    assert caught.value.next_command == "warpsmith revert rms_norm"
    assert git(finalized.root, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


@pytest.mark.parametrize("how", ["edited", "taken back"])
def test_what_is_not_in_the_production_file_any_more_is_not_handed_over(tracked: Run, how: str) -> None:
    if how == "edited":
        tracked.production.write_bytes(tracked.production.read_bytes() + b"# by hand\n")
    else:
        take_back(tracked.workspace)
    with pytest.raises(Rejected, match=r"is no longer what run .* applied, so there is nothing to hand over"):
        hand_over(tracked.workspace, Asked())
    assert git(tracked.root, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_a_run_that_applied_nothing_has_nothing_to_hand_over(tracked: Run) -> None:
    none = read_document(tracked.workspace.final_result, FinalResult)
    none = none.model_copy(update={"outcome": FinalOutcome.NO_IMPROVEMENT, "applied_sha256": None})
    write_document(tracked.workspace.final_result, none)
    assert hand_over(tracked.workspace, Asked()) is None
    assert not tracked.workspace.handover.exists()


def test_a_source_that_git_does_not_know_and_a_repository_without_a_commit_are_told(optimized: Run) -> None:
    git(optimized.root, "init", "--quiet")
    with pytest.raises(UsageError, match="there is no commit yet"):
        expect_possible(optimized.workspace, Asked())
    (optimized.root / ".gitignore").write_text("src/\n")
    committed(optimized.root)
    with pytest.raises(UsageError, match=f"{SOURCE} is not in the last commit"):
        expect_possible(optimized.workspace, Asked())


def test_who_commits_is_asked_for_before_anything_is_applied(optimized: Run) -> None:
    committed(optimized.root)
    git(optimized.root, "config", "--unset", "user.name")
    with pytest.raises(UsageError, match="git does not know whose commit it would be"):
        expect_possible(optimized.workspace, Asked())


def test_a_project_below_the_root_of_its_repository_and_a_source_behind_a_link_are_found(
    finalized: Run, tmp_path: Path
) -> None:
    real = finalized.production.with_name("rms_norm_real.py")
    os.replace(finalized.production, real)
    finalized.production.symlink_to(real.name)
    winner = real.read_bytes()
    real.write_bytes(finalized.workspace.original.read_bytes())
    committed(tmp_path)
    real.write_bytes(winner)

    assert hand_over(finalized.workspace, Asked()) is not None
    changed = f"finalized/{SOURCE}".replace("rms_norm.py", "rms_norm_real.py")
    assert git(tmp_path, "diff", "--name-only", "main", BRANCH) == changed


def test_a_pull_request_has_its_text_in_the_workspace_and_is_opened_once(
    tracked: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(handover, "open_pull_request", lambda git, proposal: asked.append(proposal) or opened)
    opened = PullRequest(reason="gh is not installed", command="gh pr create")
    given = hand_over(tracked.workspace, Asked(pull_request=True))
    assert given is not None and given.pull_request == opened

    opened = PullRequest(url=URL)
    for _ in range(2):
        given = hand_over(tracked.workspace, Asked(pull_request=True))
        assert given is not None and given.pull_request == opened
    assert [(proposal.branch, proposal.parent) for proposal in asked] == 2 * [(BRANCH, given.parent)]
    assert asked[0].title == git(tracked.root, "log", "-1", "--format=%s", BRANCH)
    assert next_step(tracked.workspace, "rms_norm").known_so_far[-1].endswith(f", pull request {URL}")
    text = asked[0].body.read_text()
    assert asked[0].body == tracked.workspace.pull_request
    for part in (
        "## What changed\n\n- ",
        "### full (the goal)",
        "| 8192\u00d74096 bf16 |",
        "## What it costs\n\n| metric",
    ):
        assert part in text
    assert "warpsmith run rms_norm --fresh" in text and "- GPU: Simulated H200" in text
    assert str(tracked.root) not in text


def test_a_pull_request_that_could_not_be_opened_leaves_the_branch_and_goes_on(
    tracked: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> PullRequest:
        raise Unavailable("gh said no")

    with monkeypatch.context() as patch:
        patch.setattr(handover, "open_pull_request", refused)
        with pytest.raises(Unavailable, match="gh said no"):
            hand_over(tracked.workspace, Asked(pull_request=True))
    branch = git(tracked.root, "rev-parse", BRANCH)
    monkeypatch.setattr(handover, "open_pull_request", lambda *_: PullRequest(url=URL))
    given = hand_over(tracked.workspace, Asked(pull_request=True))
    assert given is not None and given.commit == branch
    assert given.pull_request == PullRequest(url=URL)
