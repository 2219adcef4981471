"""What is on disk decides the one next step, and a yes counts for what it was given for and for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from simulated_run import Run, make_repository

from warpsmith.contracts.approval import Approvals, Gate
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import ApprovalRequired, Unavailable, UsageError
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, NextStep, RunState, SearchResult
from warpsmith.stages.checkpoints import approve, expect_measured, next_step, require, state_of
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace


def step_of(run: Run) -> tuple[RunState, str, bool]:
    step = next_step(run.workspace, "rms_norm")
    return step.state, step.command, step.for_a_person


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def test_before_any_run_the_next_step_is_a_profile(tmp_path: Path) -> None:
    assert next_step(Workspace(make_repository(tmp_path), "rms_norm"), "rms_norm") == NextStep(
        kernel="rms_norm",
        state=RunState.NEW,
        command="warpsmith profile rms_norm",
        why="no run has begun",
        read=(),
        reference="references/profile.md",
    )


def test_an_unfinished_profile_is_gone_on_with(run: Run) -> None:
    assert step_of(run) == (RunState.PROFILE, "warpsmith profile rms_norm", False)


def test_an_unfinished_prediction_is_gone_on_with_for_its_gpu(run: Run) -> None:
    run.ask_for(predicted=True, target_gpu="NVIDIA B200")
    assert step_of(run) == (RunState.PROFILE, "warpsmith profile rms_norm --target-gpu 'NVIDIA B200'", False)


def test_an_unfinished_profile_that_another_gpu_is_compiled_for_beside_needs_no_name_of_it(run: Run) -> None:
    run.ask_for(target_gpu="NVIDIA B200")
    assert step_of(run) == (RunState.PROFILE, "warpsmith profile rms_norm", False)


def test_an_interactive_run_walks_from_gate_to_gate(optimized: Run) -> None:
    optimized.ask_for(autonomous=False)
    comparison = read_document(optimized.workspace.search_result, SearchResult)
    optimized.workspace.search_result.unlink()
    assert step_of(optimized) == (RunState.WAITING_OPTIMIZE, "warpsmith approve rms_norm --gate optimize", True)

    approve(optimized.workspace, Gate.OPTIMIZE, from_terminal=False)
    assert step_of(optimized) == (RunState.OPTIMIZE, "warpsmith optimize rms_norm", False)

    write_document(optimized.workspace.search_result, comparison)
    assert step_of(optimized) == (RunState.WAITING_FINALIZE, "warpsmith approve rms_norm --gate finalize", True)

    approve(optimized.workspace, Gate.FINALIZE, from_terminal=False)
    assert step_of(optimized) == (RunState.FINALIZE, "warpsmith finalize rms_norm", False)


def test_an_autonomous_run_waits_for_nobody(profiled: Run, optimized: Run) -> None:
    assert step_of(profiled) == (RunState.OPTIMIZE, "warpsmith optimize rms_norm", False)
    assert step_of(optimized) == (RunState.FINALIZE, "warpsmith finalize rms_norm", False)


def test_a_search_without_a_winner_needs_no_approval_to_be_reported(optimized: Run) -> None:
    optimized.ask_for(autonomous=False)
    search = read_document(optimized.workspace.search_result, SearchResult)
    none = search.model_copy(update={"winner": None, "winner_sha256": None})
    write_document(optimized.workspace.search_result, none)
    assert step_of(optimized) == (RunState.FINALIZE, "warpsmith finalize rms_norm", False)


def test_a_winner_that_a_kill_left_in_the_production_file_is_told(optimized: Run) -> None:
    assert next_step(optimized.workspace, "rms_norm").why == "the search has ended"
    winner = read_document(optimized.workspace.search_result, SearchResult).winner
    assert winner is not None
    optimized.left_by_a_kill(optimized.workspace.variant(winner).read_bytes())
    assert "its tests have not passed yet" in next_step(optimized.workspace, "rms_norm").why


def test_a_finished_run_points_to_its_report_and_tells_what_was_found(optimized: Run) -> None:
    final = FinalResult(
        run_id="r",
        outcome=FinalOutcome.REVERTED,
        reason="tests failed",
        winner=3,
        original_sha256="0" * 64,
        origin=Origin(kind=OriginKind.MEASURED),
    )
    write_document(optimized.workspace.final_result, final)
    step = next_step(optimized.workspace, "rms_norm")

    assert (step.state, step.command) == (RunState.DONE, "warpsmith report rms_norm")
    assert step.read == ("optimization/rms_norm/report.md",)
    assert step.known_so_far[0].startswith("v1 settings: accepted, 1.336")
    assert step.known_so_far[-2:] == ("v5 stream_once_stores: inapplicable", "reverted: tests failed")


def test_every_page_to_read_before_a_decision_is_there(optimized: Run) -> None:
    optimized.ask_for(autonomous=False)
    for _ in range(2):
        read = next_step(optimized.workspace, "rms_norm").read
        assert read and all((optimized.root / page).is_file() for page in read)
        optimized.workspace.search_result.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("gate", "edited"),
    [
        (Gate.OPTIMIZE, lambda workspace: workspace.profile),
        (Gate.FINALIZE, lambda workspace: workspace.comparison),
        (Gate.FINALIZE, lambda workspace: workspace.variant(3)),
    ],
    ids=["profile", "comparison", "winner"],
)
def test_an_edit_after_the_approval_shuts_the_gate(
    optimized: Run, gate: Gate, edited: Callable[[Workspace], Path]
) -> None:
    optimized.ask_for(autonomous=False)
    workspace = optimized.workspace
    request = read_document(workspace.request, Request)
    approve(workspace, gate, from_terminal=True)
    require(workspace, request, gate, terminal_only=True)

    append(edited(workspace))
    with pytest.raises(ApprovalRequired, match="waits for a person's approval"):
        require(workspace, request, gate)


def test_an_approval_of_one_gate_opens_no_other(optimized: Run) -> None:
    optimized.ask_for(autonomous=False)
    approve(optimized.workspace, Gate.OPTIMIZE, from_terminal=True)
    with pytest.raises(ApprovalRequired, match=r"comparison\.md"):
        require(optimized.workspace, read_document(optimized.workspace.request, Request), Gate.FINALIZE)


def test_an_approval_of_another_run_does_not_count(profiled: Run) -> None:
    profiled.ask_for(autonomous=False)
    approve(profiled.workspace, Gate.OPTIMIZE, from_terminal=True)
    profiled.ask_for(autonomous=False, run_id="20260201T000000Z-000000")
    assert state_of(profiled.workspace) is RunState.WAITING_OPTIMIZE


def test_approvals_add_up_and_the_ledger_tells_each(optimized: Run) -> None:
    given = (
        approve(optimized.workspace, Gate.OPTIMIZE, from_terminal=False),
        approve(optimized.workspace, Gate.FINALIZE, from_terminal=True),
    )
    assert read_document(optimized.workspace.approvals, Approvals).approvals == given
    assert given[1].winner_sha256 == optimized.variants()[2].source_sha256
    last = optimized.workspace.last_event()
    assert last is not None and (last["event"], last["gate"], last["from_terminal"]) == ("approved", "finalize", True)


@pytest.mark.parametrize(("gate", "stage"), [(Gate.OPTIMIZE, "profile"), (Gate.FINALIZE, "optimize")])
def test_what_is_not_there_yet_cannot_be_approved(run: Run, gate: Gate, stage: str) -> None:
    with pytest.raises(UsageError, match="nothing to approve yet") as caught:
        approve(run.workspace, gate, from_terminal=True)
    assert caught.value.next_command == f"warpsmith {stage} rms_norm"
    assert not run.workspace.approvals.exists()


def test_on_a_prediction_nothing_is_built_and_a_run_begins_anew(profiled: Run) -> None:
    profiled.ask_for(autonomous=True, predicted=True)
    step = next_step(profiled.workspace, "rms_norm")
    assert (step.state, step.command) == (RunState.PREDICTED, "warpsmith run rms_norm")
    assert step.told == "on a machine with an NVIDIA GPU: warpsmith run rms_norm"
    assert step.read == ("optimization/rms_norm/profile.md",) and not step.for_a_person
    with pytest.raises(Unavailable, match="is a prediction, made with no GPU") as caught:
        expect_measured(profiled.workspace, "rms_norm")
    assert caught.value.next_command == step.told


def test_the_next_command_of_a_measured_run_needs_no_other_machine(profiled: Run) -> None:
    step = next_step(profiled.workspace, "rms_norm")
    assert step.where is None and step.told == step.command


def test_what_was_measured_is_no_prediction(profiled: Run, tmp_path: Path) -> None:
    expect_measured(profiled.workspace, "rms_norm")
    expect_measured(Workspace(tmp_path, "rms_norm"), "rms_norm")


def test_a_prediction_that_was_cut_off_is_gone_on_with(run: Run) -> None:
    run.ask_for(predicted=True)
    assert step_of(run) == (RunState.PROFILE, "warpsmith profile rms_norm", False)
