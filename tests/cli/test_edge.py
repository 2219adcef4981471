"""What ends a command that the code did not foresee: one clear message, a code of the design, and no traceback."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from command_line import Command
from simulated_run import REPOSITORY, Run

from warpsmith.contracts.errors import ExitCode
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), "/x/y: the disk is full; free some space"),
        (OSError(errno.EROFS, "Read-only file system"), "the file system is read-only"),
        (OSError("cannot write mode RGBA"), "cannot write mode RGBA"),
        (OSError(), "OSError"),
        (PermissionError(errno.EACCES, "Permission denied", b"/x"), "permission denied"),
    ],
    ids=["named", "unnamed", "words", "nothing", "bytes"],
)
def test_an_error_of_the_operating_system_is_told_in_words(
    begun: Run, command: Command, monkeypatch: pytest.MonkeyPatch, error: OSError, told: str
) -> None:
    def fail(**_: object) -> int:
        raise error

    monkeypatch.setattr("warpsmith.cli.overview.print_doctor", fail)
    ended = command(begun.root, "doctor", "--json")

    assert (ended.exit_code, ended.err) == (ExitCode.UNAVAILABLE, f"warpsmith: {told}\n")
    assert json.loads(ended.out)["error"] == {"message": told, "exit_code": 6, "next_command": None}


@pytest.mark.parametrize(
    ("status", "code", "next_command"),
    [
        ("bad_target", ExitCode.PREFLIGHT, None),
        ("compile_failed", ExitCode.PREFLIGHT, None),
        ("died", ExitCode.UNAVAILABLE, "warpsmith doctor"),
    ],
)
def test_a_failure_of_the_worker_is_the_kernels_or_the_machines(
    begun: Run, command: Command, monkeypatch: pytest.MonkeyPatch, status: str, code: ExitCode, next_command: str | None
) -> None:
    def fail(**_: object) -> int:
        raise WorkerError(WorkerFailure.model_validate({"status": status, "message": "call returned NoneType"}))

    monkeypatch.setattr("warpsmith.cli.overview.print_doctor", fail)
    ended = command(begun.root, "doctor", "--json")

    assert ended.exit_code == code
    assert json.loads(ended.out)["error"] == {
        "message": f"{status}: call returned NoneType",
        "exit_code": int(code),
        "next_command": next_command,
    }


def test_a_torn_event_in_the_ledger_is_told_with_what_the_terminal_can_show(begun: Run, command: Command) -> None:
    begun.workspace.ledger.write_text('{"event": "größe 模型", "at": "2026"}\n', encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "warpsmith", "status", "rms_norm"],
        cwd=begun.root,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert r"gr\xf6\xdfe \u6a21\u578b" in ended.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_has_nowhere_to_go_is_an_error_with_a_code(begun: Run) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "warpsmith", "list", "--json"],
            cwd=begun.root,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (6, "warpsmith: the disk is full; free some space\n")


@pytest.mark.parametrize("arguments", [("run", "rms_norm", "--fresh", "--device", "0"), ("doctor",)])
def test_a_torch_for_another_maker_is_told_before_anything_begins(
    begun: Run, command: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    versions = {"torch": "2.11.0+rocm6.4"}
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: versions.get(name) or version(name))
    before = sorted(path for path in begun.root.rglob("*") if not path.name.startswith(".lock"))

    ended = command(begun.root, *arguments)

    assert ended.exit_code == ExitCode.UNAVAILABLE
    assert "NVIDIA only" in ended.out + ended.err and "AMD (ROCm)" in ended.out + ended.err
    assert sorted(path for path in begun.root.rglob("*") if not path.name.startswith(".lock")) == before
