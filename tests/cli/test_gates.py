"""An interactive run stops where a person must decide, and goes on only for a yes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import Command
from simulated_run import Run, make_repository

from warpsmith.contracts.approval import Approvals, Gate
from warpsmith.contracts.errors import ExitCode
from warpsmith.workspace.documents import read_document


@pytest.fixture(scope="session")
def waiting_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Run.begin(make_repository(tmp_path_factory.mktemp("waiting")))
    run.ask_for(autonomous=False)
    run.profile()
    return run.root


@pytest.fixture
def waiting(waiting_tree: Path, tmp_path: Path) -> Run:
    """A run whose profile waits for a person."""
    return Run.of(Path(shutil.copytree(waiting_tree, tmp_path / "repository")))


def test_run_without_a_terminal_stops_at_the_gate_with_the_command_for_a_person(waiting: Run, command: Command) -> None:
    ended = command(waiting.root, "run", "rms_norm", "--json")
    assert ended.exit_code == ExitCode.WAITING
    step = json.loads(ended.out)
    assert (step["command"], step["for_a_person"]) == ("warpsmith approve rms_norm --gate optimize", True)


def test_optimize_without_an_approval_is_refused_and_searches_nothing(waiting: Run, command: Command) -> None:
    ended = command(waiting.root, "optimize", "rms_norm", "--json")
    assert ended.exit_code == ExitCode.WAITING
    assert json.loads(ended.out)["error"]["next_command"] == "warpsmith approve rms_norm --gate optimize"
    assert waiting.variants() == ()


def test_approve_takes_the_gate_that_waits_and_names_the_next_command(waiting: Run, command: Command) -> None:
    ended = command(waiting.root, "approve", "rms_norm")
    assert ended.exit_code == ExitCode.DONE
    assert ended.out.splitlines()[0].startswith("approved: optimize (evidence ")
    assert "next: warpsmith optimize rms_norm" in ended.out
    (approval,) = read_document(waiting.workspace.approvals, Approvals).approvals
    assert (approval.gate, approval.from_terminal) == (Gate.OPTIMIZE, False)
    assert command(waiting.root, "optimize", "rms_norm").exit_code == ExitCode.UNAVAILABLE  # past the gate: no GPU


def test_a_no_at_the_terminal_leaves_the_gate_shut_and_a_yes_opens_it(
    waiting: Run, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: "\n", raising=False)
    ended = command(waiting.root, "run", "rms_norm")
    assert ended.exit_code == ExitCode.WAITING
    assert "Search for a faster version? [y/N]" in ended.err
    assert not waiting.workspace.approvals.exists()

    monkeypatch.setattr("sys.stdin.readline", lambda: "yes\n", raising=False)
    ended = command(waiting.root, "run", "rms_norm")
    assert ended.exit_code == ExitCode.UNAVAILABLE  # past the gate: no GPU
    assert read_document(waiting.workspace.approvals, Approvals).approvals[0].from_terminal
