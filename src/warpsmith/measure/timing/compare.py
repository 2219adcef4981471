"""Times contenders against each other: interleaved blocks in random order, one method for all of them.

Graph replay where every contender can be captured, else pairs of events around a flushed call. The fall-back
holds for the whole comparison and is recorded with its reason.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Block, Timing, TimingMethod
from warpsmith.contracts.target import Target
from warpsmith.device.clocks import ClockReader
from warpsmith.measure.timing.capture import Captured, CaptureMismatch, capture, warm_up
from warpsmith.measure.worker.calls import Call, prepared
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import L2_TURNOVER, InputSet, make_sets, refuse_overwriting, turns_l2_over
from warpsmith.measure.worker.serve import is_sticky

#: Chosen: one replay lasts this long at least, so that the two events around it weigh under 1%.
LEAST_REPLAY_MS = 0.2
#: Chosen: an idle H200 takes some milliseconds of work to reach its clock.
SETTLE_MS = 10.0


@dataclass
class Runner:
    """What one timed run of a contender does, and how many calls that is."""

    run: Callable[[], None]
    calls: int
    prepare: Callable[[], None]


def time_contenders(
    implementations: Sequence[Implementation],
    target: Target,
    case: Case,
    mode: Mode,
    *,
    rounds: int,
    block_ms: float,
    seed: int,
    device: torch.device,
) -> Timing:
    """Samples in ms a call of every contender that runs; the others are in `failures`.

    Raises what a broken CUDA context raises: after that nothing in this process can be believed. Raises WorkerError
    (bad_target) for a target that overwrites its inputs.
    """
    refuse_overwriting(target)
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        sets = make_sets(target, case, mode, seed=seed, device=device)
    failures: dict[str, str] = {}
    calls: dict[str, Call] = {}
    for implementation in implementations:
        try:
            with torch.cuda.stream(stream):
                implementation.activate()
                calls[implementation.name] = prepared(implementation, mode, sets)
            warm_up(implementation, calls[implementation.name], stream)
        except Exception as error:  # a contender's code may fail in any way
            calls.pop(implementation.name, None)
            failures[implementation.name] = _told(error)
    running = [each for each in implementations if each.name in calls]
    flush = _flush_of(sets, device)
    runners, reason, same = _graphs(running, calls, sets, stream, flush, failures)
    method = TimingMethod.GRAPH
    if reason is not None:
        method = TimingMethod.EVENTS
        runners = _events(running, calls, len(sets), failures, _flush(device))
    blocks = _blocks(runners, rounds, block_ms, seed, stream) if runners else ()
    return Timing(
        case=case,
        mode=mode,
        method=method,
        method_reason=reason,
        calls_per_sample=max((r.calls for r in runners.values()), default=1),
        input_sets=len(sets),
        l2_flushed=reason is not None or flush is not None,
        same_addresses=same if reason is None else None,
        blocks=blocks,
        failures=failures,
    )


def _graphs(
    running: Sequence[Implementation],
    calls: dict[str, Call],
    sets: Sequence[InputSet],
    stream: torch.cuda.Stream,
    flush: Callable[[], None] | None,
    failures: dict[str, str],
) -> tuple[dict[str, Runner], str | None, bool]:
    """A graph a contender, or the reason why one of them cannot be captured; and whether addresses are equal."""
    pool = torch.cuda.graph_pool_handle()
    captured: dict[str, Captured] = {}
    repeats = _repeats(running, calls, sets, stream) if running and flush is None else 1
    for implementation in running:
        indices = list(range(len(sets))) * repeats
        try:
            captured[implementation.name] = capture(
                implementation, calls[implementation.name], indices, pool=pool, stream=stream
            )
        except CaptureMismatch as error:
            failures[implementation.name] = str(error)
        except Exception as error:  # many things cannot be captured, each with its own exception
            _raise_if_sticky(error)
            torch.cuda.synchronize()
            return {}, f"{implementation.name} cannot be captured into a CUDA graph: {_told(error)}", False
    runners = {name: Runner(each.run, each.calls, flush or _nothing) for name, each in captured.items()}
    return runners, None, len({each.pointers for each in captured.values()}) <= 1


def _repeats(
    running: Sequence[Implementation], calls: dict[str, Call], sets: Sequence[InputSet], stream: torch.cuda.Stream
) -> int:
    """How often the rotation is repeated inside a graph, so that the fastest contender's replay is long enough."""
    shortest_ms = float("inf")
    for implementation in running:
        implementation.activate()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(stream):
            start.record()
            for index in range(len(sets)):
                calls[implementation.name](index)
            end.record()
        end.synchronize()
        shortest_ms = min(shortest_ms, start.elapsed_time(end))
    # Eager calls are slower than a graph's, so this asks for too few rather than too many repeats; hence the 4.
    return max(1, min(64 // len(sets) or 1, round(4 * LEAST_REPLAY_MS / shortest_ms)))


def _events(
    running: Sequence[Implementation],
    calls: dict[str, Call],
    sets: int,
    failures: dict[str, str],
    flush: Callable[[], None],
) -> dict[str, Runner]:
    """Eager calls, each after L2 was flushed. Gaps between launches are in the samples, hence a fall-back."""
    return {
        each.name: Runner(_eager(each, calls[each.name], sets), 1, flush)
        for each in running
        if each.name not in failures
    }


def _flush_of(sets: Sequence[InputSet], device: torch.device) -> Callable[[], None] | None:
    """A flush before each replay where the rotation alone does not turn L2 over; every call then finds it cold."""
    return None if turns_l2_over(sets, device) else _flush(device)


def _flush(device: torch.device) -> Callable[[], None]:
    l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
    buffer = torch.empty(L2_TURNOVER * l2_bytes, dtype=torch.int8, device=device)

    def flush() -> None:
        buffer.zero_()

    return flush


def _eager(implementation: Implementation, call: Call, count: int) -> Callable[[], None]:
    turn = iter(range(1 << 62))

    def run() -> None:
        implementation.activate()
        call(next(turn) % count)

    return run


def _blocks(
    runners: dict[str, Runner], rounds: int, block_ms: float, seed: int, stream: torch.cuda.Stream
) -> tuple[Block, ...]:
    """`rounds` rounds, each with one block of every contender in random order."""
    clock = ClockReader()
    order = random.Random(seed)
    with torch.cuda.stream(stream):
        replays = {name: max(1, round(block_ms / _settled_ms(runner))) for name, runner in runners.items()}
        blocks: list[Block] = []
        for number in range(rounds):
            names = sorted(runners)
            order.shuffle(names)
            for name in names:
                samples = _samples(runners[name], replays[name])
                mhz, throttled = clock.read()
                blocks.append(
                    Block(
                        contender=name, round=number, samples_ms=samples, sm_clock_mhz=mhz, throttle_reasons=throttled
                    )
                )
    return tuple(blocks)


def _settled_ms(runner: Runner) -> float:
    """Milliseconds of one run, after enough work for the clock to settle."""
    spent_ms, latest_ms = 0.0, 0.0
    while spent_ms < SETTLE_MS:
        (latest_ms,) = (sample * runner.calls for sample in _samples(runner, 1))
        spent_ms += latest_ms
    return latest_ms


def _samples(runner: Runner, count: int) -> tuple[float, ...]:
    """`count` runs, each between its own events. One run that is not timed goes first and keeps the device awake."""
    runner.run()
    pairs = []
    for _ in range(count):
        runner.prepare()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        runner.run()
        end.record()
        pairs.append((start, end))
    pairs[-1][1].synchronize()
    return tuple(round(start.elapsed_time(end) / runner.calls, 7) for start, end in pairs)


def _nothing() -> None:
    """A graph that rotates its inputs needs no flush."""


def _told(error: Exception) -> str:
    """The error in one line. Its traceback is cleared: its frames keep GPU memory alive (triton-lang/triton#11174)."""
    _raise_if_sticky(error)
    error.__traceback__ = None
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0] if first else ''}"


def _raise_if_sticky(error: Exception) -> None:
    if is_sticky(error):
        raise error
