"""Begins runs and takes up unfinished ones."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from warpsmith.contracts.aim import CaseWeight, Condition, Objective, TargetMetric
from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import PreflightError, Unavailable, UsageError
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.request import AIM_FIELDS, Request
from warpsmith.contracts.result import RunState, SearchResult
from warpsmith.device.builds import require_nvidia
from warpsmith.device.known_gpus import known_gpu
from warpsmith.project.apply import clear, revert
from warpsmith.project.snapshot import file_sha256, read_source, sha256_of
from warpsmith.stages.checkpoints import (
    ON_A_GPU,
    changed_source,
    state_of,
)
from warpsmith.stages.in_place import REVERTED, expect_own_winner, is_applying
from warpsmith.stages.prediction import DEFAULT_GPU
from warpsmith.stages.recording import recording_to_replay
from warpsmith.stages.session import gpu_for
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.runs import archive, new_run_id


@dataclass(frozen=True)
class Options:
    """What the command line asked for. None is "as the unfinished run has it, else the default"."""

    goal: Mode | None = None
    autonomous: bool | None = None
    max_variants: int | None = None
    target_speedup: float | None = None
    device: str | None = None
    target_gpu: str | None = None
    l2: L2 | None = None
    objective: Objective | None = None
    regime: tuple[Condition, ...] | None = None
    weights: tuple[CaseWeight, ...] | None = None
    target_metric: TargetMetric | None = None
    fresh: bool = False

    def given(self) -> dict[str, object]:
        fields = ("goal", "autonomous", "max_variants", "target_speedup", "device", "target_gpu", "l2", *AIM_FIELDS)
        return {name: value for name in fields if (value := getattr(self, name)) is not None}


@dataclass(frozen=True)
class Answering:
    """What answers a new run: a recording, for a prediction the compiler alone, else a GPU. `why` it is no GPU."""

    recording: Recording | None = None
    predicted_for: str | None = None
    why: str | None = None


def answering(root: Path, target_path: Path, kernel: str, options: Options, *, to_predict: bool) -> Answering:
    """Who answers the questions of a new run. `to_predict`: a profile is wanted, and may be one of nothing measured.

    Where no GPU is named to predict for, it is that of the prediction that is there, unless one is begun afresh.
    Raises Unavailable where nobody does, and where a prediction that nobody named a GPU for would take the place of
    what was measured.
    """
    device = options.device or "auto"
    to_predict = to_predict and device == "auto"
    try:
        recording = recording_to_replay(root, target_path, kernel, device)
    except Unavailable as error:
        workspace = Workspace(root, kernel)
        if not to_predict:
            if is_prediction(workspace):  # which is all that can be had here
                raise Unavailable(error.message, next_command=f"{ON_A_GPU}: warpsmith run {kernel}") from error
            raise
        require_nvidia()
        if options.target_gpu is None:
            _expect_nothing_measured(workspace, error.message)
        gpu = known_gpu(options.target_gpu or _predicted_before(workspace, options) or DEFAULT_GPU)
        return Answering(predicted_for=gpu.name, why=error.message)
    if recording is None:
        gpu_for(device)
    return Answering(recording)


def begin(
    workspace: Workspace,
    kernel: str,
    options: Options,
    by: Answering = Answering(),
    tell: Callable[[str], None] = lambda text: None,
    expect_fit: Callable[[Request, str], None] = lambda request, again: None,
) -> Request:
    """The unfinished run's request, or a new one; a finished run moves to history first, and so does a prediction,
    unless the same would be predicted again. What moves, and why a prediction does, is told.

    `by` is what answers a new run. One that replays is asked what the recorded run was asked. `expect_fit` raises where
    nothing could come of the request that it is handed, with the command that asks again, while all is as it was.

    Raises UsageError where the options contradict an unfinished run.
    """
    why = None
    if not options.fresh and state_of(workspace) not in (RunState.NEW, RunState.DONE):
        begun = read_document(workspace.request, Request)
        if not begun.predicted:
            return _resumed(workspace, kernel, options, expect_fit)
        if (why := _why_not_the_same(workspace, begun, options, by)) is None:
            return begun
    take_back_unproven(workspace)
    now = datetime.now(timezone.utc)
    request = Request.model_validate(
        {
            "kernel": kernel,
            "run_id": new_run_id(now),
            "created_at": now.isoformat(timespec="seconds"),
            **(_as_recorded(by.recording) if by.recording else {}),
            **options.given(),
            **({"predicted": True, "target_gpu": by.predicted_for} if by.predicted_for else {}),
        }
    )
    if {"goal", "target_speedup", *AIM_FIELDS} & options.given().keys() or workspace.request.is_file():
        expect_fit(request, _again(kernel, options, by))
    what = _told_of(workspace)
    if (past := archive(workspace)) is not None:
        tell(f"{what} is kept in {workspace.relative(past)}" + (f": {why}" if why else ""))
    workspace.create()
    write_document(workspace.request, request)
    workspace.log("begun", run_id=request.run_id)
    return request


def is_prediction(workspace: Workspace) -> bool:
    """Whether the run that is there has a profile of nothing that was run, and no more."""
    return workspace.request.is_file() and read_document(workspace.request, Request).predicted


def _expect_nothing_measured(workspace: Workspace, why: str) -> None:
    """Raises Unavailable where a run is there that something was run for, or a recording replayed."""
    if workspace.request.is_file() and not is_prediction(workspace):
        run_id, kernel = read_document(workspace.request, Request).run_id, workspace.kernel
        raise Unavailable(
            f"{why}; a prediction, which is all that can be had here, would take the place of run {run_id}, which is "
            "none: name the GPU to predict for, with --fresh, if that is what you want",
            next_command=f"warpsmith profile {kernel} --target-gpu {DEFAULT_GPU}   (shows its code beside the profile)",
        )


def _again(kernel: str, options: Options, by: Answering) -> str:
    """The command that asks for the same once more, but for its goal."""
    named = ["--target-gpu", options.target_gpu] if options.target_gpu else []
    fresh = ["--fresh"] if options.fresh else []
    return shlex.join(["warpsmith", "profile" if by.predicted_for else "run", kernel, *named, *fresh])


def _predicted_before(workspace: Workspace, options: Options) -> str | None:
    if options.fresh or not is_prediction(workspace):
        return None
    return read_document(workspace.request, Request).target_gpu


def take_back_unproven(workspace: Workspace) -> None:
    """The original again, where a run that was killed while the winner's tests ran had left the winner, unproven.

    A run that cannot be read has nothing to say here: it makes way as it is. Raises UsageError where the winner is in
    place and nothing is left that tells whether the run put it there.
    """
    try:
        search = read_document(workspace.search_result, SearchResult)
        profile = read_document(workspace.profile, Profile)
        production = workspace.root / profile.source
        found = file_sha256(production)
    except (UsageError, PreflightError):
        return
    if workspace.final_result.is_file():
        return
    expect_own_winner(workspace, search, profile)
    if not is_applying(workspace):
        return
    clear(production)
    original = read_source(workspace.original)
    if found == search.winner_sha256 and sha256_of(original) == profile.source_sha256:
        revert(production, original, expected_sha256=found)
        workspace.log(REVERTED, winner=search.winner)


def _as_recorded(recording: Recording) -> dict[str, object]:
    fields = {"goal", "max_variants", "target_speedup", "time_budget_s", "seed", "l2", *AIM_FIELDS}
    asked = recording.request.model_dump(include=fields)
    return {**asked, "recording": recording.reference}


def _told_of(workspace: Workspace) -> str:
    if not is_prediction(workspace):
        return "the run before"
    return f"the prediction for {read_document(workspace.request, Request).target_gpu}"


def _why_not_the_same(workspace: Workspace, begun: Request, options: Options, by: Answering) -> str | None:
    """Why a prediction is not what would be predicted now, by source, target and tests as they are; else None."""
    if by.predicted_for is None:
        return "the kernel is measured now" if by.recording is None else "a recording is replayed now"
    if by.predicted_for != begun.target_gpu:
        return f"{by.predicted_for} is asked for now"
    asked = {name: value for name, value in options.given().items() if name != "autonomous"}
    if different := [name for name, value in asked.items() if getattr(begun, name) != value]:
        return f"another {', '.join(different)} is asked for now"
    if not workspace.profile.is_file():
        return None
    if (source := changed_source(workspace)) is not None:
        return f"{source} was changed"
    if not workspace.guarded.is_file():
        return f"{workspace.relative(workspace.guarded)} was deleted"
    from warpsmith.stages.guarding import changes_since  # slow to load: it reaches the templates

    return ", ".join(changes_since(workspace, begun.run_id)) or None


def _resumed(
    workspace: Workspace, kernel: str, options: Options, expect_fit: Callable[[Request, str], None]
) -> Request:
    """Autonomy may be given or taken back at any time, and the aim until there is a profile: the original is measured
    alike for all. Anything else would make the measured part another run's."""
    request = read_document(workspace.request, Request)
    wanted = request.model_copy(update=options.given())
    free = ("autonomous", *(() if workspace.profile.is_file() else AIM_FIELDS))
    if different := [
        name for name in options.given() if name not in free and getattr(wanted, name) != getattr(request, name)
    ]:
        raise UsageError(
            f"run {request.run_id} of {kernel} is unfinished and has another {', '.join(different)}",
            next_command=f"warpsmith run {kernel}   (goes on with it; add --fresh to begin anew)",
        )
    if wanted.aim != request.aim:
        expect_fit(wanted, shlex.join(["warpsmith", "run", kernel]))
    if wanted != request:
        write_document(workspace.request, wanted)
    return wanted
