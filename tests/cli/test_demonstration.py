"""The demonstration: a recorded run through the real commands, in a copy, on any machine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from simulated_run import KERNEL, SOURCE, make_repository

from warpsmith.contracts.device import Origin
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.result import FinalResult
from warpsmith.project.commands import import_path
from warpsmith.project.recordings import RecordedRun
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
RECORDED = RecordedRun(REPOSITORY / "benchmark" / "data" / KERNEL, KERNEL)


@dataclass(frozen=True)
class Demonstration:
    """A repository with a recording, and what `warpsmith demo` made of it."""

    root: Path
    copy: Path
    printed: dict[str, Any]
    before: dict[str, str]

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.copy, KERNEL)


def warpsmith(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": import_path(REPOSITORY)}
    command = [sys.executable, "-m", "warpsmith", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def contents(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def with_recording(root: Path) -> Path:
    make_repository(root)
    shutil.copytree(RECORDED.directory, root / "benchmark" / "data" / KERNEL)
    return root


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    root = with_recording(tmp_path_factory.mktemp("repository"))
    copy = tmp_path_factory.mktemp("copies") / "copy"
    before = contents(root)
    done = warpsmith(root, "demo", KERNEL, "--into", str(copy), "--device", "recorded", "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    return Demonstration(root, copy, json.loads(done.stdout), before)


def test_the_demonstration_ends_with_the_recorded_verdict(demonstration: Demonstration) -> None:
    recorded = read_document(RECORDED.document, Recording).result
    result = read_document(demonstration.workspace.final_result, FinalResult)
    assert (result.outcome, result.winner, result.applied_sha256) == (
        recorded.outcome,
        recorded.winner,
        recorded.applied_sha256,
    )
    assert result.confirmation == recorded.confirmation


def test_it_prints_where_the_report_and_the_plots_are(demonstration: Demonstration) -> None:
    assert Path(demonstration.printed["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {"speedup.png", "speed.svg"} <= {path.name for path in Path(demonstration.printed["plots"]).iterdir()}
    assert demonstration.printed["copy"] == str(demonstration.copy)


def test_the_winner_is_in_the_copy_and_the_repository_is_as_it_was(demonstration: Demonstration) -> None:
    winner = demonstration.printed["result"]["applied_sha256"]
    assert hashlib.sha256((demonstration.copy / SOURCE).read_bytes()).hexdigest() == winner
    assert contents(demonstration.root) == demonstration.before


def test_every_figure_is_marked_as_recorded_and_none_as_measured(demonstration: Demonstration) -> None:
    recording = read_document(RECORDED.document, Recording)
    mark = str(recording.origin)
    folder = demonstration.workspace.directory
    documents = [
        path for path in folder.glob("*.json") if path.name not in ("request.json", "approvals.json", "guarded.json")
    ]
    origins = [Origin.model_validate(json.loads(path.read_text(encoding="utf-8"))["origin"]) for path in documents]
    assert [origin for origin in origins if origin != recording.origin] == []
    pages = [*folder.glob("*.md"), *folder.glob("*.html"), *folder.glob("plots/*.svg")]
    assert [path.name for path in pages if mark not in path.read_text(encoding="utf-8")] == []
    assert [path.name for path in pages if "measured on" in path.read_text(encoding="utf-8")] == []
    for csv in (*folder.glob("*.csv"), *folder.glob("benchmarks/*.csv")):
        header, *rows = csv.read_text(encoding="utf-8").splitlines()
        assert header.endswith(",origin") and rows
        assert all(row.endswith(f',"{mark}"') for row in rows)


def test_every_answer_that_was_used_is_kept_and_marked_as_replayed(demonstration: Demonstration) -> None:
    lines = demonstration.workspace.measurements.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert len({record["identity"] for record in records}) == len(records) >= 500
    assert {record.get("replayed", False) for record in records if record["kind"] != "compile_offline"} == {True}


def test_a_finished_demonstration_is_shown_again_without_doing_it_again(demonstration: Demonstration) -> None:
    before = contents(demonstration.copy)
    done = warpsmith(demonstration.root, "demo", KERNEL, "--into", str(demonstration.copy), "--device", "recorded")
    assert done.returncode == 0
    assert "rms_norm: applied" in done.stdout and f"copy: {demonstration.copy}" in done.stdout
    assert contents(demonstration.copy) == before


def test_outside_a_copy_a_recorded_winner_is_refused(demonstration: Demonstration, tmp_path: Path) -> None:
    root = with_recording(tmp_path / "repository")
    shutil.copytree(demonstration.workspace.directory, Workspace(root, KERNEL).directory)
    Workspace(root, KERNEL).final_result.unlink()
    before = (root / SOURCE).read_bytes()
    done = warpsmith(root, "finalize", KERNEL)
    assert done.returncode == 5
    assert "applied only in a demonstration copy" in done.stderr and "next: warpsmith demo rms_norm" in done.stderr
    assert (root / SOURCE).read_bytes() == before


def test_a_replay_whose_recording_is_gone_says_so(demonstration: Demonstration, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repository")
    shutil.copytree(demonstration.workspace.directory, Workspace(root, KERNEL).directory)
    Workspace(root, KERNEL).final_result.unlink()
    done = warpsmith(root, "finalize", KERNEL)
    assert done.returncode == 2
    assert "replays a recording that" in done.stderr and "no longer holds" in done.stderr
    assert "next: warpsmith run rms_norm --fresh" in done.stderr


def test_another_request_than_the_finished_runs_is_refused_by_name(demonstration: Demonstration) -> None:
    done = warpsmith(demonstration.copy, "run", KERNEL, "--goal", "backward", "--max-variants", "8")
    assert done.returncode == 2
    assert "is finished, and had another goal; --fresh" in done.stderr


def test_an_edited_source_is_told_before_anything_is_done_with_it(demonstration: Demonstration, tmp_path: Path) -> None:
    root = with_recording(tmp_path / "repository")
    assert warpsmith(root, "profile", KERNEL, "--device", "recorded", "--quiet").returncode == 0
    with (root / SOURCE).open("a") as file:
        file.write("# edited\n")
    step = warpsmith(root, "next", KERNEL)
    assert f"{SOURCE} has changed since it was profiled" in " ".join(step.stdout.split())
    assert "next: warpsmith run rms_norm --fresh" in step.stdout
    assert warpsmith(root, "approve", KERNEL).returncode == 5
    for command in ("optimize", "run"):
        done = warpsmith(root, command, KERNEL, *(["--autonomous"] if command == "run" else []))
        assert done.returncode in (4, 5) and "replaying" not in done.stdout


def test_a_demonstration_can_be_asked_for_again_as_it_was(demonstration: Demonstration) -> None:
    copy = demonstration.copy.with_name("interrupted")
    shutil.copytree(demonstration.copy, copy)
    (copy / ".warpsmith-demonstration").write_text(
        json.dumps({"copy_of": str(demonstration.root), "copy_at": str(copy)})
    )
    Workspace(copy, KERNEL).final_result.unlink()
    done = warpsmith(demonstration.root, "demo", KERNEL, "--into", str(copy))
    assert (done.returncode, "rms_norm: applied" in done.stdout) == (0, True)
    assert "replaying what was recorded on NVIDIA H200" in done.stderr


def test_a_copy_of_another_repository_is_not_taken_for_ones_own(demonstration: Demonstration, tmp_path: Path) -> None:
    root = with_recording(tmp_path / "repository")
    done = warpsmith(root, "demo", KERNEL, "--into", str(demonstration.copy))
    assert done.returncode == 2
    assert "is there already, and is no demonstration copy of" in " ".join(done.stderr.split())


def test_a_device_that_is_not_there_leaves_no_copy(demonstration: Demonstration, tmp_path: Path) -> None:
    done = warpsmith(demonstration.root, "demo", KERNEL, "--device", "97", "--into", str(tmp_path / "copy"))
    assert done.returncode == 6
    assert list(tmp_path.iterdir()) == []


def test_where_only_a_terminal_may_approve_a_copy_still_runs_to_its_end(
    demonstration: Demonstration, tmp_path: Path
) -> None:
    root = with_recording(tmp_path / "repository")
    with (root / "warpsmith.yaml").open("a") as file:
        file.write("approval: tty\n")
    done = warpsmith(root, "demo", KERNEL, "--device", "recorded", "--into", str(tmp_path / "copy"), "--quiet")
    assert (done.returncode, "rms_norm: applied" in done.stdout) == (0, True)


def test_a_reader_that_goes_away_ends_nothing(demonstration: Demonstration) -> None:
    environment = {**os.environ, "PYTHONPATH": import_path(REPOSITORY)}
    command = [sys.executable, "-m", "warpsmith", "report", KERNEL]
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(command, cwd=demonstration.copy, env=environment, stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")
