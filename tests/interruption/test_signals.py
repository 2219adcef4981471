"""Ctrl-C, SIGTERM and SIGHUP at any moment: one line, exit code 7, and nothing goes on or is left half done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest
from interrupted_run import REPOSITORY, Ended, InterruptedRun, NewRun

from warpsmith.cli.interruption import told
from warpsmith.contracts.errors import ExitCode
from warpsmith.project.commands import import_path

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TOLD = f"warpsmith: {told()}\n"

#: Sends a signal when a module is about to be imported.
PROGRAM = """
import os, signal, sys
number, when = int(sys.argv.pop(1)), sys.argv.pop(1)
def interrupt(event, arguments):
    if event == "import" and arguments[0] == when:
        os.kill(os.getpid(), number)
sys.addaudithook(interrupt)
from warpsmith.cli import main
main()
"""


def start(number: int, when: str, *arguments: str, ignored: bool = False) -> subprocess.CompletedProcess[str]:
    """`warpsmith ARGUMENTS` in a process of its own, with a signal at an import."""
    program = f"import signal; signal.signal({number}, signal.SIG_IGN)\n{PROGRAM}" if ignored else PROGRAM
    return subprocess.run(
        [sys.executable, "-c", program, str(int(number)), when, *arguments],
        env={**os.environ, "PYTHONPATH": import_path(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("number", "when"),
    [
        (signal.SIGINT, "warpsmith.cli.edge"),
        (signal.SIGTERM, "typer"),
        (signal.SIGHUP, "pydantic"),
        (signal.SIGINT, "warpsmith.cli.flow"),
        (signal.SIGTERM, "warpsmith.workspace.layout"),
    ],
)
def test_a_signal_while_the_command_starts_is_one_line_and_its_exit_code(number: int, when: str) -> None:
    ended = start(number, when, "next", "rms_norm", "--json")

    assert (ended.returncode, ended.stderr) == (ExitCode.INTERRUPTED, TOLD)
    assert ended.stdout.count("\n") == 1 and '"exit_code": 7' in ended.stdout


def test_a_signal_that_is_ignored_from_the_start_stays_ignored() -> None:
    ended = start(signal.SIGHUP, "typer", "--version", ignored=True)

    assert (ended.returncode, ended.stderr) == (ExitCode.DONE, "")


def check_interrupted(run: InterruptedRun, ended: Ended) -> None:
    assert (ended.code, ended.output) == (ExitCode.INTERRUPTED, TOLD)
    run.check()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_at_any_moment_leaves_a_run_that_can_be_gone_on_with(
    number: int, new_run: NewRun, uninterrupted: tuple[InterruptedRun, Ended]
) -> None:
    reference, whole = uninterrupted
    draw, run = random.Random(number), new_run()
    # Half of what is left at least comes after each, so that the run never ends before its signal.
    for share, again in ((2, False), (4, True), (8, False)):
        ended = run.go_on(("", draw.randint(1, whole.events // share)), number, again=again)
        check_interrupted(run, ended)
    assert run.go_on().code == ExitCode.DONE
    assert run.documents() == reference.documents()


def passes_at_last(run: InterruptedRun, *words: str) -> None:
    """Makes the kernel's tests a program that does `words` the first time, and passes after that."""
    program = run.scratch / "tests.py"
    program.write_text(
        "import os, signal, sys, time\n"
        "once = sys.argv[1]\n"
        "if os.path.exists(once):\n"
        "    print('1 passed in 0.01s')\n"
        "    sys.exit()\n"
        "open(once, 'w').close()\n" + "\n".join(words) + "\n"
    )
    once = run.scratch / "once"
    run.configure(f"test_command: [python, -I, -S, {program}, {once}]\n")


SIGNALS_AND_HANGS = "os.kill(int(os.environ['WARPSMITH_TEST_PID']), signal.{name}); time.sleep(3600)"


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupt_while_the_tests_run_ends_them_and_puts_the_original_back(
    number: signal.Signals, searched: InterruptedRun
) -> None:
    passes_at_last(searched, SIGNALS_AND_HANGS.format(name=number.name))

    check_interrupted(searched, searched.go_on())
    assert searched.production.read_bytes() == searched.original

    assert searched.go_on().code == ExitCode.DONE
    assert searched.production.read_bytes() == searched.winner()


def test_a_kill_while_the_tests_run_ends_them_and_the_next_run_goes_on_from_the_winner(
    searched: InterruptedRun,
) -> None:
    passes_at_last(searched, SIGNALS_AND_HANGS.format(name="SIGKILL"))

    assert searched.go_on().code == -signal.SIGKILL
    searched.check()
    assert searched.production.read_bytes() == searched.winner()

    assert searched.go_on().code == ExitCode.DONE
    assert searched.production.read_bytes() == searched.winner()


@pytest.mark.parametrize("number", SIGNALS)
def test_signals_without_end_do_not_keep_the_original_from_coming_back(number: int, searched: InterruptedRun) -> None:
    ended = searched.go_on(("subprocess.Popen", 1), number, again=True)

    check_interrupted(searched, ended)
    assert searched.production.read_bytes() == searched.original


def test_a_signal_while_failing_tests_are_answered_for_still_puts_the_original_back(searched: InterruptedRun) -> None:
    passes_at_last(searched, "sys.exit(1)")

    check_interrupted(searched, searched.go_on(("os.killpg", 1), signal.SIGTERM))
    assert searched.production.read_bytes() == searched.original
