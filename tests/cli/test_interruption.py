"""An interrupt ends a command, whatever code it happens to meet. What whole commands do with it: tests/interruption."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from simulated_run import REPOSITORY

from warpsmith.cli import interruption
from warpsmith.contracts.errors import ExitCode

BEGINNING = """
import os, signal
from warpsmith.cli.interruption import Signalled, ignore_signals, raise_at_a_signal
raise_at_a_signal()
"""

SWALLOWED_BY_A_BARE_EXCEPT = """
try:
    os.kill(os.getpid(), signal.SIGINT)
except:
    pass
"""
SWALLOWED_BY_A_FINALIZER = """
class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
Finalized()
"""
COMES_AGAIN = """
try:
    signal.pause()
except Signalled:
    print("came again")
"""

CLEAN_UP = """
try:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        try:
            {}
        except ValueError:
            os.kill(os.getpid(), signal.SIGTERM)
            print("cleaned up")
except Signalled:
    print("ended")
"""
IN_A_GENERATOR = """
import contextlib
@contextlib.contextmanager
def cleaning():
    try:
        yield
    finally:
        os.kill(os.getpid(), signal.SIGHUP)
        print("cleaned up")
try:
    with cleaning():
        os.kill(os.getpid(), signal.SIGINT)
except Signalled:
    print("ended")
"""
AFTER_THE_END = """
try:
    raise SystemExit
finally:
    os.kill(os.getpid(), signal.SIGINT)
    ignore_signals()
    os.kill(os.getpid(), signal.SIGTERM)
    print("ended")
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (SWALLOWED_BY_A_BARE_EXCEPT + COMES_AGAIN, "came again\n"),
        (SWALLOWED_BY_A_FINALIZER + COMES_AGAIN, "came again\n"),
        (CLEAN_UP.format("raise ValueError"), "cleaned up\nended\n"),
        (IN_A_GENERATOR, "cleaned up\nended\n"),
        (AFTER_THE_END, "ended\n"),
    ],
    ids=["bare-except", "finalizer", "clean-up", "context-manager", "end"],
)
def test_an_interrupt_is_neither_lost_nor_raised_into_its_own_clean_up(program: str, printed: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BEGINNING + program],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, printed, "")


def test_the_exit_code_is_the_designs() -> None:
    assert interruption.EXIT_CODE == ExitCode.INTERRUPTED
