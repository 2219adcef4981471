"""Killed at any moment, a run leaves the original or the winner, can be gone on with, and ends as if nothing had been.

Fifty kills, at moments drawn from fixed seeds over all that a run does to files and processes, also between the
bytes of a write.
"""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest
from interrupted_run import NEVER, REPOSITORY, TEST_COMMAND, At, Ended, InterruptedRun, Launcher, NewRun
from simulated_run import KERNEL, SOURCE, make_repository

from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.result import FinalResult
from warpsmith.project.demonstration import copy_repository
from warpsmith.project.recordings import RecordedRun
from warpsmith.workspace.documents import read_document

SEEDS = range(5)
KILLS = 10


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_been(
    seed: int, new_run: NewRun, uninterrupted: tuple[InterruptedRun, Ended]
) -> None:
    reference, whole = uninterrupted
    draw = random.Random(seed)
    run, kills, total = new_run(), 0, 0
    while total < KILLS or kills:
        at = moment(draw, whole, first=kills == 0) if total < KILLS else NEVER
        ended = run.go_on(at)
        if ended.code == -signal.SIGKILL:
            kills, total = kills + 1, total + 1
            run.check()
            continue
        assert ended.code == 0, ended.output
        check_finished(run, reference)
        run, kills = new_run(), 0


def moment(draw: random.Random, whole: Ended, *, first: bool) -> At:
    """Any event of a whole run, as often as not the middle of a write; a run that is gone on with has fewer."""
    kind, number = draw.choice([("", whole.events), ("write", whole.writes)])
    return kind, draw.randint(1, number if first else number // 2)


def check_finished(run: InterruptedRun, reference: InterruptedRun) -> None:
    run.check()
    assert run.documents() == reference.documents()
    assert run.production.read_bytes() == reference.production.read_bytes() == run.winner()
    assert run.leftovers() == []


def test_a_replayed_run_is_killed_and_goes_on_as_well(tmp_path: Path) -> None:
    recorded = RecordedRun(REPOSITORY / "benchmark" / "data" / KERNEL, KERNEL)
    repository, copy = make_repository(tmp_path / "repository"), tmp_path / "copy"
    shutil.copytree(recorded.directory, repository / recorded.directory.relative_to(REPOSITORY))
    copy_repository(repository, copy, source=SOURCE, original=recorded.original.read_bytes())
    (copy / "warpsmith.yaml").write_text(TEST_COMMAND)
    launcher = Launcher()
    arguments = ("run", KERNEL, "--autonomous", "--quiet", "--device", "recorded")
    run = InterruptedRun(launcher, copy, tmp_path / "scratch", KERNEL, SOURCE, arguments)
    for at in (("write", 150), ("subprocess.Popen", 1)):
        assert run.go_on(at).code == -signal.SIGKILL
        run.check()
    ended = run.go_on()
    launcher.close()

    assert ended.code == ExitCode.DONE, ended.output
    result, expected = (
        read_document(run.workspace.final_result, FinalResult),
        read_document(recorded.document, Recording),
    )
    assert (result.outcome, result.winner, result.applied_sha256, result.confirmation) == (
        expected.result.outcome,
        expected.result.winner,
        expected.result.applied_sha256,
        expected.result.confirmation,
    )
    assert run.production.read_bytes() == run.winner()
    assert run.leftovers() == []


#: As a formatter does, it leaves alone what it has formatted.
STYLE = b"# end\n"
FORMATTER = f"""
import sys
with open(sys.argv[1], "rb+") as file:
    if not file.read().endswith({STYLE!r}):
        file.write({STYLE!r})
"""
FAILING_TESTS = """test_command: [python, -I, -S, -c, "print('1 failed in 0.01s'); raise SystemExit(1)"]\n"""


def test_killed_at_one_event_after_the_other_a_winner_is_applied_with_its_style(new_search: NewRun) -> None:
    searched = new_search()
    searched.style = STYLE
    formatter = searched.scratch / "formatter.py"
    formatter.write_text(FORMATTER)
    with (searched.root / "warpsmith.yaml").open("a") as configuration:
        configuration.write(f"style_command: [python, -I, -S, {formatter}]\n")

    ended = killed_at_every_event(searched, applying(new_search()))

    winner = searched.winner()
    assert winner is not None
    assert (ended.code, searched.production.read_bytes()) == (ExitCode.DONE, winner + STYLE)
    assert searched.leftovers() == []


def test_killed_at_one_event_after_the_other_a_winner_that_fails_its_tests_is_taken_back(
    new_search: NewRun,
) -> None:
    searched = new_search()
    (searched.root / "warpsmith.yaml").write_text(FAILING_TESTS)

    ended = killed_at_every_event(searched, applying(new_search()))

    assert (ended.code, searched.production.read_bytes()) == (ExitCode.REJECTED, searched.original)
    assert searched.leftovers() == []


def killed_at_every_event(run: InterruptedRun, first: int) -> Ended:
    """The end of a run that is killed at its event number `first`, then at the next one, until there is none."""
    at = first
    while (ended := run.go_on(("", at))).code == -signal.SIGKILL:
        run.check_nothing_is_running()
        run.check_production()
        at += 1
    run.check()
    return ended


def applying(run: InterruptedRun) -> int:
    """The number of the event at which a winner begins to be applied: before that, finalize only reads."""
    ended = run.go_on(("os.chmod", 1))
    assert (ended.code, run.workspace.last_event()["event"]) == (-signal.SIGKILL, "applying")
    return ended.events - 3
