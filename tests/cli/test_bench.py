"""`bench` on the command line: what it prints, what it refuses, and the exit code that the shell sees."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from command_line import Command
from simulated_bench import LARGE, SMALL, Benched, put_gpu, record_profile
from simulated_gpu import SimulatedGpu
from simulated_run import SOURCE, TARGET_FILE, Run, make_repository

from warpsmith.contracts.bench import BenchResult
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.measurement import Timing
from warpsmith.contracts.recording import Recording
from warpsmith.measure.worker.protocol import Time
from warpsmith.project.recordings import RecordedRun
from warpsmith.project.snapshot import sha256_of
from warpsmith.workspace.documents import read_document, write_document

ONE = ("bench", "rms_norm", "--case", SMALL, "--mode", "forward")


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.stages.bench.save_bench_plots", lambda *_: ())


@pytest.fixture
def benched(tmp_path: Path) -> Benched:
    return Benched(make_repository(tmp_path / "repository"))


@pytest.fixture
def gpu(benched: Benched, command: Command, monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    """A GPU after all: `command` has taken it away."""
    return put_gpu(monkeypatch, benched.root)


def test_the_table_has_a_line_a_contender_and_fits_a_hundred_columns(
    benched: Benched, gpu: SimulatedGpu, command: Command
) -> None:
    ended = command(benched.root, *ONE, "--case", LARGE, "--with", str(benched.source("other")), "--quiet")

    assert (ended.exit_code, ended.err) == (ExitCode.DONE, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith(f"rms_norm: {SOURCE} (") and lines[0].endswith("measured on Simulated H200, 2026-01-31")
    assert lines[1] == "Device time by CUDA-graph replay, medians of 16 rounds; 95% intervals; speed-up over original."
    places = [index for index, line in enumerate(lines) if ", forward, L2 " in line]
    assert [lines[index] for index in places] == [
        "2048×2048 bf16, forward, L2 cold",
        "2048×2048 bf16, forward, L2 warm",
        "8192×8192 bf16, forward, L2 cold",
    ]
    for index in places:
        assert [line.split()[0] for line in lines[index + 1 : index + 4]] == ["original", "other", "torch"]
        assert "no difference" in lines[index + 2]
        assert lines[index + 1].endswith(" 20.0" if "8192×8192" in lines[index] else " 20.0*")
    assert max(len(line) for line in lines) <= 100
    assert "liger was not timed: No module named 'liger_kernel'" in lines
    assert "figures: optimization/rms_norm/bench/results.csv" in lines


def test_json_is_the_document_and_everything_else_is_on_standard_error(
    benched: Benched, gpu: SimulatedGpu, command: Command
) -> None:
    ended = command(benched.root, *ONE, "--json")

    assert BenchResult.model_validate_json(ended.out) == read_document(benched.workspace.result, BenchResult)
    assert "measuring original, torch (3 of 3)" in ended.err


def test_a_wrong_source_is_said_to_be_wrong(benched: Benched, gpu: SimulatedGpu, command: Command) -> None:
    gpu.wrong_result = lambda work: "dx: off by 3" if "# wrong" in work.text else None
    ended = command(benched.root, *ONE, "--with", str(benched.source("mine", line="# wrong\n")))

    assert ended.exit_code == ExitCode.DONE
    assert f"mine was not timed: wrong_result: {SMALL}, values: dx: off by 3" in ended.out.splitlines()
    assert "\n  mine " not in ended.out


def test_throttling_and_unequal_addresses_are_told(benched: Benched, gpu: SimulatedGpu, command: Command) -> None:
    measured = gpu._time

    def disturbed(question: Time) -> Timing:
        timing = measured(question)
        slowed = {"throttle_reasons": ("software power cap",)}
        blocks = tuple(block.model_copy(update=slowed) for block in timing.blocks)
        return timing.model_copy(update={"same_addresses": False, "capped": True, "blocks": blocks})

    gpu._time = disturbed
    told = command(benched.root, *ONE, "--l2", "cold").out

    assert "2048×2048 bf16, forward, L2 cold (unequal addresses, cut off by the time cap)" in told
    assert "note: rounds that ran throttled (software power cap): original 16 of 16, torch 16 of 16; these" in told
    assert "\nunequal addresses: the contenders allocate differently" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--providers", "torch,flash"), "--providers flash: rms_norm has torch"),
        (("--case", "1x1-bf16"), "--case 1x1-bf16: rms_norm has 2048x2048-bf16, "),
        (("--mode", "full", "--providers", "liger,nope"), "--providers nope: rms_norm has torch, liger"),
        (("--mode", "sideways"), "'sideways' is not one of 'forward', 'backward', 'full'"),
        (("--l2", "hot"), "'hot' is not one of 'cold', 'warm'"),
        (("--method", "wall"), "'wall' is not one of 'graph', 'profiler', 'events'"),
        (("--with", "nowhere.py"), "--with nowhere.py: no such file; . has no Python file"),
        (("--into", "optimization/rms_norm"), "lies among the files of runs"),
        (("--into", "."), "has files that no bench wrote, such as "),
        (("--into", "src/warpsmith/kernels"), "has files that no bench wrote, such as "),
    ],
)
def test_what_is_not_there_is_a_usage_error_that_names_what_is(
    benched: Benched, gpu: SimulatedGpu, command: Command, arguments: tuple[str, ...], told: str
) -> None:
    ended = command(benched.root, "bench", "rms_norm", *arguments)

    assert (ended.exit_code, ended.out) == (ExitCode.USAGE, "")
    assert told in " ".join(ended.err.replace("│", " ").split())
    assert gpu.asked == []
    assert not benched.workspace.directory.parent.exists()


def test_a_name_that_is_not_there_is_told_before_a_gpu_or_a_recording_is_missed(
    benched: Benched, command: Command
) -> None:
    wrong = command(benched.root, "bench", "rms_norm", "--case", "nope")
    assert wrong.exit_code == ExitCode.USAGE
    assert "--case nope: rms_norm has 2048x2048-bf16, " in wrong.told_err

    right = command(benched.root, *ONE)
    assert right.exit_code == ExitCode.UNAVAILABLE
    assert "no GPU here" in right.told_err
    assert not benched.workspace.directory.parent.exists()


def test_a_bench_that_can_answer_nothing_leaves_nothing_behind(profiled: Run, command: Command) -> None:
    record_profile(profiled)
    before = {path for path in profiled.root.rglob("*") if "__pycache__" not in path.parts}
    ended = command(profiled.root, "bench", "rms_norm", "--method", "events")

    assert ended.exit_code == ExitCode.UNAVAILABLE
    assert {path for path in profiled.root.rglob("*") if "__pycache__" not in path.parts} == before


def test_a_kernel_that_is_the_recorded_winner_is_told_how_to_replay_what_was_before_it(
    profiled: Run, command: Command
) -> None:
    record_profile(profiled)
    original = (profiled.root / SOURCE).read_bytes()
    recorded = RecordedRun.of(profiled.root / TARGET_FILE, "rms_norm")
    (profiled.root / SOURCE).write_bytes(winner := original + b"# faster\n")
    recording = read_document(recorded.document, Recording)
    applied = recording.result.model_copy(update={"winner": 1, "applied_sha256": sha256_of(winner)})
    write_document(recorded.document, recording.model_copy(update={"result": applied}))

    ended = command(profiled.root, *ONE)
    assert ended.exit_code == ExitCode.UNAVAILABLE
    assert f"before its run, and {SOURCE} is the winner that the run applied" in ended.told_err
    restore = f"cp benchmark/data/rms_norm/original_rms_norm.py {SOURCE}"
    assert f"  next: {restore} && warpsmith bench rms_norm\n" in ended.err
    assert "warpsmith demo" in command(profiled.root, "run", "rms_norm").err

    subprocess.run(restore, shell=True, cwd=profiled.root, check=True)
    assert command(profiled.root, *ONE).exit_code == ExitCode.DONE


def test_an_edited_kernel_is_not_told_to_be_overwritten(profiled: Run, command: Command) -> None:
    record_profile(profiled)
    with (profiled.root / SOURCE).open("a") as file:
        file.write("# edited\n")
    ended = command(profiled.root, *ONE)

    assert ended.exit_code == ExitCode.UNAVAILABLE
    assert "cp " not in ended.err and "next: warpsmith bench rms_norm   (on a machine with a GPU)" in ended.err


def test_a_folder_of_its_own_takes_everything(
    benched: Benched, gpu: SimulatedGpu, command: Command, tmp_path: Path
) -> None:
    ended = command(benched.root, *ONE, "--into", str(tmp_path / "elsewhere"))

    assert ended.exit_code == ExitCode.DONE
    assert {"bench.json", "results.csv", "measurements.jsonl"} <= {p.name for p in (tmp_path / "elsewhere").iterdir()}
    assert not benched.workspace.directory.exists()


def test_a_recording_is_replayed_where_there_is_no_gpu_and_says_so(profiled: Run, command: Command) -> None:
    record_profile(profiled)
    ended = command(profiled.root, *ONE)

    assert ended.exit_code == ExitCode.DONE
    assert "recorded on Simulated H200, 2026-01-31" in ended.out.splitlines()[0]
    assert "replaying what was recorded on Simulated H200" in ended.err


def test_without_a_recording_nothing_can_be_replayed(benched: Benched, command: Command) -> None:
    ended = command(benched.root, *ONE, "--device", "recorded", "--json", "--quiet")

    assert ended.exit_code == ExitCode.UNAVAILABLE
    assert json.loads(ended.out)["error"]["next_command"] == "warpsmith doctor"


def test_status_of_a_kernel_that_was_only_benched_is_that_of_one_without_a_run(
    benched: Benched, gpu: SimulatedGpu, command: Command
) -> None:
    before = json.loads(command(benched.root, "status", "rms_norm", "--json").out)
    command(benched.root, *ONE)
    assert json.loads(command(benched.root, "status", "rms_norm", "--json").out) == before
