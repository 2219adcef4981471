"""Every run that a kernel had is told, the newest first, and a damaged one hides none of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.history import RunSummary
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, RunState, SearchResult
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.stages.history import current_run, earlier_runs, find_run
from warpsmith.workspace.documents import write_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.runs import archive

MEASURED = Origin(kind=OriginKind.MEASURED, gpu="NVIDIA H200", date="2026-01-31")
SPEEDUP = Interval(value=1.35, low=1.34, high=1.36)
ACCEPTED = Verdict(outcome=Outcome.ACCEPTED, reasons=("faster",), goal_mode=Mode.FULL, goal=SPEEDUP)
IDS = ("20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb", "20260103T000000Z-cccccc")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path, "rms_norm")
    workspace.create()
    return workspace


def begin(workspace: Workspace, run_id: str) -> None:
    request = Request(kernel="rms_norm", run_id=run_id, created_at="2026-01-01T00:00:00+00:00", autonomous=True)
    write_document(workspace.request, request)


def search(workspace: Workspace, run_id: str, winner: int | None = 2) -> None:
    """Ends the search. What it built on is not read again once the run has ended."""
    sha256 = None if winner is None else "0" * 64
    write_document(
        workspace.search_result,
        SearchResult(
            run_id=run_id,
            winner=winner,
            winner_sha256=sha256,
            stop_reason="tried",
            noise_floor=None,
            variants=(1, 2),
            origin=MEASURED,
        ),
    )
    workspace.profile.write_text("{}")


def end(workspace: Workspace, run_id: str, outcome: FinalOutcome = FinalOutcome.APPLIED) -> None:
    won = outcome is FinalOutcome.APPLIED
    search(workspace, run_id, 2 if won else None)
    write_document(
        workspace.final_result,
        FinalResult(
            run_id=run_id,
            outcome=outcome,
            reason="because",
            winner=2 if won else None,
            original_sha256="0" * 64,
            confirmation=ACCEPTED if won else None,
            origin=MEASURED,
        ),
    )


def summary(run_id: str, **fields: object) -> RunSummary:
    begun = {"begun": "2026-01-01T00:00:00+00:00", "goal": Mode.FULL}
    return RunSummary.model_validate({"run_id": run_id, **begun, **fields})


def test_before_any_run_there_is_nothing_to_tell(workspace: Workspace) -> None:
    assert (current_run(workspace), earlier_runs(workspace)) == (None, ())


def test_earlier_runs_are_told_newest_first_with_what_became_of_them(workspace: Workspace) -> None:
    begin(workspace, IDS[0])
    end(workspace, IDS[0])
    archive(workspace)
    begin(workspace, IDS[1])
    archive(workspace)
    begin(workspace, IDS[2])
    end(workspace, IDS[2], FinalOutcome.NO_IMPROVEMENT)

    nothing = summary(IDS[2], state=RunState.DONE, outcome=FinalOutcome.NO_IMPROVEMENT, origin=MEASURED)
    assert current_run(workspace) == nothing
    assert earlier_runs(workspace) == (
        summary(IDS[1], state=RunState.PROFILE, goal=None),  # not known before the target is loaded
        summary(IDS[0], state=RunState.DONE, outcome=FinalOutcome.APPLIED, winner=2, speedup=SPEEDUP, origin=MEASURED),
    )


def test_a_run_that_stopped_after_its_search_has_what_the_search_found(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.stages.history.state_of", lambda *_, **__: RunState.WAITING_FINALIZE)
    begin(workspace, IDS[0])
    search(workspace, IDS[0])
    write_document(
        workspace.variant_record(2),
        Variant(
            number=2,
            strategy="settings",
            title="Launch settings",
            based_on=0,
            hypothesis="more warps",
            predicted_low=1.0,
            predicted_high=1.5,
            status=VariantStatus.JUDGED,
            verdict=ACCEPTED,
            origin=MEASURED,
        ),
    )
    assert current_run(workspace) == summary(
        IDS[0], state=RunState.WAITING_FINALIZE, winner=2, speedup=SPEEDUP, origin=MEASURED
    )


def test_a_prediction_says_for_which_gpu_it_was(workspace: Workspace) -> None:
    request = Request(kernel="rms_norm", run_id=IDS[0], created_at="2026-01-01T00:00:00+00:00")
    write_document(workspace.request, request.model_copy(update={"predicted": True, "target_gpu": "Tesla T4"}))
    archive(workspace)
    (past,) = earlier_runs(workspace)
    assert past.origin == Origin(kind=OriginKind.PREDICTED, gpu="Tesla T4")


def test_a_damaged_run_is_told_as_damaged_between_the_others(workspace: Workspace) -> None:
    for run_id in IDS:
        begin(workspace, run_id)
        end(workspace, run_id)
        archive(workspace)
    (workspace.history / IDS[2] / "request.json").write_bytes(b"")
    (workspace.history / IDS[1] / "report.json").write_text('{"outcome": "splendid"}')
    (workspace.history / ".moving-x").mkdir()
    (workspace.history / "a_file").touch()

    first, second, third = earlier_runs(workspace)

    assert (first.run_id, first.begun, first.outcome) == (IDS[2], None, None)
    assert "request.json is damaged: expected a Request" in (first.damaged or "")
    assert (second.run_id, second.goal, second.outcome) == (IDS[1], Mode.FULL, None)
    assert "report.json is damaged: expected a FinalResult" in (second.damaged or "")
    assert (third.run_id, third.outcome, third.damaged) == (IDS[0], FinalOutcome.APPLIED, None)


def test_a_run_is_found_by_its_id_or_by_how_that_begins(workspace: Workspace) -> None:
    for run_id in IDS[:2]:
        begin(workspace, run_id)
        archive(workspace)
    begin(workspace, IDS[2])

    assert find_run(workspace, IDS[0]).directory == workspace.history / IDS[0]
    assert find_run(workspace, "20260102").directory == workspace.history / IDS[1]
    assert find_run(workspace, "20260103T") == workspace


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("2025", f"no run of rms_norm has the id '2025'; there are: {IDS[1]}, {IDS[0]}"),
        ("2026", f"2 runs of rms_norm begin with '2026'; there are: {IDS[1]}, {IDS[0]}"),
        ("", f"no run of rms_norm has the id ''; there are: {IDS[1]}, {IDS[0]}"),
        ("../..", f"no run of rms_norm has the id '../..'; there are: {IDS[1]}, {IDS[0]}"),
    ],
)
def test_an_id_of_no_run_or_of_several_is_refused_by_naming_them(workspace: Workspace, wanted: str, said: str) -> None:
    begin(workspace, IDS[0])
    archive(workspace)
    begin(workspace, IDS[1])
    with pytest.raises(UsageError) as caught:
        find_run(workspace, wanted)
    assert (caught.value.message, caught.value.next_command) == (said, "warpsmith status rms_norm")
