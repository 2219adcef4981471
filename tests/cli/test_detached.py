"""Long commands in a process of their own: started, followed, and told how they ended."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Command, Outcome
from simulated_run import REPOSITORY, Run, make_repository

from warpsmith.contracts.detached import MEANINGS, Detached, DetachedNow
from warpsmith.contracts.errors import ExitCode, Unavailable
from warpsmith.workspace.detached import began, ended, read_detached, take
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import run_lock

COMMAND = "warpsmith run rms_norm --autonomous"


def wait_for_the_end(workspace: Workspace) -> None:
    with workspace.detached_lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)


def next_of(command: Command, root: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(command(root, "next", "rms_norm", "--json").out)
    return told


def detached_of(command: Command, root: Path) -> DetachedNow:
    return DetachedNow.model_validate(json.loads(command(root, "status", "rms_norm", "--json").out)["detached"])


@pytest.fixture
def descriptor(begun: Run) -> Iterator[int]:
    """The open file of a detached process, which is this one."""
    taken = take(begun.workspace, COMMAND)
    began(begun.workspace)
    yield taken
    os.close(taken)


def test_a_detached_command_goes_on_by_itself_and_leaves_its_exit_code_and_output(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(make_repository(tmp_path), "rms_norm")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "src"))

    below = tmp_path / "src"
    started = command(below, "optimize", "rms_norm", "--max-variants", "3", "--detach", "--json")
    wait_for_the_end(workspace)
    told = DetachedNow.model_validate_json(started.out)
    after = detached_of(command, tmp_path)

    assert started.exit_code == ExitCode.DONE
    assert (told.running, told.exit_code, told.follow) == (True, None, "warpsmith status rms_norm")
    assert told.pid is not None and os.getsid(0) != told.pid
    assert after.model_copy(update={"ended_at": None}) == told.model_copy(update={"running": False, "exit_code": 2})
    assert after.command == "warpsmith optimize rms_norm --max-variants 3 --json"
    assert "no run of rms_norm has begun" in (tmp_path / after.log).read_text()
    assert next_of(command, tmp_path)["known_so_far"][-1].startswith(f"{after.told}; its output: optimization/")


@pytest.mark.parametrize(
    "arguments", [("run", "--goal", "up"), ("run", "--target-speedup", "0.5"), ("profile", "--magic")]
)
def test_what_is_asked_wrongly_is_told_at_once_and_starts_nothing(
    begun: Run, command: Command, arguments: tuple[str, ...]
) -> None:
    name, *options = arguments
    refused = command(begun.root, name, "rms_norm", *options, "--detach")

    assert refused.exit_code == ExitCode.USAGE
    assert not begun.workspace.detached.exists()


def test_while_it_runs_the_next_step_is_to_look_and_nothing_else_is_started(
    begun: Run, descriptor: int, command: Command
) -> None:
    step, shown = next_of(command, begun.root), command(begun.root, "status", "rms_norm")
    second = command(begun.root, "finalize", "rms_norm", "--detach")

    assert step["command"] == "warpsmith status rms_norm"
    assert step["state"] == "profile" and step["why"].startswith(f"`{COMMAND}`, detached, runs since ")
    assert shown.told.startswith("rms_norm: profile, starting")
    assert shown.told.endswith("next: wait until it has ended; warpsmith status rms_norm tells how far it is")
    assert second.exit_code == ExitCode.UNAVAILABLE
    assert "a detached command works on rms_norm already" in second.told_err


def test_one_that_holds_the_run_is_told_as_its_holder(begun: Run, command: Command) -> None:
    with run_lock(begun.workspace):
        step, refused = next_of(command, begun.root), command(begun.root, "run", "rms_norm", "--detach")

    assert step["command"] == "warpsmith status rms_norm"
    assert step["why"].startswith(f"process {os.getpid()}, started ")
    assert refused.exit_code == ExitCode.UNAVAILABLE and f"in use by process {os.getpid()}" in refused.told_err


def test_a_killed_one_is_told_from_one_that_ended(begun: Run, command: Command) -> None:
    os.close(take(begun.workspace, COMMAND))
    killed = detached_of(command, begun.root)
    step = next_of(command, begun.root)

    assert (killed.running, killed.exit_code) == (False, None)
    assert killed.told == f"`{COMMAND}`, detached, ended without a word, as a killed process does"
    assert step["command"] == "warpsmith profile rms_norm"
    assert step["known_so_far"] == [f"{killed.told}; its output: {killed.log}"]


@pytest.mark.parametrize(("code", "badly"), [(0, False), (4, False), (5, True), (6, True), (7, True)])
def test_only_an_end_that_needs_care_is_told_with_the_next_step(
    begun: Run, command: Command, code: int, badly: bool
) -> None:
    taken = take(begun.workspace, COMMAND)
    ended(begun.workspace, code)
    os.close(taken)

    assert bool(next_of(command, begun.root)["known_so_far"]) is badly
    assert f"ended with exit code {code} ({MEANINGS[code]})" in command(begun.root, "status", "rms_norm").told


def test_how_it_ended_is_forgotten_when_another_command_takes_up_the_run(begun: Run, descriptor: int) -> None:
    with run_lock(begun.workspace):
        assert read_document(begun.workspace.detached, Detached).pid == os.getpid()
    os.close(take_anew(begun.workspace, descriptor))
    with run_lock(begun.workspace):
        assert read_detached(begun.workspace) is None


def take_anew(workspace: Workspace, descriptor: int) -> int:
    """As another process would, after this one."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return take(workspace, COMMAND)


def test_two_are_never_taken_at_once_and_looking_is_no_taking(
    begun: Run, descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.workspace.detached.PATIENCE_S", 0)
    assert (read_detached(begun.workspace) or pytest.fail()).running

    with pytest.raises(Unavailable, match="works on rms_norm already"):
        take(begun.workspace, "warpsmith profile rms_norm")
    assert read_document(begun.workspace.detached, Detached).command == COMMAND


def test_a_damaged_record_hides_nothing(begun: Run, command: Command) -> None:
    begun.workspace.detached.write_text("{")
    shown: Outcome = command(begun.root, "status", "rms_norm", "--json")

    assert shown.exit_code == ExitCode.DONE and json.loads(shown.out)["detached"] is None


def test_every_exit_code_has_its_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)
