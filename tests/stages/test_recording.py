"""Which recording a run replays, and which run may become one."""

from __future__ import annotations

import gzip
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError
from simulated_run import KERNEL, SOURCE, TARGET_FILE, Run, make_repository

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import Rejected, Unavailable, UsageError
from warpsmith.contracts.recording import Recording
from warpsmith.device.gpus import Gpu
from warpsmith.project.recordings import RecordedRun
from warpsmith.stages import recording as stage
from warpsmith.stages.recording import copy_to_record, recording_of, recording_to_replay
from warpsmith.stages.runs import Answering, Options, begin
from warpsmith.workspace.documents import read_document

REPOSITORY = Path(__file__).resolve().parents[2]
GPU = Gpu(index=0, uuid="GPU-0", name="H200", capability=(9, 0), other_processes=())


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "choose", lambda device: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = make_repository(tmp_path)
    shutil.copytree(REPOSITORY / "benchmark" / "data" / KERNEL, made / "benchmark" / "data" / KERNEL)
    return made


def recorded_run(root: Path) -> RecordedRun:
    return RecordedRun.of(root / TARGET_FILE, KERNEL)


def to_replay(root: Path, device: str = "auto") -> Recording | None:
    return recording_to_replay(root, root / TARGET_FILE, KERNEL, device)


def test_with_no_gpu_the_recording_is_replayed(root: Path) -> None:
    assert to_replay(root) == read_document(recorded_run(root).document, Recording)


def test_a_gpu_measures_unless_the_recording_is_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "choose", lambda device: GPU)
    assert to_replay(root) is None
    assert to_replay(root, "0") is None
    assert to_replay(root, "recorded") is not None


def test_a_replay_is_asked_what_the_recorded_run_was_asked_unless_told_otherwise(root: Path) -> None:
    found = to_replay(root)
    assert found is not None
    asked = found.model_copy(update={"request": found.request.model_copy(update={"goal": Mode.BACKWARD, "seed": 7})})
    request = begin(Run.of(root).workspace, KERNEL, Options(max_variants=3), Answering(asked))
    assert (request.goal, request.seed, request.max_variants) == (Mode.BACKWARD, 7, 3)
    assert request.recording == found.reference


def test_without_a_gpu_and_a_recording_both_are_said_to_be_missing(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    with pytest.raises(Unavailable, match=r"^no GPU here \(.*\), and no recording of rms_norm in "):
        to_replay(root)
    with pytest.raises(Unavailable, match=r"^no recording of rms_norm in "):
        to_replay(root, "recorded")


def test_another_source_is_not_what_was_recorded(root: Path) -> None:
    with (root / SOURCE).open("a") as file:
        file.write("# edited\n")
    with pytest.raises(Unavailable, match=f"is of {SOURCE} with sha256 1e618b11111f, here it has") as caught:
        to_replay(root)
    assert (caught.value.next_command or "").startswith("warpsmith demo rms_norm")


def test_another_target_is_not_what_was_recorded(root: Path) -> None:
    with (root / TARGET_FILE).open("a") as file:
        file.write("# edited\n")
    with pytest.raises(Unavailable, match=f"was made with another {TARGET_FILE}"):
        to_replay(root)


def test_answers_of_another_recording_are_refused(root: Path) -> None:
    recorded = recorded_run(root)
    recording = read_document(recorded.document, Recording)
    recorded.answers.write_bytes(gzip.compress(b"{}\n"))
    with pytest.raises(UsageError, match=r"does not belong to recording\.json"):
        recorded.store(recording)
    recorded.answers.write_bytes(b"no gzip")
    with pytest.raises(UsageError, match="cannot be read"):
        recorded.store(recording)


def test_a_measured_run_becomes_a_recording_that_gives_its_answers_back(optimized: Run) -> None:
    optimized.finalize()
    recording, answers = recording_of(optimized.workspace, optimized.root / TARGET_FILE)
    recorded = recorded_run(optimized.root)
    recorded.write(recording, answers, optimized.workspace.original.read_bytes())

    assert recorded.read() == recording
    assert gzip.decompress(recorded.answers.read_bytes()) == optimized.workspace.measurements.read_bytes()
    kinds = {record["kind"] for record in recorded.store(recording).records()}
    assert {"describe", "inspect", "compile", "check", "time", "memory", "compilation", "host_time"} <= kinds
    assert len(list(recorded.store(recording).records())) == recording.answers
    assert recorded.original_bytes(recording) == optimized.workspace.original.read_bytes()


def test_an_unfinished_run_is_no_recording(optimized: Run) -> None:
    with pytest.raises(UsageError, match="no finished run of rms_norm"):
        recording_of(optimized.workspace, optimized.root / TARGET_FILE)


def test_a_replayed_run_is_no_recording(optimized: Run, root: Path) -> None:
    optimized.finalize()
    found = to_replay(root)
    assert found is not None
    optimized.ask_for(recording=found.reference.model_dump())
    with pytest.raises(Rejected, match="only a measured run can be recorded"):
        recording_of(optimized.workspace, optimized.root / TARGET_FILE)


def test_a_recording_is_renewed_from_where_it_began(root: Path, tmp_path: Path) -> None:
    recorded = recorded_run(root)
    recording = read_document(recorded.document, Recording)
    winner = REPOSITORY / "optimization" / KERNEL / f"{KERNEL}_v{recording.result.winner}.py"
    shutil.copy(winner, root / SOURCE)
    again = copy_to_record(root, root / TARGET_FILE, KERNEL, SOURCE, tmp_path.parent / f"{tmp_path.name}-again")
    assert (again / SOURCE).read_bytes() == recorded.original.read_bytes()

    (root / SOURCE).write_bytes(winner.read_bytes() + b"# edited\n")
    anew = copy_to_record(root, root / TARGET_FILE, KERNEL, SOURCE, tmp_path.parent / f"{tmp_path.name}-anew")
    assert (anew / SOURCE).read_bytes() == (root / SOURCE).read_bytes()


def test_answers_of_two_kinds_of_gpu_are_no_recording(optimized: Run) -> None:
    optimized.finalize()
    path = optimized.workspace.measurements
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:-1], lines[-1].replace("Simulated H200", "Simulated A100")]))
    with pytest.raises(Rejected, match="was not measured on what the profile was measured on"):
        recording_of(optimized.workspace, optimized.root / TARGET_FILE)


@pytest.mark.parametrize("source", ["/etc/passwd", "../outside.py", "src/../../outside.py"])
def test_a_recording_names_no_source_outside_the_repository(root: Path, source: str) -> None:
    content = read_document(recorded_run(root).document, Recording).model_dump()
    with pytest.raises(ValidationError, match="below the repository's root"):
        Recording.model_validate({**content, "source": source})


def test_an_edited_source_in_a_copy_is_put_back_by_the_command_that_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "is_demonstration", lambda root: True)
    (root / SOURCE).write_text("# edited\n")
    with pytest.raises(Unavailable) as caught:
        to_replay(root)
    subprocess.run(shlex.split(caught.value.next_command or ""), cwd=root, check=True)
    assert to_replay(root) is not None
