"""Runs beyond the target's own cases: what a side makes of them, or why it makes nothing.

Owns whose fault it is that the process cannot go on after one. Must not judge results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from warpsmith.measure.correctness.trial import Trial
from warpsmith.measure.worker.failures import classify, is_sticky, told
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure

T = TypeVar("T")


def attempt(run: Callable[[], T], trial: Trial) -> T | str:
    """What it gives, or why it gives nothing. Raises what leaves the process unfit to go on."""
    try:
        found = run()
        if trial.device.type == "cuda":
            torch.cuda.synchronize(trial.device)  # an error of this run is told here, and no other side has it
        return found
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # somebody's code may fail in any way
        return told(error)


def attempt_of_original(run: Callable[[], T], trial: Trial, probe: str) -> T | str:
    """The same for the original and its reference.

    Raises WorkerError (bad_target) where the original breaks the CUDA context: the target has to leave that probe out.
    """
    try:
        return attempt(run, trial)
    except Exception as error:
        if not is_sticky(error):
            raise
        remedy = f"if the kernel is not made for that, name it in the target: unprobed=({probe!r},)"
        message = f"{trial.target.name}: the original breaks the CUDA context with {probe}; {remedy}"
        failure = WorkerFailure(status="bad_target", message=f"{message} ({classify(error).message})", sticky=True)
        raise WorkerError(failure) from error
