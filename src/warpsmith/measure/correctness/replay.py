"""Captures a call, forward and backward, into a CUDA graph and replays it on other values than it was captured with.

Owns the capture, and that one which fails leaves the process fit for the next. Must not judge what comes out.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.streams import graph_stream

_WARM_UP_CALLS = 2


@dataclass(frozen=True)
class CapturedCall:
    """A graph and the tensors that every replay writes."""

    graph: torch.cuda.CUDAGraph
    results: Results

    def replay(self, trial: Trial) -> Results:
        """The results on what the trial holds now. Whatever a replay does not write reads as NaN."""
        for tensor in self.results.values():
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                tensor.fill_(float("nan"))
        trial.restore()  # after the poison: an output may share memory with an input
        self.graph.replay()
        torch.cuda.synchronize(trial.device)
        return self.results


def captured(implementation: Implementation, trial: Trial) -> CapturedCall:
    """The call as a graph over the trial's tensors. Raises what torch or CUDA raises where it cannot be captured."""
    stream = graph_stream(trial.device)
    stream.wait_stream(torch.cuda.current_stream(trial.device))
    # torch leaves the stream of a capture that fails current; this block puts the one before back.
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP_CALLS):
            trial.run(implementation)
        with _waiting_forbidden():
            trial.run(implementation)
        trial.restore()
        torch.cuda.synchronize(trial.device)
        return _capture(implementation, trial, stream)


def _capture(implementation: Implementation, trial: Trial, stream: torch.cuda.Stream) -> CapturedCall:
    implementation.activate()
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    with capturing(graph, pool, stream):
        results = trial.backward(implementation, implementation.call(trial.inputs))
    return CapturedCall(graph, results)


@contextlib.contextmanager
def capturing(graph: torch.cuda.CUDAGraph, pool: Any, stream: torch.cuda.Stream) -> Iterator[None]:
    """torch.cuda.graph, but a capture that fails leaves the process fit for the next."""
    try:
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            yield
    except Exception:
        # Before 2.12, torch's allocator goes on believing in a capture that failed, and refuses every later one
        # (pytorch/pytorch#180395). From 2.12 on it has ended, and ending it again is refused.
        with contextlib.suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
        raise


@contextlib.contextmanager
def _waiting_forbidden() -> Iterator[None]:
    """Raises RuntimeError for what makes the host wait for the device: found here, it spoils no capture."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*prototype feature.*", category=UserWarning)
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)
