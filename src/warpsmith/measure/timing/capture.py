"""Captures a contender's calls into a CUDA graph, so that what is timed is the device's work and nothing else.

Contenders are captured one after the other from one memory pool, each after the tensors of the one before were
dropped: what host code allocates then lands at equal addresses, and placement cannot favour a side.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.measure.correctness.replay import capturing
from warpsmith.measure.timing.rotation import Rotation
from warpsmith.measure.worker.calls import Call, prepared
from warpsmith.measure.worker.failures import WrongResult
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputSet

_T = TypeVar("_T")


@dataclass(frozen=True)
class Place:
    """Where a graph writes an output, without the tensor, which would keep others from being captured there."""

    pointer: int
    storage_pointer: int
    storage_bytes: int
    storage_offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, out: Tensor) -> Place:
        storage = out.untyped_storage()
        return cls(
            pointer=out.data_ptr(),
            storage_pointer=storage.data_ptr(),
            storage_bytes=storage.nbytes(),
            storage_offset=int(out.storage_offset()),
            shape=tuple(out.shape),
            strides=out.stride(),
            dtype=out.dtype,
            device=out.device,
        )

    @property
    def tensor(self) -> Tensor:
        """What lies there now, as torch._inductor.cudagraph_trees reads it. Only while the graph is alive."""
        made = torch.empty(0, dtype=self.dtype, device=self.device)
        if 0 in self.shape:
            return made.new_empty(self.shape)
        storage = torch._C._construct_storage_from_data_pointer(self.storage_pointer, self.device, self.storage_bytes)
        return made.set_(storage, self.storage_offset, self.shape, self.strides)


@dataclass(frozen=True)
class Captured:
    """A graph of calls between two events, on the sets in `order`.

    `places` has the outputs that no later call writes over, by the number of their call.

    `forward` fills the tensors that a pass backward reads. All contenders' lie in the same memory, so it is replayed
    whenever another contender ran in between.
    """

    graph: torch.cuda.CUDAGraph
    forward: torch.cuda.CUDAGraph | None
    start: torch.cuda.Event
    end: torch.cuda.Event
    order: tuple[int, ...]
    places: dict[int, tuple[Place, ...]]

    @property
    def calls(self) -> int:
        return len(self.order)

    @property
    def pointers(self) -> tuple[int, ...]:
        """The addresses of its outputs, call by call."""
        return tuple(place.pointer for places in self.places.values() for place in places)

    def refill(self) -> None:
        if self.forward is not None:
            self.forward.replay()

    def run_ms(self) -> float:
        """One replay, waited for: milliseconds from the first call's beginning to the last one's end."""
        self.graph.replay()
        self.end.synchronize()
        return float(self.start.elapsed_time(self.end))


@dataclass(frozen=True)
class GraphPool:
    """Memory that captures share, behind `spacers`. It lives as long as a graph that was recorded from it."""

    handle: Any
    stream: torch.cuda.Stream
    anchor: torch.cuda.CUDAGraph
    spacers: tuple[Tensor, ...]

    @classmethod
    def on(cls, stream: torch.cuda.Stream, spacer_bytes: Sequence[int]) -> GraphPool:
        """A new pool, whose first pieces are taken: what is captured then lies behind them."""
        handle = torch.cuda.graph_pool_handle()
        anchor, spacers = _record(
            lambda: tuple(torch.zeros(size, dtype=torch.int8, device=stream.device) for size in spacer_bytes),
            handle,
            stream,
        )
        return cls(handle, stream, anchor, spacers)

    def record(self, work: Callable[[], _T]) -> tuple[torch.cuda.CUDAGraph, _T]:
        """A graph of the work and what the work returned, whose tensors the graph writes."""
        return _record(work, self.handle, self.stream)


def capture(
    implementation: Implementation, mode: Mode, rotation: Rotation, *, repeats: int, pool: GraphPool, verify: bool
) -> Captured:
    """A graph of `repeats` calls a set. Raises what torch raises for a call that cannot be captured.

    No call writes where another did, unless L2 is to be warm: then memory is used again as a caller in a loop would.
    With `verify`, raises WrongResult where a replay does not give what the same call gives eagerly.
    """
    implementation.activate()
    start, end = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))
    order = rotation.order(repeats)

    def timed_calls(call: Call) -> dict[int, tuple[Tensor, ...]]:
        start.record()
        produced = {0: call(order[0])}
        for number, index in enumerate(order[1:], start=1):
            outputs = call(index)
            if not rotation.warm or number == len(order) - 1:
                produced[number] = outputs  # kept with what they saved for a pass backward
        end.record()
        return produced

    with torch.cuda.stream(pool.stream):
        forward, call = _ready(implementation, mode, rotation, pool)
        graph, produced = pool.record(lambda: timed_calls(call))
        places = {number: tuple(map(Place.of, outputs)) for number, outputs in produced.items()}
        captured = Captured(graph, forward, start, end, tuple(order), places)
        if verify:
            _verify(implementation.name, captured, rotation, call, [out.data for out in produced[0]])
    return captured


def _ready(
    implementation: Implementation, mode: Mode, rotation: Rotation, pool: GraphPool
) -> tuple[torch.cuda.CUDAGraph | None, Call]:
    """The timed part of the mode, and for a pass backward alone the graph of the forward passes that it starts from."""
    if mode is not Mode.BACKWARD:
        return None, prepared(implementation, mode, rotation.sets)
    return pool.record(lambda: prepared(implementation, mode, rotation.sets))


def _verify(name: str, captured: Captured, rotation: Rotation, call: Call, first: list[Tensor]) -> None:
    """Compares the first call's outputs (unseen by autograd, which would object to the poison) with an eager call's."""

    def refresh() -> None:
        rotation.restore()
        captured.refill()

    refresh()
    expected = [out.detach().clone() for out in call(0)]
    poison(first, rotation.sets[0])
    refresh()
    captured.graph.replay()
    torch.cuda.synchronize()
    for position, (found, wanted) in enumerate(zip(first, expected, strict=True)):
        if wanted.numel() and not close(found, wanted, varies=True):
            raise WrongResult(f"{name}: a graph replay gives another result {position} than the same call does")


def close(found: Tensor, wanted: Tensor, *, varies: bool) -> bool:
    """By the scale of what is expected. Where the same call `varies`, as sums by atomics do, by more than roundings.

    Where it does not, a sum may still be another: the libraries under torch choose by the workspace that they have,
    which is not the same in a graph.
    """
    half = found.dtype in (torch.float16, torch.bfloat16)
    tolerance = (1e-2 if half else 1e-4) if varies else (torch.finfo(found.dtype).eps if half else 1e-5)
    scale = float(wanted.float().nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.allclose(found.float(), wanted.float(), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def poison(outputs: list[Tensor], given: InputSet) -> None:
    """Overwrites what the replay has to write, but for outputs that are memory of an input, which it also reads."""
    inputs = {tensor.untyped_storage().data_ptr() for tensor in given.tensors}
    for out in outputs:
        if out.untyped_storage().data_ptr() not in inputs:
            out.fill_(float("nan") if out.is_floating_point() else 0)


def _record(work: Callable[[], _T], pool: Any, stream: torch.cuda.Stream) -> tuple[torch.cuda.CUDAGraph, _T]:
    graph = torch.cuda.CUDAGraph()
    with capturing(graph, pool, stream):
        result = work()
    return graph, result
