"""Host time a call: what a launch costs the thread that makes it, device work not waited for."""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

import gc
import random
import time
from collections.abc import Sequence

import torch

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import HostTime
from warpsmith.contracts.target import Target
from warpsmith.measure.worker.calls import Call, prepared
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import make_one, refuse_overwriting

#: Chosen: far below the depth of a launch queue, so that no call waits for the device.
CALLS_PER_CHUNK = 16


def measure_host_time(
    implementations: Sequence[Implementation],
    target: Target,
    case: Case,
    mode: Mode,
    *,
    calls: int,
    seed: int,
    device: torch.device,
) -> HostTime:
    """Microseconds of every call, by contender, in interleaved chunks with the device idle at the start of each.

    Raises WorkerError (bad_target) for a target that overwrites its inputs.
    """
    refuse_overwriting(target)
    one = make_one(target, case, mode, seed=seed, device=device)
    ready: dict[str, tuple[Implementation, Call]] = {}
    for implementation in implementations:
        implementation.activate()
        call = prepared(implementation, mode, [one])
        for _ in range(CALLS_PER_CHUNK):
            call(0)
        ready[implementation.name] = (implementation, call)
    samples: dict[str, list[float]] = {name: [] for name in ready}
    order = random.Random(seed)
    gc.disable()
    try:
        for _ in range(max(1, calls // CALLS_PER_CHUNK)):
            names = sorted(ready)
            order.shuffle(names)
            for name in names:
                implementation, call = ready[name]
                implementation.activate()
                torch.cuda.synchronize()
                samples[name].extend(_chunk(call))
    finally:
        gc.enable()
    return HostTime(case=case, mode=mode, samples_us={name: tuple(each) for name, each in samples.items()})


def _chunk(call: Call) -> list[float]:
    found = []
    for _ in range(CALLS_PER_CHUNK):
        start_ns = time.perf_counter_ns()
        call(0)
        found.append(round((time.perf_counter_ns() - start_ns) / 1000, 3))
    return found
