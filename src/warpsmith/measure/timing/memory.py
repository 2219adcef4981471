"""Peak memory of one call, above its inputs and whatever was allocated before it."""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

import gc
from collections.abc import Sequence

import torch

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Memory
from warpsmith.contracts.target import Target
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import make_one, refuse_overwriting


def measure_memory(
    implementations: Sequence[Implementation],
    target: Target,
    case: Case,
    mode: Mode,
    *,
    seed: int,
    device: torch.device,
) -> Memory:
    """Peak bytes by contender, one call each after a warm-up; a contender that fails is in `failures`.

    Raises WorkerError (bad_target) for a target that overwrites its inputs.
    """
    refuse_overwriting(target)
    one = make_one(target, case, mode, seed=seed, device=device)
    peaks: dict[str, int] = {}
    failures: dict[str, str] = {}
    for implementation in implementations:
        try:
            implementation.activate()
            call = prepared(implementation, mode, [one])
            call(0)
            gc.collect()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
            call(0)
            torch.cuda.synchronize()
            peaks[implementation.name] = torch.cuda.max_memory_allocated(device) - before
        except Exception as error:  # a contender's code may fail in any way
            error.__traceback__ = None
            failures[implementation.name] = f"{type(error).__name__}: {error}"
    return Memory(case=case, mode=mode, peak_bytes=peaks, failures=failures)
