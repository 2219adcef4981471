"""`warpsmith profile`: with no GPU and no recording a prediction, on which nothing is built; another GPU beside.

The prediction is made by the real command in a process that finds no tool and no GPU, whatever machine this is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import Command
from simulated_run import KERNEL, SOURCE, TARGET_FILE, Run, make_repository

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import OriginKind
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.profile import EvidenceTier, Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult
from warpsmith.device.state import Driver
from warpsmith.project.commands import import_path
from warpsmith.stages.doctor.software import installed
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import MeasurementStore

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Predicted:
    """A repository, and what the command printed that made a prediction there."""

    root: Path
    printed: str
    told: str

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.root, KERNEL)


def warpsmith(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Where neither a tool nor a GPU is found."""
    environment = {
        **os.environ,
        "PATH": str(Path(sys.executable).parent),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": import_path(REPOSITORY),
    }
    command = [sys.executable, "-m", "warpsmith", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def contents(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    root = make_repository(tmp_path_factory.mktemp("predicted"))
    done = warpsmith(root, "profile", KERNEL, "--target-gpu", "Hopper")
    assert done.returncode == ExitCode.DONE, done.stderr
    return Predicted(root, done.stdout, " ".join(done.stderr.split()))


@pytest.fixture
def predicted(made: Predicted, tmp_path: Path) -> Predicted:
    """A copy of it, to do something to."""
    return Predicted(Path(shutil.copytree(made.root, tmp_path / "copy")), made.printed, made.told)


def test_it_is_said_in_a_line_that_there_is_no_gpu_and_what_follows(made: Predicted) -> None:
    assert made.told.startswith("no GPU here (") and "no recording of rms_norm in " in made.told
    assert "nothing is run, and the profile is predicted for NVIDIA H" in made.told
    assert "(3 of 3)" in made.told


def test_a_prediction_is_marked_as_one_and_has_nothing_that_was_timed(made: Predicted) -> None:
    profile = read_document(made.workspace.profile, Profile)
    assert (profile.origin.kind, profile.origin.gpu) == (OriginKind.PREDICTED, profile.device.name)
    assert profile.is_predicted and profile.device.architecture == "Hopper"
    assert (profile.baselines, profile.counters, profile.durations, profile.launch_overheads) == ((), (), (), ())
    assert not made.workspace.baseline_csv.exists()
    ptxas = installed(Driver()).compilers["ptxas"].version
    assert profile.device.environment.ptxas == ".".join(map(str, ptxas))
    assert f"predicted for {profile.device.name}" in made.workspace.profile_page.read_text()


def test_the_originals_code_is_there_for_every_tuning_case_and_pass(made: Predicted) -> None:
    profile = read_document(made.workspace.profile, Profile)
    assert profile.offline is not None and profile.offline.unavailable is None
    assert profile.launches == profile.offline.launches
    assert len(profile.launches) == 5
    assert all(set(by_mode) == {Mode.FORWARD, Mode.BACKWARD} for by_mode in profile.launches.values())
    assert {probe.knob.rpartition(".")[2] for probe in profile.settings_probes} == {"num_warps", "num_stages"}
    assert profile.audit.knobs


def test_nothing_was_asked_that_a_gpu_would_have_to_answer(made: Predicted) -> None:
    records = list(MeasurementStore(made.workspace.measurements).records())
    assert {record["kind"] for record in records} == {"describe", "compile_offline"}


def test_verify_makes_a_prediction_again_from_what_was_compiled(made: Predicted) -> None:
    done = warpsmith(made.root, "verify", KERNEL, "--json", "--quiet")
    found = json.loads(done.stdout)
    assert (done.returncode, found["differences"], found["stages"]) == (ExitCode.DONE, [], ["profile"])


def test_next_says_that_a_gpu_is_needed_to_go_on(predicted: Predicted, command: Command) -> None:
    step = json.loads(command(predicted.root, "next", KERNEL, "--json").out)
    assert (step["state"], step["command"]) == ("predicted", "warpsmith run rms_norm")
    assert "a GPU (or a recording) is needed to go on" in step["why"]
    assert step["read"] == ["optimization/rms_norm/profile.md"]
    wording = "on a machine with an NVIDIA GPU: warpsmith run rms_norm"
    assert f"next: {wording}" in predicted.printed
    assert all(f"{wording}" in command(predicted.root, *told).told for told in (("next", KERNEL), ("status", KERNEL)))
    assert wording in command(predicted.root, "list").told
    (on_the_page,) = [line for line in predicted.printed.splitlines() if line.startswith("**Next**")]
    assert wording in on_the_page.replace("`", "")


@pytest.mark.parametrize(
    "arguments",
    [("optimize",), ("finalize",), ("approve",), ("approve", "--gate", "optimize"), ("run",)],
)
def test_nothing_is_built_on_a_prediction(predicted: Predicted, command: Command, arguments: tuple[str, ...]) -> None:
    before = contents(predicted.root)
    name, *options = arguments
    ended = command(predicted.root, name, KERNEL, *options, "--json")
    assert ended.exit_code == ExitCode.UNAVAILABLE
    next_command = json.loads(ended.out)["error"]["next_command"]
    assert next_command == "on a machine with an NVIDIA GPU: warpsmith run rms_norm"
    assert contents(predicted.root) == before


def test_the_same_prediction_is_shown_and_not_made_again(predicted: Predicted, command: Command) -> None:
    before = contents(predicted.root)
    ended = command(predicted.root, "profile", KERNEL, "--target-gpu", "hopper", "--json")
    assert Profile.model_validate_json(ended.out) == read_document(predicted.workspace.profile, Profile)
    assert contents(predicted.root) == before


def test_an_unknown_target_gpu_is_a_usage_error_that_names_near_ones(begun: Run, command: Command) -> None:
    ended = command(begun.root, "profile", KERNEL, "--target-gpu", "H20000")
    assert (ended.exit_code, "nearest: H200, " in ended.told_err) == (ExitCode.USAGE, True)


def test_a_device_that_is_named_and_not_there_is_no_reason_to_predict(tmp_path: Path, command: Command) -> None:
    root = make_repository(tmp_path)
    ended = command(root, "profile", KERNEL, "--device", "7")
    assert ended.exit_code == ExitCode.UNAVAILABLE and "no GPU '7' here" in ended.err
    assert not Workspace(root, KERNEL).request.exists()


def test_a_target_that_cannot_be_loaded_is_told_and_nothing_predicted(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    (root / SOURCE).write_text("import no_such_package\n")
    done = warpsmith(root, "profile", KERNEL)
    assert done.returncode == ExitCode.PREFLIGHT
    assert "the target cannot be used: import_failed" in done.stderr and "no_such_package" in done.stderr
    assert not Workspace(root, KERNEL).profile.exists()


def test_a_cost_that_claims_no_work_is_told_before_anything_is_compiled(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    nothing = "target = dataclasses.replace(target, cost=lambda case, mode: Cost(bytes_moved=0, flops=0))"
    with (root / TARGET_FILE).open("a") as file:
        file.write(f"\n\nimport dataclasses\n\n{nothing}\n")
    done = warpsmith(root, "profile", KERNEL, "--quiet")
    told = " ".join(done.stderr.split())
    assert done.returncode == ExitCode.PREFLIGHT, told
    assert "moves 0 bytes and does 0 operations" in told and told.endswith(f"next: edit {root / TARGET_FILE}")
    assert not Workspace(root, KERNEL).profile.exists()


def test_a_kernel_that_cannot_be_followed_here_has_its_audit_and_the_reason(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    with (root / SOURCE).open("a") as file:
        file.write("\n\ndef rms_norm(x, *_, **__):\n    return x * float(x.sum())\n")
    done = warpsmith(root, "profile", KERNEL, "--quiet", "--json")
    assert done.returncode == ExitCode.DONE, done.stderr
    profile = Profile.model_validate_json(done.stdout)
    assert (profile.launches, profile.settings_probes) == ({}, ())
    assert profile.audit.jit_functions and profile.offline is not None
    assert "the call reads a tensor's values, and with no GPU there are none" in (profile.offline.unavailable or "")
    assert profile.evidence_tier == "source and cost model" and {each.tier for each in profile.modes} == {
        EvidenceTier.SOURCE
    }
    assert "nothing was compiled for NVIDIA H100 80GB HBM3: " in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("file", "added", "told"),
    [
        (SOURCE, "def rms_norm(x, *_, **__):\n    return x * 2", "launched no Triton kernel"),
        (SOURCE, "def rms_norm(x, *_, **__):\n    raise ValueError('no')", "the call failed: ValueError: no"),
        (TARGET_FILE, "target = dataclasses.replace(target, make_inputs=lambda *_: 1 / 0)", "inputs cannot be made"),
        (
            TARGET_FILE,
            "target = dataclasses.replace(target, make_inputs=lambda *_: os._exit(3))",
            "ended with status 3",
        ),
        (TARGET_FILE, "raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_kernel_that_cannot_be_called_on_any_gpu_is_not_profiled(
    tmp_path: Path, file: str, added: str, told: str
) -> None:
    root = make_repository(tmp_path)
    with (root / file).open("a") as appended:
        appended.write(f"\n\nimport dataclasses, os\n\n{added}\n")
    done = warpsmith(root, "profile", KERNEL, "--quiet")
    found = " ".join(done.stderr.split())
    assert done.returncode == ExitCode.PREFLIGHT, found
    named = TARGET_FILE if "launched" in told else file
    assert told in found and "next: edit " in found and found.endswith(named)
    assert not Workspace(root, KERNEL).profile.exists()


def test_a_source_that_the_compiler_refuses_is_told_in_its_words_and_not_profiled(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    source = root / SOURCE
    source.write_text(source.read_text().replace("tl.load(", "no_such_name + tl.load(", 1))
    done = warpsmith(root, "profile", KERNEL, "--quiet")
    told = " ".join(done.stderr.split())
    assert done.returncode == ExitCode.PREFLIGHT, told
    assert f"{SOURCE} does not compile for NVIDIA H100 80GB HBM3, forward: the Triton compiler refused" in told
    assert "NameError('no_such_name is not defined')" in told and told.endswith(f"next: edit {SOURCE}")
    assert not Workspace(root, KERNEL).profile.exists()


def test_another_target_gpu_is_compiled_for_beside_the_profile_that_is_there(profiled: Run, command: Command) -> None:
    before, stored = contents(profiled.root), read_document(profiled.workspace.profile, Profile)
    ended = command(profiled.root, "profile", KERNEL, "--target-gpu", "A100", "--quiet", "--json")
    assert ended.exit_code == ExitCode.DONE, ended.err
    shown = Profile.model_validate_json(ended.out)
    assert shown.offline is not None and shown.offline.gpu.name == "NVIDIA A100-SXM4-80GB"
    assert set(shown.offline.launches) >= set(stored.launches) and shown.offline.unavailable is None
    assert any("asked for NVIDIA A100-SXM4-80GB" in note for note in shown.device_notes)
    assert ended.told_err.endswith("; compiled for NVIDIA A100-SXM4-80GB beside it")
    assert ended.told_err.startswith(f"measured on {stored.device.name}, ")
    assert shown.model_copy(update={"offline": None, "device_notes": ()}) == stored
    assert contents(profiled.root) == before


def test_with_something_else_than_the_profile_has_it_is_a_usage_error(profiled: Run, command: Command) -> None:
    ended = command(profiled.root, "profile", KERNEL, "--target-gpu", "A100", "--goal", "forward")
    assert ended.exit_code == ExitCode.USAGE and "has another goal, target_gpu" in ended.err


def test_a_terminal_is_shown_what_a_person_decides_by_and_a_pipe_all(
    profiled: Run, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = command(profiled.root, "profile", KERNEL)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    shown = command(profiled.root, "profile", KERNEL)
    assert "## Baselines" in piped.out and "Baselines" not in shown.out
    assert "page: optimization/rms_norm/profile.md" in shown.out and "Recommendations" in shown.out


def test_a_profile_of_the_source_before_it_was_changed_says_so_before_the_page(profiled: Run, command: Command) -> None:
    assert "this profile is of" not in command(profiled.root, "profile", KERNEL).told_err
    changed = profiled.production.read_bytes() + b"# changed\n"
    profiled.production.write_bytes(changed)
    told = command(profiled.root, "profile", KERNEL)
    lines = "lines are of optimization/rms_norm/original_rms_norm.py"
    assert f"this profile is of {SOURCE} as it was, which has changed since: {lines}" in told.told_err
    assert lines not in told.told and told.exit_code == ExitCode.DONE

    final = {
        "run_id": "r", "outcome": "applied", "reason": "faster", "winner": 4, "original_sha256": "0" * 64,
        "applied_sha256": hashlib.sha256(changed).hexdigest(), "origin": {"kind": "measured"},
    }  # fmt: skip
    write_document(profiled.workspace.final_result, FinalResult.model_validate(final))
    told = command(profiled.root, "profile", KERNEL)
    assert f"this profile is of the source before v4 was applied: {lines}" in told.told_err


def test_a_request_is_a_prediction_only_where_it_says_so(made: Predicted) -> None:
    request = read_document(made.workspace.request, Request)
    assert (request.predicted, request.recording, request.device) == (True, None, "auto")
