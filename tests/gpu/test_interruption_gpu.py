"""A run on a real GPU, killed ten times at any moment: nothing of it goes on, and it ends as a run does."""

from __future__ import annotations

import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# What is shared with the runs on a simulated GPU is found only if it is told where.
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "interruption"), str(TESTS / "stages")]

from interrupted_run import InterruptedRun, Launcher  # noqa: E402
from simulated_run import KERNEL, SOURCE, make_repository  # noqa: E402

from warpsmith.contracts.errors import ExitCode  # noqa: E402
from warpsmith.contracts.result import FinalOutcome, FinalResult  # noqa: E402
from warpsmith.workspace.documents import read_document  # noqa: E402

pytestmark = pytest.mark.gpu

KILLS = 10

#: Chosen: a worker is up after five to ten seconds, so some are interrupted before and some while they measure.
LATEST_S = 16.0

#: Answers and documents that a run writes in that time.
WRITES = 40

#: The real target at two sizes that are tuned and two that only judge, with torch as the one baseline.
SMALLER = """
from dataclasses import replace

from whole_target import target as whole

KEPT = {"2048x2048-bf16", "8192x4096-bf16", "8192x2048-bf16", "64x8192-bf16"}
target = replace(
    whole,
    cases=tuple(case for case in whole.cases if case.name in KEPT),
    providers={"torch": whole.providers["torch"]},
)
"""


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[Callable[[], InterruptedRun]]:
    launchers: list[Launcher] = []

    def make() -> InterruptedRun:
        place = tmp_path / str(len(launchers))
        root = make_repository(place / "repository")
        target = root / "benchmark" / "benchmark_rms_norm.py"
        shutil.move(target, root / "whole_target.py")
        target.write_text(SMALLER)
        launchers.append(Launcher())
        arguments = ("run", KERNEL, "--autonomous", "--quiet", "--device", "0", "--max-variants", "1")
        return InterruptedRun(launchers[-1], root, place / "scratch", KERNEL, SOURCE, arguments)

    yield make
    for launcher in launchers:
        launcher.close()


@pytest.mark.timeout(600)
def test_a_live_run_that_is_killed_again_and_again_leaves_nothing_running_and_ends(
    new_run: Callable[[], InterruptedRun],
) -> None:
    draw, killed, run = random.Random(0), 0, new_run()
    while killed < KILLS:
        at = ("write", draw.randint(1, WRITES))
        ended = run.go_on(at, signal.SIGKILL, within_s=draw.uniform(1.0, LATEST_S))
        if ended.code == ExitCode.DONE:
            check_finished(run)
            run = new_run()
            continue
        assert ended.code == -signal.SIGKILL, ended.output
        killed += 1
        run.check()

    ended = run.go_on(("write", 2), signal.SIGINT, within_s=LATEST_S)
    assert ended.code in (ExitCode.INTERRUPTED, ExitCode.DONE), ended.output
    assert "Traceback" not in ended.output
    run.check()
    ended = run.go_on()
    assert ended.code == ExitCode.DONE, ended.output
    check_finished(run)


def check_finished(run: InterruptedRun) -> None:
    run.check()
    result = read_document(run.workspace.final_result, FinalResult)
    applied = result.outcome is FinalOutcome.APPLIED
    assert run.production.read_bytes() == (run.winner() if applied else run.original)
    assert run.leftovers() == []
