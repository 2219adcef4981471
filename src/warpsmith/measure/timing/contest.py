"""Makes contenders ready for a round: fresh inputs, code loaded anew, and the one method that all are timed by.

Owns warming up, placement, and which method is possible. Must not know of blocks or how many rounds there are.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

import gc
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from warpsmith.contracts.measurement import L2, TimingMethod
from warpsmith.measure.timing.capture import Captured, GraphPool, capture
from warpsmith.measure.timing.code import LoadedCode
from warpsmith.measure.timing.proof import Proof
from warpsmith.measure.timing.rotation import Flush, Rotation, RotationMaker
from warpsmith.measure.timing.runners import (
    LEAST_MS,
    EventsRunner,
    GraphRunner,
    NoKernels,
    ProfilerRunner,
    Runner,
)
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.failures import WrongResult, first_cause, told
from warpsmith.measure.worker.implementation import Implementation

WARM_UP_CALLS = 2
#: Chosen: one replay lasts this long at least, so that the events in it weigh under 1%.
LEAST_REPLAY_MS = 0.25
#: Chosen: a graph of more calls takes longer to capture than it saves.
MOST_CALLS = 256
MIB = 1 << 20
#: Chosen: contenders that were captured twice so often and still lie apart allocate differently.
VAIN_CAPTURES = 2
#: Chosen: how far a round's tensors may lie from where the round before had them.
MOST_SPACE_MIB = 64


class Impossible(Exception):
    """This method cannot time every contender; its message says which it cannot, and why."""


@dataclass
class Contest:
    """Contenders at one case and mode on the current stream. Those that fail move to `failures`, for good."""

    running: list[Implementation]
    rotations: RotationMaker
    seed: int
    failures: dict[str, str] = field(default_factory=dict)
    #: whether the outputs of every call lay at the same place for the sources that are compared, a placement
    equal_addresses: list[bool] = field(default_factory=list)
    last: Rotation | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        device = self.rotations.inputs.device
        self._random = random.Random(self.seed)
        self._code = LoadedCode()
        self._flush = Flush(device)
        self._repeats = 0
        self._vain_captures = 0
        self._spacers: list[Tensor] = []

    def warm_up(self) -> None:
        """Compiles and settles what first calls do."""
        rotation = self._rotation(0)
        for each in list(self.running):
            try:
                each.activate()
                with self._code.watching():
                    for _ in range(WARM_UP_CALLS):
                        rotation.restore()
                        prepared(each, self.rotations.mode, rotation.sets[:1])(0)
                torch.cuda.synchronize()
            except Exception as error:  # a contender's code may fail in any way
                self._fail(each, error)

    def close(self) -> None:
        """Leaves kernels as Triton had loaded them. No runner may be left."""
        self._code.restore()

    def runners(self, method: TimingMethod, number: int) -> Mapping[str, Runner]:
        """Everyone's runner in placement `number`, made anew. Raises Impossible."""
        rotation = self._rotation(number, single_calls=method is not TimingMethod.GRAPH)
        self._random.shuffle(self.running)
        self._code.reload(self._random)
        if method is TimingMethod.GRAPH:
            return self._graphs(rotation)
        return self._eager(method, rotation, tried=number > 0)

    def _rotation(self, number: int, *, single_calls: bool = False) -> Rotation:
        self.last = None
        self._spacers.clear()
        torch.cuda.empty_cache()  # else the allocator hands out the same memory again
        # Large tensors and those of less than 1 MiB come from different segments.
        large_sizes = [MIB * self._random.randrange(1, MOST_SPACE_MIB) for _ in range(2)]
        sizes = *large_sizes, 512 * self._random.randrange(1, 2048)
        device = self.rotations.inputs.device
        self._spacers += [torch.zeros(size, dtype=torch.int8, device=device) for size in sizes]
        self.last = self.rotations.make(self.seed + 1_000_003 * number, single_calls=single_calls)
        return self.last

    def prove(self, runners: Mapping[str, Runner]) -> None:
        """Replays the graphs of the last placement on fresh values. Contenders whose graph does not compute fail."""
        graphs = {name: each.captured for name, each in runners.items() if isinstance(each, GraphRunner)}
        if graphs and self.last is not None:
            for name, error in Proof(self.rotations, self.last, self.seed).of(graphs, self.running).items():
                self._fail(next(each for each in self.running if each.name == name), error)

    def fail(self, name: str, error: BaseException) -> None:
        """Takes a contender out. Raises Impossible where it was the profiler that failed, or what broke the context."""
        if isinstance(error, NoKernels):
            raise Impossible(f"{name} cannot be timed by the profiler: {error}") from None
        self._fail(next(each for each in self.running if each.name == name), error)

    def _fail(self, implementation: Implementation, error: BaseException) -> None:
        self.failures[implementation.name] = told(error)
        self.running.remove(implementation)

    def _graphs(self, rotation: Rotation) -> dict[str, Runner]:
        # A new one, so that outputs lie elsewhere each time. Those below 1 MiB, those below 10 MiB, which share a
        # segment, and those with a segment of their own are placed each by a spacer of their kind.
        small, medium, large = (self._random.randrange(1, most) for most in (2048, 5, 32))
        spacers = 512 * small, 2 * MIB * medium, 2 * MIB * (4 + large)
        pool = GraphPool.on(torch.cuda.current_stream(), spacers)
        if not self._repeats:
            self._repeats = self._repeats_for(self._captured(pool, rotation, 1, verify=True), rotation)
        captured = self._captured(pool, rotation, self._repeats, verify=False)
        equal = self._at_equal_addresses(captured)
        if not equal and self._vain_captures < VAIN_CAPTURES:
            # The first capture makes the pool grow, and so finds other memory than those after it.
            captured = self._captured(pool, rotation, self._repeats, verify=False)
            equal = self._at_equal_addresses(captured)
            self._vain_captures += not equal
        self.equal_addresses.append(equal)
        flush = self._flush if rotation.flushed else None
        return {name: GraphRunner(each, rotation, flush) for name, each in captured.items()}

    def _captured(self, pool: GraphPool, rotation: Rotation, repeats: int, *, verify: bool) -> dict[str, Captured]:
        found: dict[str, Captured] = {}
        for each in list(self.running):
            try:
                found[each.name] = capture(
                    each, self.rotations.mode, rotation, repeats=repeats, pool=pool, verify=verify
                )
            except WrongResult as error:
                self._fail(each, error)
            except Exception as error:  # many things cannot be captured, each with its own exception
                torch.cuda.synchronize()
                raise Impossible(f"{each.name} cannot be captured into a CUDA graph: {_cause(error)}") from None
        return found

    def _repeats_for(self, captured: Mapping[str, Captured], rotation: Rotation) -> int:
        """How many passes over the sets one graph makes, so that a replay of the fastest contender is long enough."""
        if not captured or rotation.overwritten or rotation.flushed:
            return 1
        times_ms: list[float] = []
        for name, each in captured.items():
            try:
                times_ms.append(min(GraphRunner(each, rotation, None).run_ms(3)))
            except Exception as error:  # a contender's code may fail in any way
                self.fail(name, error)
        fastest_ms = min(times_ms, default=LEAST_REPLAY_MS)
        needed = math.ceil(LEAST_REPLAY_MS / max(fastest_ms, LEAST_MS))
        return max(1, min(MOST_CALLS // len(rotation.sets), needed))

    def _eager(self, method: TimingMethod, rotation: Rotation, *, tried: bool) -> dict[str, Runner]:
        """`tried`: in an earlier placement the method could time them all. To profile takes longer than to run."""
        kind = ProfilerRunner if method is TimingMethod.PROFILER else EventsRunner
        # Single calls free their outputs at once, and the next one would find that memory in L2.
        flush = None if self.rotations.l2 is L2.WARM else self._flush
        runners: dict[str, Runner] = {}
        for each in list(self.running):
            runner = kind(each, self.rotations.mode, rotation, flush)
            try:
                runner.work() if tried else runner.run_ms(1)
            except Exception as error:  # a contender's code may fail in any way
                self.fail(each.name, error)
            else:
                runners[each.name] = runner
        return runners

    def _at_equal_addresses(self, captured: Mapping[str, Captured]) -> bool:
        """Whether the outputs of every call lie at the same place for all sources, or, with less than two, for all."""
        sources = {each.name for each in self.running if each.source_path is not None}
        compared = sources if len(sources) > 1 else captured.keys()
        return len({each.pointers for name, each in captured.items() if name in compared}) <= 1


def _cause(error: BaseException) -> str:
    """What spoilt the capture. Raises the error that broke the CUDA context, if one did."""
    cause = told(first_cause(error))
    told(error)
    gc.collect()  # a capture that failed leaves cycles that hold its memory
    return cause
