"""A stand-in for CUDA on the CPU: graphs that record and replay torch's operations, events and a profiler that time
them by count.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._C._autograd import DeviceType
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

sys.path.insert(0, str(Path(__file__).resolve().parent))

OPERATION_MS = 0.01
#: What it takes to launch a graph, before the first thing in it.
LAUNCH_MS = 0.005
MARK = "warpsmith_mark"
#: No kernel runs for it.
DETACH = torch.ops.aten.detach.default
#: Far more than a pool ever holds here.
POOL_BYTES = 1 << 24
#: What nothing but a flush of L2 does here (of bytes), and nothing but a restore.
COPY = torch.ops.aten.copy_.default


class SimulatedCuda(TorchDispatchMode):
    """Sees every operation. One that is captured takes no time and gives NaN; at replay it is repeated into the same
    tensors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0.0
        self.capturing: Graph | None = None
        self.pools: list[Pool] = []
        #: those that were not given back
        self.graphs: weakref.WeakSet[Graph] = weakref.WeakSet()
        #: where what was captured is said to lie, by where its memory really is
        self.places: dict[int, int] = {}
        self.l2_bytes = 1024
        #: read and written by the last flush
        self.flushed_bytes = 0
        #: flushes, restores, marks, events and replays (of forward passes alone: refills), in their order
        self.log: list[str] = []
        #: how many profiles come back empty before one does not
        self.empty_profiles = 0
        self._profile: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.capturing is not None and func is not DETACH:
            made = _made_by(result, args, kwargs)
            for new in made:
                new.fill_(float("nan") if new.is_floating_point() else 0)
                self._place(new)
            # By other names of the same memory: a graph keeps no tensor of the caller's alive.
            given = tree_map_only(Tensor, lambda tensor: tensor.data, (args, kwargs or {}))
            self.capturing.steps.append(partial(self._repeat, func, *given, [each.data for each in made]))
        elif func is not DETACH:
            flushes = func is COPY and args[0].dtype is torch.int8
            self.work("flush" if flushes else "restore" if func is COPY else None)
            self.flushed_bytes = 2 * args[0].numel() if flushes else self.flushed_bytes
        return result

    def work(self, told: str | None, name: str = "kernel") -> None:
        """One operation that is not captured."""
        start_ms, self.now_ms = self.now_ms, self.now_ms + OPERATION_MS
        self._profile.append(_seen("cudaLaunchKernel", DeviceType.CPU, start_ms, self.now_ms + OPERATION_MS / 2))
        self._profile.append(_seen(name, DeviceType.CUDA, start_ms, self.now_ms))
        self.log += [told] if told else []

    def _repeat(self, func: Any, args: Any, kwargs: Any, made: list[Tensor]) -> None:
        self.now_ms += OPERATION_MS
        again = func(*args, **kwargs)
        for old, new in zip(made, _made_by(again, args, kwargs), strict=True):
            old.copy_(new)

    def _place(self, new: Tensor) -> None:
        assert self.capturing is not None
        memory, pool = _memory(new), self.capturing.pool
        self.places[memory] = place = pool.take(new.untyped_storage().nbytes())

        def give_back() -> None:
            del self.places[memory], pool.taken[place]

        weakref.finalize(new, give_back)

    def new_pool(self) -> Pool:
        self.pools.append(Pool(POOL_BYTES * (1 + len(self.pools))))
        return self.pools[-1]

    @contextlib.contextmanager
    def graph(self, recording: Graph, pool: Pool, stream: Any) -> Iterator[None]:
        self.capturing, recording.pool = recording, pool
        try:
            yield
        finally:
            self.capturing = None

    @contextlib.contextmanager
    def profile(self, activities: Any, acc_events: bool) -> Iterator[Any]:
        """What the device did inside, amid what the host did."""
        self._profile = []
        yield SimpleNamespace(events=lambda: self._profile)
        self._profile = [] if self.empty_profiles else self._profile
        self.empty_profiles = max(0, self.empty_profiles - 1)


class Pool:
    """Hands out the lowest addresses that are free, no two pools the same."""

    def __init__(self, base: int) -> None:
        self.base = base
        #: how many bytes are in use, by address
        self.taken: dict[int, int] = {}

    def take(self, size_bytes: int) -> int:
        place = self.base
        for address in sorted(self.taken):
            if address >= place + size_bytes:
                break
            place = address + self.taken[address]
        self.taken[place] = max(1, size_bytes)
        assert place + size_bytes <= self.base + POOL_BYTES
        return place


class Graph:
    pool: Pool

    def __init__(self, cuda: SimulatedCuda) -> None:
        self.cuda = cuda
        cuda.graphs.add(self)
        self.steps: list[Callable[[], None]] = []

    def replay(self) -> None:
        self.cuda.now_ms += LAUNCH_MS
        timed = any(isinstance(getattr(step, "__self__", None), Event) for step in self.steps)
        self.cuda.log.append("replay" if timed else "refill")
        with _disable_current_modes():
            for step in self.steps:
                step()


class Event:
    def __init__(self, cuda: SimulatedCuda) -> None:
        self.cuda = cuda
        self.at_ms = 0.0

    def record(self) -> None:
        if self.cuda.capturing is None:
            self.happen()
        else:
            self.cuda.capturing.steps.append(self.happen)

    def happen(self) -> None:
        self.at_ms = self.cuda.now_ms
        self.cuda.log.append("event")

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: Event) -> float:
        return end.at_ms - self.at_ms


class Mark:
    """The kernel that stands in the profile around each call."""

    __name__ = MARK

    def __init__(self, cuda: SimulatedCuda) -> None:
        self.cuda = cuda

    def __getitem__(self, grid: Any) -> Callable[[Tensor], None]:
        return lambda pointer: self.cuda.work("mark", MARK)


def _seen(name: str, device: DeviceType, start_ms: float, end_ms: float) -> Any:
    times_us = SimpleNamespace(start=1000 * start_ms, end=1000 * end_ms)
    return SimpleNamespace(name=name, device_type=device, time_range=times_us)


def _made_by(result: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensors of the result that are no memory of what the operation was given."""
    given = {_memory(each) for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
    return [each for each in tree_leaves(result) if isinstance(each, Tensor) and _memory(each) not in given]


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCuda]:
    """No NVML, no host that waits, and pieces of bytes where there would be MiB."""
    simulated = SimulatedCuda()
    stream = SimpleNamespace(device=torch.device("cpu"))
    properties = SimpleNamespace(L2_cache_size=simulated.l2_bytes, uuid="none")
    for name, stand_in in {
        "Stream": lambda device: stream,
        "stream": lambda stream: contextlib.nullcontext(),
        "current_stream": lambda: stream,
        "current_device": lambda: 0,
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
        "graph_pool_handle": simulated.new_pool,
        "get_device_properties": lambda device: properties,
        "Event": lambda enable_timing, external=False: Event(simulated),
        "CUDAGraph": lambda: Graph(simulated),
        "graph": simulated.graph,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    data_ptr = Tensor.data_ptr
    monkeypatch.setattr(Tensor, "data_ptr", lambda each: simulated.places.get(_memory(each)) or data_ptr(each))
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", lambda device, pool: None, raising=False)
    monkeypatch.setattr("warpsmith.device.clocks._handle", lambda uuid: None)
    monkeypatch.setattr("warpsmith.measure.timing.blocks.SETTLE_MS", 0.1)
    monkeypatch.setattr("warpsmith.measure.timing.blocks.WAKE_MS", 0.1)
    clock = SimpleNamespace(monotonic=lambda: simulated.now_ms / 1000)
    monkeypatch.setattr("warpsmith.measure.timing.blocks.time", clock)
    monkeypatch.setattr("warpsmith.measure.timing.runners.PROFILER_MARGIN_S", 0)
    monkeypatch.setattr("warpsmith.measure.timing.contest.MIB", 1)
    monkeypatch.setattr("warpsmith.measure.timing.runners.profile", simulated.profile)
    monkeypatch.setattr("warpsmith.measure.timing.runners.warpsmith_mark", Mark(simulated))
    with simulated:
        yield simulated
