"""Captures a contender's calls into a CUDA graph, so that what is timed is the device's work and nothing else.

Contenders are captured one after the other from one memory pool, each after the outputs of the one before were
dropped: what host code allocates then lands at equal addresses, and placement cannot favour a side.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warpsmith.measure.correctness.replay import capturing
from warpsmith.measure.worker.calls import Call
from warpsmith.measure.worker.implementation import Implementation

WARM_UP_CALLS = 3


class CaptureMismatch(Exception):
    """A replay did not give what the same call gives eagerly; such a graph must not be timed."""


@dataclass
class Captured:
    """A graph of `calls` calls. `pointers` are the addresses of its outputs, call by call."""

    graph: torch.cuda.CUDAGraph
    calls: int
    pointers: tuple[int, ...]

    def run(self) -> None:
        self.graph.replay()


def warm_up(implementation: Implementation, call: Call, stream: torch.cuda.Stream) -> None:
    """Compiles and settles what a first call does. Raises whatever the implementation raises."""
    with torch.cuda.stream(stream):
        implementation.activate()
        for _ in range(WARM_UP_CALLS):
            call(0)
    torch.cuda.synchronize()


def capture(
    implementation: Implementation, call: Call, indices: list[int], *, pool: Any, stream: torch.cuda.Stream
) -> Captured:
    """A graph of one call an index. Raises CaptureMismatch, or what torch raises for a call that cannot be captured."""
    implementation.activate()
    with torch.cuda.stream(stream):
        expected = [out.detach().clone() for out in call(indices[0])]
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with capturing(graph, pool, stream):
            # Detached: writing into an output that still hangs on its graph would concern autograd.
            produced = [tuple(out.detach() for out in call(index)) for index in indices]
        for out in produced[0]:
            out.fill_(float("nan") if out.is_floating_point() else 0)
        graph.replay()
        torch.cuda.synchronize()
        _compare(implementation.name, produced[0], expected)
    pointers = tuple(out.data_ptr() for outputs in produced for out in outputs)
    return Captured(graph, len(indices), pointers)


def _compare(name: str, replayed: tuple[Tensor, ...], expected: list[Tensor]) -> None:
    for position, (found, wanted) in enumerate(zip(replayed, expected, strict=True)):
        tolerance = 1e-2 if found.dtype in (torch.float16, torch.bfloat16) else 1e-4
        if not torch.allclose(found.float(), wanted.float(), rtol=tolerance, atol=tolerance, equal_nan=True):
            raise CaptureMismatch(f"{name}: a graph replay gives another result {position} than the same call does")
