"""Peak memory of one call, above its inputs and whatever was allocated before it, and what its inputs hold.

For a process that does nothing else: the allocator's statistics are those of the process.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

import gc
from collections.abc import Sequence

import torch

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Memories, Memory
from warpsmith.contracts.target import Target
from warpsmith.measure.worker.calls import Call, prepared
from warpsmith.measure.worker.failures import told
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import make_one


def measure_memories(
    implementations: Sequence[Implementation],
    target: Target,
    case: Case,
    modes: Sequence[Mode],
    *,
    seed: int,
    device: torch.device,
) -> Memories:
    """Peak and held bytes by contender in every mode; a contender that fails is in `failures`, with its status.

    Each is called once to warm up and once to be weighed, on fresh inputs, which it may overwrite. Raises what a
    broken CUDA context raises.
    """
    memories: list[Memory] = []
    for mode in modes:
        peaks: dict[str, int] = {}
        held: dict[str, int] = {}
        failures: dict[str, str] = {}
        for implementation in implementations:
            try:
                peak, before = _peak_and_held(implementation, target, case, mode, seed=seed, device=device)
                peaks[implementation.name], held[implementation.name] = peak, before
            except Exception as error:  # a contender's code may fail in any way
                failures[implementation.name] = told(error)
        memories.append(Memory(case=case, mode=mode, peak_bytes=peaks, held_bytes=held, failures=failures))
    return Memories(memories=tuple(memories))


def _peak_and_held(
    implementation: Implementation, target: Target, case: Case, mode: Mode, *, seed: int, device: torch.device
) -> tuple[int, int]:
    def fresh() -> Call:
        return prepared(implementation, mode, [make_one(target, case, mode, seed=seed, device=device)])

    implementation.activate()
    fresh()(0)
    empty = _allocated(device)
    call = fresh()
    before = _allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    call(0)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(device) - before, before - empty


def _allocated(device: torch.device) -> int:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated(device)
