"""A run is begun once, gone on with until it is finished, and never mixed with another."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_run import Run, make_repository

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.request import Request
from warpsmith.stages.runs import Options, begin
from warpsmith.workspace.documents import read_document, write_text
from warpsmith.workspace.layout import PastRun, Workspace


def test_a_new_run_has_what_was_asked_for_and_defaults_for_the_rest(tmp_path: Path) -> None:
    workspace = Workspace(make_repository(tmp_path), "rms_norm")
    request = begin(workspace, "rms_norm", Options(goal=Mode.BACKWARD, max_variants=3))

    assert (request.goal, request.max_variants, request.autonomous) == (Mode.BACKWARD, 3, False)
    assert read_document(workspace.request, Request) == request
    last = workspace.last_event()
    assert last is not None and (last["event"], last["run_id"]) == ("begun", request.run_id)


def test_an_unfinished_run_is_gone_on_with(profiled: Run) -> None:
    before = read_document(profiled.workspace.request, Request)
    assert begin(profiled.workspace, "rms_norm", Options()) == before
    assert begin(profiled.workspace, "rms_norm", Options(goal=Mode.FULL)) == before
    assert profiled.workspace.profile.is_file()


def test_an_unfinished_run_may_become_autonomous_and_interactive_again(profiled: Run) -> None:
    for autonomous in (False, True):
        begin(profiled.workspace, "rms_norm", Options(autonomous=autonomous))
        assert read_document(profiled.workspace.request, Request).autonomous is autonomous


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (Options(goal=Mode.FORWARD), "goal"),
        (Options(max_variants=2), "max_variants"),
        (Options(l2=L2.WARM), "l2"),
        (Options(target_speedup=1.5, device="1"), "target_speedup, device"),
    ],
)
def test_options_that_contradict_an_unfinished_run_are_refused_by_name(
    profiled: Run, options: Options, named: str
) -> None:
    before = profiled.workspace.request.read_bytes()
    with pytest.raises(UsageError, match=f"is unfinished and has another {named}$") as caught:
        begin(profiled.workspace, "rms_norm", options)
    assert caught.value.next_command is not None and "--fresh" in caught.value.next_command
    assert profiled.workspace.request.read_bytes() == before


def test_a_fresh_run_moves_the_unfinished_one_to_history_whole(profiled: Run) -> None:
    old = read_document(profiled.workspace.request, Request)
    profile = profiled.workspace.profile.read_bytes()
    new = begin(profiled.workspace, "rms_norm", Options(goal=Mode.FORWARD, fresh=True))

    (archived,) = profiled.workspace.history.iterdir()
    assert archived.name == old.run_id
    assert (archived / "profile.json").read_bytes() == profile
    assert read_document(archived / "request.json", Request) == old
    assert (new.goal, new.run_id != old.run_id) == (Mode.FORWARD, True)
    assert not profiled.workspace.profile.exists()


def test_after_a_finished_run_the_next_begins_anew_and_keeps_it(optimized: Run) -> None:
    write_text(optimized.workspace.final_result, "{}")
    begin(optimized.workspace, "rms_norm", Options(max_variants=2))
    (archived,) = optimized.workspace.history.iterdir()
    assert (archived / "rms_norm_v3.py").is_file()
    assert not optimized.workspace.variant(3).exists()


def test_a_fresh_run_begins_from_the_original_where_a_killed_one_left_its_winner_unproven(optimized: Run) -> None:
    original, winner = optimized.workspace.original.read_bytes(), optimized.workspace.variant(3).read_bytes()
    optimized.left_by_a_kill(winner)
    begin(optimized.workspace, "rms_norm", Options(fresh=True))

    assert optimized.production.read_bytes() == original


def test_a_fresh_run_begins_from_what_a_finished_one_applied(optimized: Run) -> None:
    optimized.finalize()
    applied = optimized.production.read_bytes()
    begin(optimized.workspace, "rms_norm", Options(fresh=True))

    assert (
        optimized.production.read_bytes()
        == applied
        == PastRun(optimized.root, "rms_norm", "20260131T000000Z-000000").variant(3).read_bytes()
    )


def test_a_fresh_run_leaves_somebodys_edit_of_the_winner_alone(optimized: Run) -> None:
    edited = optimized.workspace.variant(3).read_bytes() + b"# an edit of somebody's\n"
    optimized.production.write_bytes(edited)
    begin(optimized.workspace, "rms_norm", Options(fresh=True))

    assert optimized.production.read_bytes() == edited


@pytest.mark.parametrize("name", ["profile.json", "comparison.json", "rms_norm_v1.json", "approvals.json"])
def test_a_fresh_run_begins_whatever_is_damaged_in_the_old_one(optimized: Run, name: str) -> None:
    damaged = optimized.workspace.directory / name
    damaged.write_bytes(b"{")
    begin(optimized.workspace, "rms_norm", Options(fresh=True))
    (archived,) = optimized.workspace.history.iterdir()
    assert (archived / name).read_bytes() == b"{"
    assert not damaged.exists()


def test_without_its_request_an_old_run_is_not_mixed_into_a_new_one(optimized: Run) -> None:
    optimized.workspace.request.unlink()
    profile = optimized.workspace.profile.read_bytes()
    begin(optimized.workspace, "rms_norm", Options())
    assert not optimized.workspace.profile.exists()
    assert (optimized.workspace.history / "without-request" / "profile.json").read_bytes() == profile
