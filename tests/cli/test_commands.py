"""What each command prints, and the exit code that the shell sees."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path

import pytest
from command_line import Command
from simulated_run import KERNEL_TESTS, SOURCE, TARGET_FILE, Run, make_repository

from warpsmith.cli.overview import told
from warpsmith.cli.result import tell
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.printed import ListedKernel
from warpsmith.contracts.result import FinalOutcome, FinalResult, TestRun
from warpsmith.workspace.documents import write_document


def tree_of(root: Path) -> dict[str, str]:
    """The user's files by content, without the workspaces."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] != "optimization"
    }


def test_an_unknown_kernel_is_a_usage_error_that_names_the_nearest(begun: Run, command: Command) -> None:
    ended = command(begun.root, "next", "rms_nrom")
    assert ended.exit_code == ExitCode.USAGE
    assert "no target for kernel 'rms_nrom' under benchmark/benchmark_*.py; nearest: rms_norm" in ended.err
    assert "next: warpsmith list" in ended.err
    assert ended.out == ""


def test_an_error_is_json_on_standard_output_where_json_is_wanted(begun: Run, command: Command) -> None:
    ended = command(begun.root, "next", "rms_nrom", "--json")
    error = json.loads(ended.out)["error"]
    assert (error["exit_code"], error["next_command"]) == (2, "warpsmith list")
    assert error["message"] in ended.err


@pytest.mark.parametrize(
    "arguments",
    [("next",), ("run", "rms_norm", "--goal", "sideways"), ("run", "rms_norm", "--max-variants", "0"), ("fly",)],
)
def test_a_wrong_call_is_a_usage_error_and_json_where_json_is_wanted(
    begun: Run, command: Command, arguments: tuple[str, ...]
) -> None:
    ended = command(begun.root, *arguments, "--json")
    assert ended.exit_code == ExitCode.USAGE
    assert json.loads(ended.out)["error"]["exit_code"] == 2
    assert ended.err


def test_a_folder_of_no_repository_is_a_usage_error(command: Command) -> None:
    ended = command(Path("/"), "list")
    assert ended.exit_code == ExitCode.USAGE
    assert "no repository here" in ended.err


def test_next_tells_a_program_everything_it_needs_to_go_on(begun: Run, command: Command) -> None:
    ended = command(begun.root, "next", "rms_norm", "--json")
    assert ended.exit_code == ExitCode.DONE
    assert json.loads(ended.out) == {
        "kernel": "rms_norm",
        "state": "profile",
        "command": "warpsmith profile rms_norm",
        "why": "the profile is not finished; what was measured is kept",
        "read": [],
        "for_a_person": False,
        "known_so_far": [],
        "where": None,
        "reference": "references/profile.md",
    }


def test_list_shows_every_target_and_what_comes_next_for_it(begun: Run, command: Command) -> None:
    (begun.root / "benchmark" / "benchmark_softmax.py").write_text("raise SystemExit('never imported')\n")
    ended = command(begun.root, "list", "--json")
    assert ended.exit_code == ExitCode.DONE
    assert json.loads(ended.out) == [
        {
            "kernel": "rms_norm",
            "target": TARGET_FILE,
            "next": "warpsmith profile rms_norm",
            "where": None,
            "problem": None,
        },
        {
            "kernel": "softmax",
            "target": "benchmark/benchmark_softmax.py",
            "next": "warpsmith profile softmax",
            "where": None,
            "problem": None,
        },
    ]


def test_list_has_one_layout_for_few_short_names_and_for_long_ones(begun: Run, command: Command) -> None:
    name = "a_kernel_with_a_long_name_for_a_line"
    (begun.root / "benchmark" / f"benchmark_{name}.py").write_text("raise SystemExit('never imported')\n")
    lines = command(begun.root, "list").out.splitlines()

    assert lines[:2] == [f"{name}  benchmark/benchmark_{name}.py", f"    next: warpsmith profile {name}"]
    rows = [ListedKernel(kernel="k", target="k.py", next="warpsmith profile k", where=None, problem=None)]
    assert told(rows) == ["k  k.py", "    next: warpsmith profile k"]


@pytest.mark.parametrize(("gpu", "after"), [(None, " (no GPU)"), ("a GPU", "")])
def test_an_applied_winner_is_told_with_how_many_tests_ran_here(
    begun: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gpu: str | None, after: str
) -> None:
    monkeypatch.setattr("warpsmith.cli.result.choose", lambda device: gpu)
    tests = TestRun(
        command="pytest", passed=True, counts={"passed": 25, "skipped": 82}, duration_s=1.0, output_tail="", reason=None
    )
    result = FinalResult(
        run_id="r",
        outcome=FinalOutcome.APPLIED,
        reason="applied in a demonstration copy, whose tests passed here",
        winner=1,
        original_sha256="0" * 64,
        origin=Origin(kind=OriginKind.RECORDED),
        tests=tests,
    )
    write_document(begun.workspace.final_result, result)
    tell(begun.workspace, result)

    told_result = " ".join(capsys.readouterr().out.split())
    assert told_result.endswith(f"whose tests passed here: 25 passed, 82 skipped{after}")


def test_status_tells_what_happened_last_and_that_nothing_runs(begun: Run, command: Command) -> None:
    begun.workspace.log("begun", run_id="r")
    told = json.loads(command(begun.root, "status", "rms_norm", "--json").out)
    assert (told["running"], told["last_event"]["event"], told["next"]["state"]) == (None, "begun", "profile")


def test_there_is_nothing_to_approve_before_a_run_or_between_gates(tmp_path: Path, command: Command) -> None:
    root = make_repository(tmp_path)
    ended = command(root, "approve", "rms_norm")
    assert (ended.exit_code, ended.err) == (
        ExitCode.USAGE,
        "warpsmith: no run of rms_norm has begun\n  next: warpsmith run rms_norm\n",
    )
    run = Run.begin(root)
    ended = command(root, "approve", "rms_norm")
    assert (ended.exit_code, ended.err.splitlines()[0]) == (ExitCode.USAGE, "warpsmith: nothing waits for an approval")
    ended = command(root, "approve", "rms_norm", "--gate", "optimize")
    assert ended.exit_code == ExitCode.USAGE and "nothing to approve yet" in ended.err
    assert not run.workspace.approvals.exists()


def test_run_without_a_terminal_and_without_a_gpu_says_so_and_touches_nothing(tmp_path: Path, command: Command) -> None:
    root = make_repository(tmp_path)
    before = tree_of(root)
    ended = command(root, "run", "rms_norm", "--quiet")
    assert ended.exit_code == ExitCode.UNAVAILABLE
    assert ended.told_err == (
        "warpsmith: no GPU here (NVML finds no NVIDIA GPU), and no recording of rms_norm in "
        f"{root / 'benchmark/data/rms_norm'} next: warpsmith profile rms_norm --target-gpu hopper (which predicts, and "
        "needs neither)"
    )
    assert tree_of(root) == before
    assert set(before) == {SOURCE, TARGET_FILE, KERNEL_TESTS, "warpsmith.yaml"}


def test_doctor_without_a_gpu_says_what_does_not_work(begun: Run, command: Command) -> None:
    ended = command(begun.root, "doctor", "--json")
    assert ended.exit_code == ExitCode.UNAVAILABLE
    assert json.loads(ended.out)[0] == {
        "name": "gpu",
        "ok": False,
        "found": "NVML finds no NVIDIA GPU",
        "consequence": "nothing can be measured here",
        "remedy": "an NVIDIA GPU with its driver, visible to this process; recorded runs replay without one",
    }


def test_doctor_tells_each_consequence_and_remedy_below_its_finding(begun: Run, command: Command) -> None:
    ended = command(begun.root, "doctor")
    assert ended.exit_code == ExitCode.UNAVAILABLE
    finding, consequence, remedy = (" ".join(line.split()) for line in ended.out.splitlines()[:3])
    assert (finding, consequence) == ("-- gpu NVML finds no NVIDIA GPU", "nothing can be measured here")
    assert remedy.startswith("remedy: an NVIDIA GPU with its driver")


@pytest.mark.parametrize("stage", ["optimize", "finalize"])
def test_a_stage_without_a_run_names_the_first_stage(tmp_path: Path, command: Command, stage: str) -> None:
    ended = command(make_repository(tmp_path), stage, "rms_norm")
    assert (ended.exit_code, ended.err) == (
        ExitCode.USAGE,
        "warpsmith: no run of rms_norm has begun\n  next: warpsmith profile rms_norm\n",
    )


def test_options_that_contradict_the_unfinished_run_are_a_usage_error(begun: Run, command: Command) -> None:
    ended = command(begun.root, "run", "rms_norm", "--goal", "forward")
    assert ended.exit_code == ExitCode.USAGE
    assert "has another goal" in ended.err


def test_a_target_speedup_of_one_or_less_is_a_usage_error(begun: Run, command: Command) -> None:
    ended = command(begun.root, "run", "rms_norm", "--target-speedup", "1.0")
    assert (ended.exit_code, ended.err) == (
        ExitCode.USAGE,
        "warpsmith: --target-speedup must be above 1, found 1.0\n",
    )


def test_a_report_of_nothing_is_a_usage_error(begun: Run, command: Command) -> None:
    ended = command(begun.root, "report", "rms_norm")
    assert ended.exit_code == ExitCode.USAGE
    assert "no finished run of rms_norm to report on" in ended.err


@pytest.mark.parametrize(
    ("outcome", "exit_code"),
    [
        (FinalOutcome.NO_IMPROVEMENT, ExitCode.DONE),
        (FinalOutcome.APPLIED, ExitCode.DONE),
        (FinalOutcome.REVERTED, ExitCode.REJECTED),
    ],
)
def test_finalizing_a_finished_run_tells_its_result_again(
    begun: Run, command: Command, outcome: FinalOutcome, exit_code: ExitCode
) -> None:
    result = FinalResult(
        run_id="r",
        outcome=outcome,
        reason="because",
        winner=None,
        original_sha256="0" * 64,
        origin=Origin(kind=OriginKind.MEASURED),
    )
    for path in (begun.workspace.profile, begun.workspace.search_result):
        path.write_text("{}")
    write_document(begun.workspace.final_result, result)
    ended = command(begun.root, "finalize", "rms_norm", "--json")
    assert ended.exit_code == exit_code
    assert FinalResult.model_validate_json(ended.out) == result


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_with_the_code_for_interrupted(
    begun: Run, command: Command, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def interrupted(**_: object) -> int:
        try:
            signal.raise_signal(number)
        except Exception as error:
            raise AssertionError("a broad except on the way out took the signal for a failure") from error
        return 0

    monkeypatch.setattr("warpsmith.cli.overview.print_doctor", interrupted)
    ended = command(begun.root, "doctor")

    assert ended.exit_code == ExitCode.INTERRUPTED
    assert ended.err == "warpsmith: interrupted; what was measured is kept, and the same command goes on from here\n"


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("--regime", "small ones", "--regime: expected a comparison such as N<=4096 or dtype=bf16, found 'small ones'"),
        ("--weight", "N=4096", "such as 'N=4096: 3', found 'N=4096'"),
        ("--target-metric", "make it fast", "such as 'forward < 0.3 ms at N=4096', 'speedup > 1.5' or"),
        ("--objective", "beauty", "beauty"),
    ],
)
@pytest.mark.parametrize("stage", ["run", "profile"])
def test_an_aim_of_nonsense_is_a_usage_error_with_an_example(
    tmp_path: Path, command: Command, stage: str, option: str, text: str, told: str
) -> None:
    root = make_repository(tmp_path)
    ended = command(root, stage, "rms_norm", option, text)

    assert ended.exit_code == ExitCode.USAGE
    assert told in " ".join(ended.err.split())
    assert not Run.of(root).workspace.request.exists()


def test_an_aim_is_of_the_request_of_a_run_and_read_back_from_its_words(
    profiled: Run, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiled.ask_for(regime=["N<=4096"], weights=["N=4096: 3"], target_metric="speedup > 1.5")
    same = ("--regime", "N <= 4096", "--weight", "N=4096:3", "--target-metric", "speedup>1.5")
    assert command(profiled.root, "run", "rms_norm", *same).exit_code == ExitCode.WAITING

    ended = command(profiled.root, "run", "rms_norm", "--regime", "N<=2048")
    assert ended.exit_code == ExitCode.USAGE
    assert "is unfinished and has another regime" in ended.err


def test_without_the_extra_mcp_says_what_to_install(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    ended = command(make_repository(tmp_path), "mcp")

    assert ended.exit_code == ExitCode.UNAVAILABLE
    assert "next: pip install 'warpsmith[mcp]'" in ended.told_err
