"""Killed at any moment, a run leaves the original or the winner, can be gone on with, and ends as if nothing had been.

Fifteen kills of a replayed run, and thirty of one on a simulated GPU, at moments drawn from fixed seeds over all
that a run does to files and processes, also between the bytes of a write. All but three of the replays that are killed
do without what takes long and leaves nothing to be killed between: triton in the worker process, and drawing.
"""

from __future__ import annotations

import random
import signal

import pytest
from interrupted_run import NEVER, RECORDED, TEST_COMMAND, At, Ended, InterruptedRun, NewRun
from small_repository import committed, git

from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.handover import HandOver
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.result import FinalResult
from warpsmith.workspace.documents import read_document

SHORT_SEEDS, SIMULATED_SEEDS = range(1, 3), range(3)
#: With what takes long, without it, and on the simulated GPU: a test.
KILLS, SHORT_KILLS, SIMULATED_KILLS = 3, 6, 10


@pytest.mark.timeout(900)
def test_a_killed_replay_goes_on_and_ends_as_if_nothing_had_been(
    new_replay: NewRun, uninterrupted_replay: tuple[InterruptedRun, Ended]
) -> None:
    reference, whole = uninterrupted_replay
    check_recorded(reference)
    killed_again_and_again(random.Random(0), KILLS, new_replay, reference, whole)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SHORT_SEEDS)
def test_a_killed_replay_that_need_not_compile_and_draw_goes_on_and_ends_as_if_nothing_had_been(
    seed: int, new_short_replay: NewRun, uninterrupted_replay: tuple[InterruptedRun, Ended]
) -> None:
    reference, whole = uninterrupted_replay
    killed_again_and_again(random.Random(seed), SHORT_KILLS, new_short_replay, reference, whole)


@pytest.mark.parametrize("seed", SIMULATED_SEEDS)
def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_been(
    seed: int, new_run: NewRun, uninterrupted: tuple[InterruptedRun, Ended]
) -> None:
    reference, whole = uninterrupted
    killed_again_and_again(random.Random(seed), SIMULATED_KILLS, new_run, reference, whole)


def killed_again_and_again(
    draw: random.Random, wanted: int, new_run: NewRun, reference: InterruptedRun, whole: Ended
) -> None:
    """Kills, each of what the one before left, until the run ends; then the same again in a fresh repository."""
    run, kills, total = new_run(), 0, 0
    while total < wanted or kills:
        at = moment(draw, whole, first=kills == 0) if total < wanted else NEVER
        ended = run.go_on(at)
        if ended.code == -signal.SIGKILL:
            kills, total = kills + 1, total + 1
            run.check()
            continue
        assert ended.code == 0, ended.output
        check_finished(run, reference)
        run, kills = new_run(), 0


def moment(draw: random.Random, whole: Ended, *, first: bool) -> At:
    """Any change of a whole run, as often as not the middle of a write; a run that is gone on with has fewer."""
    kind, number = draw.choice([("change", whole.changes), ("write", whole.writes)])
    return kind, draw.randint(1, number if first else number // 2)


def check_finished(run: InterruptedRun, reference: InterruptedRun) -> None:
    run.check()
    assert run.documents() == reference.documents()
    assert run.production.read_bytes() == reference.production.read_bytes() == run.winner()
    assert run.leftovers() == []


def check_recorded(run: InterruptedRun) -> None:
    """The verdicts of a replay are those on record."""
    result = read_document(run.workspace.final_result, FinalResult)
    expected = read_document(RECORDED.document, Recording).result
    assert (result.outcome, result.winner, result.applied_sha256, result.confirmation) == (
        expected.outcome,
        expected.winner,
        expected.applied_sha256,
        expected.confirmation,
    )


#: As a formatter does, it leaves alone what it has formatted.
STYLE = b"# end\n"
FORMATTER = f"""
import sys
with open(sys.argv[1], "rb+") as file:
    if not file.read().endswith({STYLE!r}):
        file.write({STYLE!r})
"""
#: Without a name of what failed, so that the winner is not tried once more: that is the same again, from the original.
FAILING_TESTS = """test_command: [python, -I, -S, -c, "print('1 failed in 0.01s'); raise SystemExit(1)"]\n"""


def test_killed_at_one_event_after_the_other_a_winner_is_applied_with_its_style(new_search: NewRun) -> None:
    searched = new_search()
    searched.style = STYLE
    formatter = searched.scratch / "formatter.py"
    formatter.write_text(FORMATTER)
    searched.configure(f"{TEST_COMMAND}style_command: [python, -I, -S, {formatter}]\n")

    ended = killed_at_every_event(searched, applying(new_search()))

    winner = searched.winner()
    assert winner is not None
    assert (ended.code, searched.production.read_bytes()) == (ExitCode.DONE, winner + STYLE)
    assert searched.leftovers() == []


def test_killed_at_one_event_after_the_other_a_winner_that_fails_its_tests_is_taken_back(
    new_search: NewRun,
) -> None:
    searched = new_search()
    searched.configure(FAILING_TESTS)

    ended = killed_at_every_event(searched, applying(new_search()))

    assert (ended.code, searched.production.read_bytes()) == (ExitCode.REJECTED, searched.original)
    assert searched.leftovers() == []


def test_killed_at_one_event_after_the_other_a_winner_is_taken_back_by_command(new_search: NewRun) -> None:
    run = new_search()
    assert run.go_on().code == ExitCode.DONE
    at = 1
    while (ended := run.command("revert", run.kernel, at=("change", at))).code == -signal.SIGKILL:
        run.check_production()
        assert run.command("next", run.kernel).code == ExitCode.DONE
        at += 1

    assert (ended.code, run.production.read_bytes()) == (ExitCode.DONE, run.original)
    assert at > 5 and run.leftovers() == []
    assert read_document(run.workspace.final_result, FinalResult).taken_back_at is not None
    run.check()


def test_killed_at_one_event_after_the_other_a_winner_is_put_on_a_branch_once(
    new_search: NewRun,
) -> None:
    run = new_search()
    committed(run.root)
    assert run.go_on().code == ExitCode.DONE
    winner, files = run.production.read_bytes(), git(run.root, "status", "--porcelain")
    index = (run.root / ".git" / "index").read_bytes()
    at, seen = 1, {"refs/heads/main"}
    while (ended := run.command("finalize", run.kernel, "--branch", at=("change", at))).code == -signal.SIGKILL:
        seen.update(git(run.root, "for-each-ref", "--format=%(refname) %(objectname)").split()[::2])
        assert (run.root / ".git" / "index").read_bytes() == index
        at += 1

    assert ended.code == ExitCode.DONE, ended.output
    assert (run.production.read_bytes(), git(run.root, "status", "--porcelain")) == (winner, files)
    assert seen == {"refs/heads/main", "refs/heads/warpsmith/rms_norm"}
    assert git(run.root, "rev-list", "--count", "main..warpsmith/rms_norm") == "1"
    assert git(run.root, "diff", "--name-only", "main", "warpsmith/rms_norm") == run.source
    assert read_document(run.workspace.handover, HandOver).commit == git(run.root, "rev-parse", "warpsmith/rms_norm")
    run.check()


def killed_at_every_event(run: InterruptedRun, first: int) -> Ended:
    """The end of a run that is killed at its change number `first`, then at the next one, until there is none."""
    at = first
    while (ended := run.go_on(("change", at))).code == -signal.SIGKILL:
        run.check_nothing_is_running()
        run.check_production()
        at += 1
    run.check()
    return ended


def applying(run: InterruptedRun) -> int:
    """The number of the change at which a winner begins to be applied: before that, finalize leaves it alone."""
    ended = run.go_on(("os.chmod", 1))
    assert (ended.code, run.workspace.last_event()["event"]) == (-signal.SIGKILL, "applying")
    return ended.changes - 3
