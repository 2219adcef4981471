"""A stand-in for CUDA on the CPU: graphs that record and replay torch's operations, events that time them by count."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

OPERATION_MS = 0.01
#: No kernel runs for it.
DETACH = torch.ops.aten.detach.default
#: What nothing but a flush of L2 does here.
ZERO = torch.ops.aten.zero_.default


class SimulatedCuda(TorchDispatchMode):
    """Sees every operation. One that is captured takes no time; it is repeated into the same tensors at replay."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0.0
        self.capturing: Graph | None = None
        self.l2_bytes = 1024
        #: flushes, events and replays, in their order
        self.log: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is DETACH:
            return result
        if func is ZERO:
            self.log.append("flush")
        if self.capturing is None:
            self.now_ms += OPERATION_MS
        else:
            self.capturing.recorded.append((func, args, kwargs or {}, result))
        return result


class Graph:
    def __init__(self, cuda: SimulatedCuda) -> None:
        self.cuda = cuda
        self.recorded: list[tuple[Any, Any, Any, Any]] = []

    def replay(self) -> None:
        self.cuda.now_ms += OPERATION_MS * len(self.recorded)
        self.cuda.log.append("replay")
        with _disable_current_modes():
            self._repeat()

    def _repeat(self) -> None:
        for func, args, kwargs, result in self.recorded:
            again = func(*args, **kwargs)
            inputs = {_memory(each) for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and _memory(old) not in inputs:
                    old.data.copy_(new)


class Event:
    def __init__(self, cuda: SimulatedCuda) -> None:
        self.cuda = cuda
        self.at_ms = 0.0

    def record(self) -> None:
        self.at_ms = self.cuda.now_ms
        self.cuda.log.append("event")

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: Event) -> float:
        return end.at_ms - self.at_ms


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCuda]:
    simulated = SimulatedCuda()

    @contextlib.contextmanager
    def graph(recording: Graph, pool: Any, stream: Any) -> Iterator[None]:
        simulated.capturing = recording
        try:
            yield
        finally:
            simulated.capturing = None

    properties = SimpleNamespace(L2_cache_size=simulated.l2_bytes, uuid="none")
    for name, stand_in in {
        "Stream": lambda device: object(),
        "stream": lambda stream: contextlib.nullcontext(),
        "current_device": lambda: 0,
        "synchronize": lambda: None,
        "graph_pool_handle": lambda: (0, 1),
        "get_device_properties": lambda device: properties,
        "Event": lambda enable_timing: Event(simulated),
        "CUDAGraph": lambda: Graph(simulated),
        "graph": graph,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", lambda device, pool: None, raising=False)
    with simulated:
        yield simulated
