"""What a new run is asked for, held against target and source before anything makes way for it.

Stage 1 looks again, with the run there. Must not know how a run begins.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.request import Request
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Describe, WorkerError, answer_of
from warpsmith.project.snapshot import read_source
from warpsmith.stages.aiming import expect_aim_fits
from warpsmith.stages.preflight import preflight_files, preflight_source
from warpsmith.stages.session import target_ref, worker_without_gpu


def expect_fit(root: Path, target_path: Path, request: Request, again: str) -> None:
    """The target loads, has the goal among its modes and what else the request is after, and its source and tests are
    there. Runs no kernel.

    `again` is the command that asks once more. Raises PreflightError, UsageError.
    """
    try:
        with worker_without_gpu(root) as worker:
            spec = answer_of(worker, Describe(target=target_ref(root, target_path)), TargetSpec)
    except WorkerError as error:
        raise PreflightError(
            f"the target cannot be loaded: {error.failure.in_short}",
            next_command=f"edit {shlex.quote(str(target_path))}",
        ) from error
    goal = settled_goal(request.goal, spec, again)
    expect_aim_fits(request.model_copy(update={"goal": goal}), spec)
    preflight_files(root, spec)
    preflight_source(read_source(root / spec.source), spec)


def settled_goal(goal: Mode, spec: TargetSpec, again: str) -> Mode:
    """The goal among the target's modes. A kernel without a backward pass has its forward pass for a goal.

    Raises PreflightError for another goal that the target does not have.
    """
    if goal in spec.modes:
        return goal
    if goal is not Mode.FULL or len(spec.modes) > 1:
        modes = ", ".join(mode.value for mode in spec.modes)
        raise PreflightError(
            f"the goal {goal.value} is not among the modes of {spec.name}: {modes}",
            next_command=f"{again} --goal {spec.modes[0].value}",
        )
    return spec.modes[0]
