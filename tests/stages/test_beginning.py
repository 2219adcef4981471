"""What is asked of a new run is held against target and source while the run that is there still is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from simulated_run import KERNEL, SOURCE, TARGET_FILE, Run, make_repository
from test_offline import SPEC

from warpsmith.contracts.aim import CaseWeight
from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import PreflightError, UsageError
from warpsmith.contracts.request import Request
from warpsmith.contracts.target import TargetSpec
from warpsmith.stages.beginning import expect_fit, settled_goal
from warpsmith.stages.preflight import odd_names
from warpsmith.stages.profiler import _command_anew

AGAIN = "warpsmith profile rms_norm"


def asked(goal: Mode, **aim: object) -> Request:
    return Request.model_validate({"kernel": KERNEL, "run_id": "now", "created_at": "now", "goal": goal, **aim})


def refused(root: Path, goal: Mode = Mode.FULL) -> tuple[str, str | None]:
    with pytest.raises(PreflightError) as caught:
        expect_fit(root, root / TARGET_FILE, asked(goal), AGAIN)
    return caught.value.message, caught.value.next_command


@pytest.fixture(scope="module")
def forward_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_repository(tmp_path_factory.mktemp("forward"))
    with (root / TARGET_FILE).open("a") as file:
        file.write("\n\nimport dataclasses\n\ntarget = dataclasses.replace(target, modes=(Mode.FORWARD,))\n")
    return root


def test_a_goal_that_the_target_lacks_is_refused_with_the_same_command_and_one_that_it_has(forward_only: Path) -> None:
    message, again = refused(forward_only, Mode.BACKWARD)
    assert message == f"the goal backward is not among the modes of {KERNEL}: forward"
    assert again == f"{AGAIN} --goal forward"
    expect_fit(forward_only, forward_only / TARGET_FILE, asked(Mode.FULL), AGAIN)


def test_an_aim_that_the_target_cannot_have_is_refused_too(forward_only: Path) -> None:
    unknown = asked(Mode.FORWARD, weights=(CaseWeight.parse("Q=4096: 2"),))
    with pytest.raises(UsageError, match="--weight Q=4096: Q is no axis of rms_norm"):
        expect_fit(forward_only, forward_only / TARGET_FILE, unknown, AGAIN)


def test_a_source_that_is_gone_is_told_with_the_file_that_names_it(forward_only: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(forward_only, tmp_path / "gone"))
    (root / SOURCE).unlink()
    message, again = refused(root)
    assert f"names the source {SOURCE}, which is not there" in message
    assert again == f"edit {root / TARGET_FILE}"


def test_a_source_that_is_no_python_is_told_with_its_line(forward_only: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(forward_only, tmp_path / "damaged"))
    (root / SOURCE).write_text("import torch\ndef (\n")
    message, again = refused(root)
    assert message.startswith(f"{SOURCE}, line 2") and again == f"edit {SOURCE}"


def test_a_kernel_with_one_pass_has_it_for_a_goal_unless_another_is_asked_for() -> None:
    forward = SPEC.model_copy(update={"modes": (Mode.FORWARD,)})
    assert settled_goal(Mode.FULL, forward, AGAIN) is Mode.FORWARD
    assert settled_goal(Mode.FULL, SPEC, AGAIN) is Mode.FULL
    with pytest.raises(PreflightError):
        settled_goal(Mode.FULL, SPEC.model_copy(update={"modes": (Mode.FORWARD, Mode.BACKWARD)}), AGAIN)


def test_a_prediction_is_begun_anew_with_no_gpu_and_for_its_own() -> None:
    request = Request(kernel=KERNEL, run_id="r", created_at="2026-01-31", predicted=True, target_gpu="NVIDIA H200")
    assert _command_anew(request) == "warpsmith profile rms_norm --target-gpu 'NVIDIA H200' --fresh"
    measured = request.model_copy(update={"predicted": False})
    assert _command_anew(measured) == "warpsmith run rms_norm --fresh"


@pytest.mark.parametrize(
    ("source", "module", "odd"),
    [
        ("src/kernels/scale.py", "kernels.scale", False),
        ("scale.py", "scale", False),
        ("pkg/scale/__init__.py", "pkg.scale", False),
        ("src/kernels/scale.py", "nosuch.scale", True),
        ("scale.py", "pkg.scale", True),
    ],
)
def test_a_module_that_its_path_is_not_is_told_and_not_refused(source: str, module: str, odd: bool) -> None:
    told = odd_names(SPEC.model_copy(update={"source": source, "module": module}), SPEC.name)
    assert [f"{source} is the module {module!r}, which its path is not" in each for each in told] == [True] * odd


def test_a_target_that_is_named_otherwise_than_its_file_is_told() -> None:
    (told,) = odd_names(SPEC, "other")
    assert told == "benchmark.py names its target 'scale'; the kernel goes by the file: 'other'"


def test_odd_names_are_told_before_anything_is_measured(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.stages.profiler.odd_names", lambda spec, kernel: [f"{spec.name} for {kernel}"])
    monkeypatch.setattr("warpsmith.stages.profiler.preflight_files", unfit)
    with pytest.raises(PreflightError, match="as far as here"):
        run.profile()
    assert f"mind: {KERNEL} for {KERNEL}" in run.told.lines


def unfit(root: Path, spec: TargetSpec) -> None:
    raise PreflightError("as far as here")
