"""`check` on the command line: exit codes, what stands on which stream, and the list of checks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import Command
from simulated_bench import LARGE, SMALL
from simulated_gpu import CASES, DEVICE, SimulatedGpu
from simulated_run import SOURCE, make_repository

from warpsmith.contracts.compiled_change import CompiledChange
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.examination import LISTED, CheckResult
from warpsmith.device.gpus import Gpu
from warpsmith.measure.worker.protocol import Check


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def gpu(root: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    """A GPU after all: `command` has taken it away."""
    workers = SimulatedGpu(root)

    @contextmanager
    def opened(root: Path, gpu_uuid: str, *, interprets: bool = False) -> Iterator[SimulatedGpu]:
        yield workers

    found = Gpu(index=0, uuid=DEVICE.uuid, name=DEVICE.name, capability=DEVICE.capability, other_processes=())
    monkeypatch.setenv("XDG_CACHE_HOME", str(root.parent / "cache"))
    monkeypatch.setattr("warpsmith.stages.check.worker_outside_runs", opened)
    monkeypatch.setattr("warpsmith.stages.check.gpu_for", lambda device: found)
    return workers


def candidate(root: Path, line: str = "# candidate\n") -> str:
    (root / "mine.py").write_text((root / SOURCE).read_text() + line)
    return "mine.py"


def test_a_source_that_passes_is_told_in_a_few_lines(root: Path, gpu: SimulatedGpu, command: Command) -> None:
    ended = command(root, "check", "rms_norm", candidate(root), "--case", SMALL, "--case", LARGE)

    assert ended.exit_code == ExitCode.DONE
    assert ended.out.startswith("`mine.py` (") and f"), on {DEVICE.name}, seed 0\n" in ended.out
    assert ended.out.endswith("\n\n**Passed every check at 2 cases.**\n")
    assert ended.err.splitlines()[1:] == [f"{SMALL} (1 of 2)", f"{LARGE} (2 of 2)"]


def test_a_rejection_is_exit_5_and_ends_with_the_command(root: Path, gpu: SimulatedGpu, command: Command) -> None:
    gpu.wrong_result = lambda work: "dx is off" if work.case.name == LARGE else None
    ended = command(root, "check", "rms_norm", candidate(root), "--case", SMALL, "--case", LARGE, "--quiet")

    assert (ended.exit_code, ended.err) == (ExitCode.REJECTED, "")
    assert "**Rejected by the check `values`, at 1 of 2 cases.**" in ended.out
    assert f"| case | {LARGE} |" in ended.out and "| all cases | 1 of 2 passed |" in ended.out
    assert ended.out.endswith(f"To see it again:\n  warpsmith check rms_norm mine.py --case {LARGE} --seed 0\n")


def test_without_a_file_the_production_file_is_examined(root: Path, gpu: SimulatedGpu, command: Command) -> None:
    ended = command(root, "check", "rms_norm", "--case", SMALL)

    assert ended.exit_code == ExitCode.DONE
    assert ended.out.startswith(f"`{SOURCE}` (") and f"beside `{SOURCE}` (" in ended.out
    assert "the file is the original, byte for byte" in " ".join(ended.out.split())
    assert [each.candidate.path for each in gpu.asked if isinstance(each, Check)] == [str(root / SOURCE)] * 2


def test_json_is_the_whole_document(root: Path, gpu: SimulatedGpu, command: Command) -> None:
    ended = command(root, "check", "rms_norm", candidate(root, "import os\n"), "--json")

    result = CheckResult.model_validate_json(ended.out)
    assert (ended.exit_code, result.passed, result.on) == (ExitCode.REJECTED, False, None)
    assert [finding.text for finding in result.examination.findings] == ["import os"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("check",), ExitCode.USAGE, "expected a kernel: warpsmith check KERNEL [FILE]"),
        (("check", "rms_nrm", "mine.py"), ExitCode.USAGE, "nearest: rms_norm"),
        (("check", "rms_norm", "yours.py"), ExitCode.USAGE, "yours.py: no such file; . has mine.py"),
        (("check", "rms_norm", "src"), ExitCode.USAGE, "src is a folder"),
        (("check", "rms_norm", "mine.py", "--case", "2048x2048-bf15"), ExitCode.USAGE, f"did you mean {SMALL}?"),
        (("check", "rms_norm", "mine.py", "--sanitize", "--device", "interpreter"), ExitCode.USAGE, "looks at a GPU"),
    ],
    ids=["nothing", "kernel", "file", "folder", "case", "sanitizer"],
)
def test_what_is_not_there_is_a_usage_error(
    root: Path, gpu: SimulatedGpu, command: Command, arguments: tuple[str, ...], code: ExitCode, said: str
) -> None:
    candidate(root)
    ended = command(root, *arguments)

    assert (ended.exit_code, ended.out) == (code, "")
    assert said in ended.told_err


def test_every_check_is_listed_with_what_it_is_for(root: Path, command: Command) -> None:
    told, as_json = command(root, "check", "--list"), command(root, "check", "--list", "--json")

    assert f"| values | {LISTED['values']} |" in told.out.splitlines()
    assert json.loads(as_json.out) == LISTED
    assert next(iter(LISTED)) == "admission"


def without_gpu(root: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    """Compiles for a GPU that is not there, in whichever room it is asked for."""
    worker = SimulatedGpu(root)

    @contextmanager
    def opened(root: Path) -> Iterator[SimulatedGpu]:
        yield worker

    monkeypatch.setattr("warpsmith.stages.check_change.worker_without_gpu", opened)
    return worker


def test_a_change_beside_its_base_is_told_and_passes(
    root: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_gpu(root, monkeypatch)
    ended = command(root, "check", "rms_norm", "--base", candidate(root), "--target-gpu", "H200", "--case", SMALL)

    assert ended.exit_code == ExitCode.DONE
    assert ended.out.startswith(f"`{SOURCE}` (") and "beside `mine.py` (" in ended.out
    assert ended.out.endswith("**No difference: the same machine code at 2 calls.**\n")
    assert ended.err.splitlines() == ["the change for NVIDIA H200: 2 calls", "the base for NVIDIA H200: 2 calls"]


def test_a_regression_against_the_base_is_exit_5_and_its_json_is_the_whole_document(
    root: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_gpu(root, monkeypatch).compile_failure = lambda work: "refused" if work.text.endswith("#\n") else None
    worse = candidate(root, "#\n")
    words = ("check", "rms_norm", worse, "--base", SOURCE, "--quiet")
    told, as_json = command(root, *words), command(root, *words, "--json")

    assert (told.exit_code, told.err) == (ExitCode.REJECTED, "")
    assert "**Regressed: compiles.**" in told.out and "**the change does not compile**: refused" in told.out
    result = CompiledChange.model_validate_json(as_json.out)
    assert (as_json.exit_code, result.passed, result.base.name, result.file) == (5, False, SOURCE, worse)
    assert len(result.on[0].regressions) == 2 * len(CASES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--base", "HEAD", "--device", "interpreter"), "it excludes --device and --sanitize"),
        (("--base", "HEAD", "--sanitize"), "it excludes --device and --sanitize"),
        (("--target-gpu", "H200"), "--target-gpu is for --base"),
    ],
)
def test_a_comparison_runs_nothing_and_a_check_takes_no_target_gpu(
    root: Path, command: Command, arguments: tuple[str, ...], said: str
) -> None:
    ended = command(root, "check", "rms_norm", *arguments)

    assert (ended.exit_code, ended.out) == (ExitCode.USAGE, "")
    assert said in ended.told_err
