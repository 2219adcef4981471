"""Three ways to read the device time of a call. A comparison uses one of them for every contender.

Owns what one run does and how its time is read. Must not know of rounds, blocks or who is compared.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
import triton
import triton.language as tl
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.torch_version import TorchVersion

from warpsmith.contracts.case import Mode
from warpsmith.measure.timing.capture import Captured
from warpsmith.measure.timing.rotation import Flush, Rotation
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.implementation import Implementation

#: Events resolve some tens of nanoseconds on an H200, half a microsecond elsewhere (cudaEventElapsedTime, CUDA runtime
#: API); less cannot be told from nothing.
LEAST_MS = 0.0005
#: The profiler keeps what falls between its start and its end by the host's clock, to which it converts the device's.
PROFILER_MARGIN_S = 0.002
#: Chosen: a profile now and then comes back without a kernel in it.
PROFILER_ATTEMPTS = 3


class Runner(Protocol):
    """One contender, ready to be run on one round's inputs."""

    @property
    def calls(self) -> int:
        """How many calls a run makes."""

    def run_ms(self, count: int) -> list[float]:
        """Milliseconds of each of `count` runs. One that is not timed goes first, restoring and flushing between."""

    def work(self) -> None:
        """Keeps the device busy by a run or two that nobody times."""


class NoKernels(Exception):
    """The profiler does not show the kernels of every call."""


@dataclass
class GraphRunner:
    """Replays a graph of calls, timed by two events inside of it: the launch of the graph is not in its time."""

    captured: Captured
    rotation: Rotation
    flush: Flush | None

    @property
    def calls(self) -> int:
        return self.captured.calls

    def run_ms(self, count: int) -> list[float]:
        self.captured.refill()
        return [self._once() for _ in range(count + 1)][1:]

    def work(self) -> None:
        self.run_ms(1)

    def _once(self) -> float:
        if self.rotation.overwritten:
            self.rotation.restore()
            self.captured.refill()
        if self.flush is not None:
            self.flush()
        return self.captured.run_ms()


@dataclass
class _Eager:
    """Single calls, the sets in turn, each on a set that was restored and with L2 as it was asked for."""

    implementation: Implementation
    mode: Mode
    rotation: Rotation
    flush: Flush | None
    calls: int = field(default=1, init=False)

    def work(self) -> None:
        for call in self._calls(2):
            call()
        torch.cuda.synchronize()

    def _calls(self, count: int) -> Iterator[Callable[[], object]]:
        """So many calls, before each of which what it needs was done."""
        self.implementation.activate()
        sets, call = self.rotation.sets, None
        for _ in range(count):
            index = self.rotation.next_set()
            self.rotation.restore(index)
            if self.rotation.overwritten and self.mode is Mode.BACKWARD:  # what was saved for it is overwritten too
                call, index = prepared(self.implementation, self.mode, sets[index : index + 1]), 0
            elif call is None:
                call = prepared(self.implementation, self.mode, sets)
            if self.flush is not None:
                self.flush()
            yield partial(call, index)


class EventsRunner(_Eager):
    """Pairs of events around eager calls. Gaps between launches are in their time, hence the last resort."""

    def run_ms(self, count: int) -> list[float]:
        pairs = []
        for call in self._calls(count + 1):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            pairs.append((start, end))
        pairs[-1][1].synchronize()
        return [start.elapsed_time(end) for start, end in pairs[1:]]


class ProfilerRunner(_Eager):
    """The profiler's durations of what eager calls launch, added up; gaps between launches are not in their time."""

    def run_ms(self, count: int) -> list[float]:
        return [busy_ms(spans) for spans in self.run_spans(count)]

    def run_spans(self, count: int) -> list[list[Span]]:
        """What the device does in each of `count` calls, by its start; a call that does not count goes first.

        Raises NoKernels.
        """
        for _ in range(PROFILER_ATTEMPTS - 1):
            with contextlib.suppress(NoKernels):
                return self._profiled(count)
        return self._profiled(count)

    def _profiled(self, count: int) -> list[list[Span]]:
        device = self.rotation.sets[0].tensors[0].device
        mark = torch.empty(1, dtype=torch.int32, device=device)
        warpsmith_mark[(1,)](mark)  # compiled before the profiler looks
        torch.cuda.synchronize()
        with _profiling() as profiler:
            time.sleep(PROFILER_MARGIN_S)
            for call in self._calls(count + 1):
                warpsmith_mark[(1,)](mark)
                call()
                warpsmith_mark[(1,)](mark)
            torch.cuda.synchronize()
            time.sleep(PROFILER_MARGIN_S)
        return between_marks(_device_spans(profiler), count + 1)[1:]


@contextlib.contextmanager
def _profiling() -> Iterator[profile]:
    """Raises NoKernels where the profiler does not start."""
    if TorchVersion(torch.version.cuda or "0") >= "12.6":  # those before crash when CUPTI comes back
        # Else CUPTI stays attached, and each kernel of a graph that is replayed later takes 0.45 µs longer (H200).
        os.environ["TEARDOWN_CUPTI"] = "1"
    with contextlib.ExitStack() as stack:
        try:
            profiler = stack.enter_context(profile(activities=[ProfilerActivity.CUDA], acc_events=True))
        except (ImportError, RuntimeError, AssertionError) as error:
            raise NoKernels(f"the profiler does not start: {error}") from error
        yield profiler


@triton.jit
def warpsmith_mark(pointer):
    """Stands in the profile before and after each call that is timed."""
    tl.store(pointer, 0)


@dataclass(frozen=True)
class Span:
    """Something the device did, in microseconds of the profiler's clock."""

    name: str
    start_us: float
    end_us: float


def between_marks(spans: list[Span], calls: int) -> list[list[Span]]:
    """The spans between each pair of marks, by their start. Raises NoKernels where some call has none."""
    found: list[list[Span]] = []
    inside: list[Span] | None = None
    for span in sorted(spans, key=lambda each: each.start_us):
        if span.name != warpsmith_mark.__name__:
            if inside is not None:
                inside.append(span)
        elif inside is None:
            inside = []
        else:
            found.append(inside)
            inside = None
    if len(found) != calls or not all(map(busy_ms, found)):
        raise NoKernels(f"the profiler shows the kernels of {sum(map(bool, map(busy_ms, found)))} of {calls} calls")
    return found


def busy_ms(spans: list[Span]) -> float:
    """Milliseconds of spans that are sorted by their start, overlaps counted once and gaps not at all."""
    busy_us, until_us = 0.0, -math.inf
    for span in spans:
        busy_us += max(0.0, span.end_us - max(span.start_us, until_us))
        until_us = max(until_us, span.end_us)
    return busy_us / 1000


def _device_spans(profiler: Any) -> list[Span]:
    return [
        Span(event.name, event.time_range.start, event.time_range.end)
        for event in profiler.events()
        if event.device_type == DeviceType.CUDA
    ]
