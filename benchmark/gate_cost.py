"""What the correctness gate costs for the winner of rms_norm, at all cases, on a GPU:

    python benchmark/gate_cost.py

Prints seconds by the clock, by check, first with kernels to compile and then with all compiled, and for how long the
GPU was busy: the union of the activities that the profiler saw.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from benchmark_rms_norm import target
from torch.profiler import ProfilerActivity, profile

from warpsmith.contracts.measurement import ORIGINAL, Contender, SourceRef
from warpsmith.measure.correctness import gate
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation

ROOT = Path(__file__).resolve().parents[1]
#: The part of the gate that is no check.
FIRST_RUNS = "first runs"


def loaded(name: str, path: Path) -> Implementation:
    source = SourceRef(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    return load_implementation(target, Contender(name=name, source=source), str(ROOT))


def clocked(name: str, function: Callable[..., Any], spent: Counter[str]) -> Callable[..., Any]:
    """The same function; the seconds that its calls take, and what they iterate over, are added to `spent`."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        started_s = time.perf_counter()
        result = function(*arguments, **keywords)
        result = list(result) if isinstance(result, Iterable) else result
        torch.cuda.synchronize()
        spent[name] += time.perf_counter() - started_s
        return result

    return call


def busy_s(events: Iterable[Any]) -> float:
    """Seconds in which at least one of the profiler's events on the device was running."""
    spans = sorted((e.start_ns(), e.start_ns() + e.duration_ns()) for e in events if "CUDA" in str(e.device_type()))
    total_ns = end_ns = 0
    for start, end in spans:
        total_ns += max(0, end - max(start, end_ns))
        end_ns = max(end_ns, end)
    return total_ns / 1e9


def main() -> None:
    """Raises RuntimeError where the winner does not pass: that is no measure."""
    spent: Counter[str] = Counter()
    gate.CHECKS = {name: clocked(name, check, spent) for name, check in gate.CHECKS.items()}
    gate.observe = clocked(FIRST_RUNS, gate.observe, spent)  # type: ignore[attr-defined]
    original = loaded(ORIGINAL, ROOT / "optimization/rms_norm/original_rms_norm.py")
    winner = loaded("winner", ROOT / "src/warpsmith/kernels/rms_norm.py")
    device = torch.device("cuda", torch.cuda.current_device())

    def pass_s(seed: int) -> float:
        spent.clear()
        started_s = time.perf_counter()
        found = gate.check(winner, original, target, target.cases, device=device, seed=seed)
        torch.cuda.synchronize()
        if failures := [str(failure) for case in found for failure in case.failures]:
            raise RuntimeError(f"the winner does not pass: {failures[0]}")
        return time.perf_counter() - started_s

    for seed, state in enumerate(("with kernels to compile", "all compiled")):
        print(f"{len(target.cases)} cases, {state}: {pass_s(seed):.1f} s")
        print("  " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.most_common() if seconds >= 0.005))
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        pass_s(2)
    print(f"the GPU was busy for {busy_s(profiled.profiler.kineto_results.events()):.2f} s")


if __name__ == "__main__":
    main()
