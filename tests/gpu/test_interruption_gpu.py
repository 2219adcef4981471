"""A run on a real GPU, interrupted ten times at any moment: nothing of it goes on, and it ends as a run does."""

from __future__ import annotations

import random
import shutil
import signal
import sys
from collections.abc import Iterator
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

INTERRUPTIONS = 10

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
def run(tmp_path: Path) -> Iterator[InterruptedRun]:
    root = make_repository(tmp_path / "repository")
    target = root / "benchmark" / "benchmark_rms_norm.py"
    shutil.move(target, root / "whole_target.py")
    target.write_text(SMALLER)
    launcher = Launcher()
    arguments = ("run", KERNEL, "--autonomous", "--quiet", "--device", "0", "--max-variants", "1")
    yield InterruptedRun(launcher, root, tmp_path / "scratch", KERNEL, SOURCE, arguments)
    launcher.close()


@pytest.mark.timeout(600)
def test_a_run_that_is_interrupted_again_and_again_leaves_nothing_running_and_ends(run: InterruptedRun) -> None:
    draw, interrupted = random.Random(0), 0
    for number in range(INTERRUPTIONS):
        signal_number = signal.SIGINT if number % 5 == 4 else signal.SIGKILL
        at = ("write", draw.randint(1, WRITES))
        ended = run.go_on(at, signal_number, within_s=draw.uniform(1.0, LATEST_S))
        if ended.code == ExitCode.DONE:
            break
        assert ended.code in (-signal.SIGKILL, ExitCode.INTERRUPTED), ended.output
        assert "Traceback" not in ended.output
        interrupted += 1
        run.check()

    ended = run.go_on()
    assert ended.code == ExitCode.DONE, ended.output
    run.check()
    result = read_document(run.workspace.final_result, FinalResult)
    applied = result.outcome is FinalOutcome.APPLIED
    assert run.production.read_bytes() == (run.winner() if applied else run.original)
    assert run.leftovers() == []
    assert interrupted >= INTERRUPTIONS // 2
