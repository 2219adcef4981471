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
from warpsmith.measure.worker.failures import told
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputSet, make_one

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

    Inputs that a call overwrites are not restored: what the host does hangs on no value in them. A contender that
    fails is in `failures`, with its status. Raises what a broken CUDA context raises.
    """
    one = make_one(target, case, mode, seed=seed, device=device)
    ready: dict[str, tuple[Implementation, Call]] = {}
    failures: dict[str, str] = {}
    for implementation in implementations:
        try:
            ready[implementation.name] = implementation, _warmed_up(implementation, mode, one)
        except Exception as error:  # a contender's code may fail in any way
            failures[implementation.name] = told(error)
    samples: dict[str, list[float]] = {name: [] for name in ready}
    order = random.Random(seed)
    gc.disable()
    try:
        for _ in range(max(1, calls // CALLS_PER_CHUNK)):
            names = sorted(ready)
            order.shuffle(names)
            for name in names:
                try:
                    samples[name].extend(_chunk(*ready[name]))
                except Exception as error:  # a contender's code may fail in any way
                    failures[name] = told(error)
                    del ready[name]
    finally:
        gc.enable()
    return HostTime(
        case=case,
        mode=mode,
        samples_us={name: tuple(samples[name]) for name in ready},
        calls_per_chunk=CALLS_PER_CHUNK,
        failures=failures,
    )


def _warmed_up(implementation: Implementation, mode: Mode, one: InputSet) -> Call:
    implementation.activate()
    call = prepared(implementation, mode, [one])
    for _ in range(CALLS_PER_CHUNK):
        call(0)
    return call


def _chunk(implementation: Implementation, call: Call) -> list[float]:
    implementation.activate()
    torch.cuda.synchronize()
    found = []
    for _ in range(CALLS_PER_CHUNK):
        start_ns = time.perf_counter_ns()
        call(0)
        found.append(round((time.perf_counter_ns() - start_ns) / 1000, 3))
    return found
