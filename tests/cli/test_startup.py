"""Commands that only read answer at once: what they import is bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_run import REPOSITORY, make_repository

import warpsmith
from warpsmith.cli.interruption import error_as_json, told
from warpsmith.contracts.errors import ExitCode

HEAVY = ("torch", "triton", "pandas", "matplotlib", "scipy", "libcst", "jinja2")
PROGRAM = f"""
import sys
from warpsmith.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print("heavy:", [name for name in {HEAVY!r} if name in sys.modules], "of", len(sys.modules))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["run", "--help"], ["list"], ["next", "rms_norm"], ["status", "rms_norm"]]
)
def test_commands_that_only_read_import_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    root = make_repository(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    told = done.stdout.splitlines()[-1]
    assert told.startswith("heavy: [] of ")
    if "--help" in arguments or "--version" in arguments:
        assert int(told.rpartition(" ")[2]) < 900
    if arguments == ["--version"]:
        assert done.stdout.splitlines()[0] == warpsmith.__version__


def test_a_signal_is_heard_before_anything_is_loaded_that_takes_long() -> None:
    program = "import sys; import warpsmith.cli; print(sorted({'typing', 're', 'json', 'typer'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_an_early_interruption_is_told_as_json_in_the_form_of_every_error() -> None:
    program = "import os; from warpsmith.cli.interruption import end_at_a_signal as e; e(); os.kill(os.getpid(), 2)"
    done = subprocess.run(
        [sys.executable, "-c", program, "--json"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.INTERRUPTED
    assert done.stdout == error_as_json(told(), ExitCode.INTERRUPTED, None) + "\n"
    assert done.stderr == f"warpsmith: {told()}\n"
