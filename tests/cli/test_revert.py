"""What the shell sees of `warpsmith revert`, and of a run whose winner was taken back."""

from __future__ import annotations

import json

import pytest
from command_line import Command
from simulated_run import SOURCE, Run, make_repository

from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.result import FinalOutcome, FinalResult, TakenBack
from warpsmith.project.snapshot import sha256_of
from warpsmith.workspace.documents import write_document


@pytest.fixture
def applied(profiled: Run) -> Run:
    """A run that says of a file that it applied it."""
    original = profiled.production.read_bytes()
    winner = original + b"# faster\n"
    result = FinalResult(
        run_id="r",
        outcome=FinalOutcome.APPLIED,
        reason="confirmed",
        winner=1,
        applied_sha256=sha256_of(winner),
        original_sha256=sha256_of(original),
        origin=Origin(kind=OriginKind.MEASURED),
    )
    profiled.production.write_bytes(winner)
    profiled.workspace.search_result.write_text("{}")
    profiled.workspace.report_page.write_text("# the report\n")
    write_document(profiled.workspace.final_result, result)
    return profiled


def test_revert_brings_the_original_back_and_status_next_and_report_tell_so(applied: Run, command: Command) -> None:
    ended = command(applied.root, "revert", "rms_norm")
    assert ended.exit_code == ExitCode.DONE
    assert ended.told == f"rms_norm: {SOURCE} is the original again, not v1 next: warpsmith next rms_norm"
    assert applied.production.read_bytes() == applied.workspace.original.read_bytes()

    for arguments in (("status",), ("next",), ("report",), ("finalize",)):
        told = command(applied.root, *arguments, "rms_norm")
        assert (told.exit_code, "taken back" in told.told) == (ExitCode.DONE, True), arguments
    report = json.loads(command(applied.root, "report", "rms_norm", "--json").out)
    status = json.loads(command(applied.root, "status", "rms_norm", "--json").out)
    assert report["taken_back_at"] == status["run"]["taken_back_at"] is not None

    again = command(applied.root, "revert", "rms_norm", "--json")
    assert again.exit_code == ExitCode.DONE
    assert TakenBack.model_validate_json(again.out).was_back


def test_revert_of_an_edited_file_is_a_refusal_with_its_reason(applied: Run, command: Command) -> None:
    applied.production.write_bytes(b"edited = 1\n")
    ended = command(applied.root, "revert", "rms_norm", "--json")
    assert ended.exit_code == ExitCode.REJECTED
    told = json.loads(ended.out)["error"]
    assert (told["exit_code"], told["next_command"]) == (
        5,
        f"diff -u optimization/rms_norm/original_rms_norm.py {SOURCE}",
    )
    assert applied.production.read_bytes() == b"edited = 1\n"


def test_revert_before_any_run_makes_no_workspace(command: Command, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = make_repository(tmp_path_factory.mktemp("none"))
    ended = command(root, "revert", "rms_norm")
    assert ended.exit_code == ExitCode.USAGE
    assert ended.told_err == (
        "warpsmith: no run of rms_norm has begun: nothing to take back next: warpsmith run rms_norm"
    )
    assert not (root / "optimization").exists()
