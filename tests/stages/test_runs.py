"""A run is begun once, gone on with until it is finished, and never mixed with another."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_run import KERNEL, KERNEL_TESTS, TARGET_FILE, Run, make_repository

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import PreflightError, Unavailable, UsageError
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.request import Request
from warpsmith.device.gpus import Gpu, GpuList
from warpsmith.stages import recording as recording_stage
from warpsmith.stages import runs
from warpsmith.stages.runs import Answering, Options, answering, begin
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


H100, B200 = "NVIDIA H100 80GB HBM3", "NVIDIA B200"
PREDICTED = Answering(predicted_for=H100)


@pytest.fixture
def prediction(profiled: Run) -> Run:
    """A run with a profile that counts as predicted for an H100."""
    profiled.ask_for(predicted=True, target_gpu=H100)
    return profiled


def test_a_prediction_says_so_in_its_request_and_for_which_gpu(tmp_path: Path) -> None:
    request = begin(Workspace(make_repository(tmp_path), KERNEL), KERNEL, Options(goal=Mode.FORWARD), PREDICTED)
    assert (request.predicted, request.target_gpu, request.recording) == (True, H100, None)


def test_the_same_prediction_stays_where_it_is(prediction: Run) -> None:
    before = read_document(prediction.workspace.request, Request)
    for options in (Options(), Options(target_gpu=H100, device="auto"), Options(autonomous=True)):
        assert begin(prediction.workspace, KERNEL, options, PREDICTED) == before
    assert prediction.workspace.profile.is_file() and prediction.workspace.past() == ()


@pytest.mark.parametrize(
    ("options", "by"),
    [
        (Options(), Answering()),
        (Options(), Answering(predicted_for=B200)),
        (Options(goal=Mode.BACKWARD), PREDICTED),
        (Options(fresh=True), PREDICTED),
    ],
    ids=["a GPU", "another GPU to predict for", "another goal", "fresh"],
)
def test_a_prediction_makes_way_for_anything_else_with_all_its_answers(
    prediction: Run, options: Options, by: Answering
) -> None:
    request = begin(prediction.workspace, KERNEL, options, by)
    assert (request.predicted, request.target_gpu) == (by.predicted_for is not None, by.predicted_for)
    (past,) = prediction.workspace.past()
    assert past.profile.is_file() and past.measurements.is_file()
    assert not prediction.workspace.profile.exists() and not prediction.workspace.measurements.exists()


EDITS = {
    "the target": lambda run: run.root / TARGET_FILE,
    "its tests": lambda run: run.root / KERNEL_TESTS,
    "warpsmith.yaml": lambda run: run.root / "warpsmith.yaml",
}


@pytest.mark.parametrize("edited", EDITS)
def test_a_prediction_by_another_target_or_other_tests_makes_way_and_it_is_told(prediction: Run, edited: str) -> None:
    path = EDITS[edited](prediction)
    path.write_bytes(path.read_bytes() + b"# edited\n")
    told: list[str] = []
    new = begin(prediction.workspace, KERNEL, Options(), PREDICTED, told.append)
    (past,) = prediction.workspace.past()
    changed = path.relative_to(prediction.root).as_posix()
    assert told == [f"the prediction for {H100} is kept in {past.relative(past.directory)}: {changed} was changed"]
    assert new.run_id != past.run_id


def test_a_prediction_whose_tests_are_gone_makes_way(prediction: Run) -> None:
    (prediction.root / KERNEL_TESTS).unlink()
    told: list[str] = []
    begin(prediction.workspace, KERNEL, Options(), PREDICTED, told.append)
    assert told and told[0].endswith(f"{KERNEL_TESTS} was deleted")


def test_a_prediction_for_another_gpu_says_where_the_first_one_is(prediction: Run) -> None:
    told: list[str] = []
    begin(prediction.workspace, KERNEL, Options(target_gpu=B200), Answering(predicted_for=B200), told.append)
    assert told[0].startswith(f"the prediction for {H100} is kept in optimization/rms_norm/history/")
    assert told[0].endswith(f": {B200} is asked for now")


def test_a_prediction_of_another_source_makes_way_for_one_of_the_source_as_it_is(prediction: Run) -> None:
    prediction.production.write_bytes(prediction.production.read_bytes() + b"# edited\n")
    before = read_document(prediction.workspace.request, Request)
    assert begin(prediction.workspace, KERNEL, Options(), PREDICTED).run_id != before.run_id


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_stage, "choose", lambda device: None)
    monkeypatch.setattr(recording_stage, "gpus", lambda: GpuList((), "no driver"))


@pytest.mark.usefixtures("no_gpu")
def test_a_run_with_nobody_to_answer_ends_at_once_and_asks_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("warpsmith.measure.worker.process.ProcessWorker.ask_all")
    root = make_repository(tmp_path)
    with pytest.raises(Unavailable) as caught:
        answering_in(root, Options(), to_predict=False)
    assert (caught.value.next_command or "").startswith("warpsmith profile rms_norm --target-gpu hopper")


@pytest.mark.usefixtures("no_gpu")
def test_after_a_prediction_a_run_is_sent_to_a_gpu_and_not_to_the_prediction(prediction: Run) -> None:
    with pytest.raises(Unavailable) as caught:
        answering_in(prediction.root, Options(), to_predict=False)
    assert caught.value.next_command == "on a machine with an NVIDIA GPU: warpsmith run rms_norm"


def answering_in(root: Path, options: Options, *, to_predict: bool = True) -> Answering:
    return answering(root, root / TARGET_FILE, KERNEL, options, to_predict=to_predict)


@pytest.mark.usefixtures("no_gpu")
def test_with_neither_a_gpu_nor_a_recording_a_hopper_is_predicted_for_unless_another_is_named(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    found = answering_in(root, Options())
    assert found.predicted_for is not None and found.predicted_for.startswith("NVIDIA H")
    assert (found.why or "").startswith("no GPU here (no driver), and no recording of rms_norm in ")
    assert answering_in(root, Options(target_gpu=B200)).predicted_for == B200


@pytest.mark.usefixtures("no_gpu")
def test_where_no_gpu_is_named_the_prediction_that_is_there_stays(prediction: Run) -> None:
    prediction.ask_for(predicted=True, target_gpu=B200)
    before = read_document(prediction.workspace.request, Request)
    by = answering_in(prediction.root, Options())
    assert by.predicted_for == B200
    assert begin(prediction.workspace, KERNEL, Options(), by) == before
    assert prediction.workspace.past() == ()
    assert answering_in(prediction.root, Options(target_gpu=H100)).predicted_for == H100


@pytest.mark.usefixtures("no_gpu")
def test_a_fresh_prediction_forgets_for_which_gpu_the_last_one_was(prediction: Run) -> None:
    prediction.ask_for(predicted=True, target_gpu=B200)
    found = answering_in(prediction.root, Options(fresh=True))
    assert found.predicted_for is not None and found.predicted_for.startswith("NVIDIA H")


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("device", ["recorded", "0"])
def test_a_device_that_is_named_is_never_predicted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr("warpsmith.stages.session.choose", lambda device: None)
    with pytest.raises(Unavailable):
        answering_in(make_repository(tmp_path), Options(device=device))


def test_a_gpu_measures_whatever_may_be_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(index=0, uuid="GPU-0", name="H200", capability=(9, 0), other_processes=())
    monkeypatch.setattr(recording_stage, "choose", lambda device: gpu)
    monkeypatch.setattr(runs, "gpu_for", lambda device: gpu)
    assert answering_in(make_repository(tmp_path), Options(target_gpu=B200)) == Answering()


@pytest.mark.parametrize("options", [Options(goal=Mode.BACKWARD), Options(fresh=True)], ids=["a goal", "fresh"])
def test_nothing_makes_way_for_a_run_that_nothing_could_come_of(prediction: Run, options: Options) -> None:
    def expect_fit(request: Request, again: str) -> None:
        fresh = " --fresh" if options.fresh else ""
        assert (request.goal, again) == (options.goal or Mode.FULL, f"warpsmith profile {KERNEL}{fresh}")
        raise PreflightError("the target has no such pass")

    before = read_document(prediction.workspace.request, Request)
    with pytest.raises(PreflightError):
        begin(prediction.workspace, KERNEL, options, PREDICTED, expect_fit=expect_fit)
    assert read_document(prediction.workspace.request, Request) == before
    assert prediction.workspace.profile.is_file() and prediction.workspace.past() == ()


def test_a_first_run_for_a_goal_that_the_target_lacks_leaves_nothing_behind(tmp_path: Path) -> None:
    def expect_fit(request: Request, again: str) -> None:
        raise PreflightError(f"{request.goal.value}: {again}")

    workspace = Workspace(make_repository(tmp_path), KERNEL)
    with pytest.raises(PreflightError, match=f"backward: warpsmith run {KERNEL}$"):
        begin(workspace, KERNEL, Options(goal=Mode.BACKWARD), expect_fit=expect_fit)
    assert not workspace.directory.exists()


def test_a_prediction_takes_the_place_of_what_was_measured_only_for_a_gpu_that_is_named(
    profiled: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.stages.recording.choose", lambda device: None)
    target = profiled.root / TARGET_FILE
    with pytest.raises(Unavailable) as caught:
        answering(profiled.root, target, KERNEL, Options(fresh=True), to_predict=True)
    run_id = read_document(profiled.workspace.request, Request).run_id
    assert f"would take the place of run {run_id}, which is none" in caught.value.message
    assert str(caught.value.next_command).startswith(f"warpsmith profile {KERNEL} --target-gpu hopper")
    named = answering(profiled.root, target, KERNEL, Options(fresh=True, target_gpu=H100), to_predict=True)
    assert named.predicted_for == H100
