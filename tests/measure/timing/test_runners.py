from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from doubling import CPU, double, fails, rotations_of, side, target_of
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.contracts.target import Inputs
from warpsmith.measure.timing.capture import GraphPool, capture
from warpsmith.measure.timing.rotation import Flush, Rotation
from warpsmith.measure.timing.runners import (
    PROFILER_ATTEMPTS,
    EventsRunner,
    GraphRunner,
    NoKernels,
    ProfilerRunner,
    Runner,
    Span,
    between_marks,
    busy_ms,
)
from warpsmith.measure.worker.implementation import Implementation

EAGER = [EventsRunner, ProfilerRunner]


def mark(at_us: float) -> Span:
    return Span("warpsmith_mark", at_us, at_us + 1)


def kernel(start_us: float, end_us: float) -> Span:
    return Span("kernel", start_us, end_us)


def marked_ms(spans: list[Span], calls: int) -> list[float]:
    return [busy_ms(each) for each in between_marks(spans, calls)]


def test_kernels_between_marks_are_added_up_without_the_gaps_between_them() -> None:
    spans = [mark(0), kernel(1, 3), kernel(10, 15), mark(20), mark(30), kernel(31, 35), mark(40)]
    assert marked_ms(spans, 2) == [0.007, 0.004]


@pytest.mark.parametrize(
    ("spans", "busy_ms"),
    [
        ([kernel(1, 4), kernel(2, 6)], 0.005),
        ([kernel(1, 10), kernel(2, 3), kernel(9, 12)], 0.011),
        ([kernel(1, 4), kernel(1, 4)], 0.003),
    ],
)
def test_kernels_that_overlap_are_counted_once(spans: list[Span], busy_ms: float) -> None:
    assert marked_ms([mark(0), *spans, mark(20)], 1) == [busy_ms]


def test_an_overlap_does_not_reach_into_the_next_call() -> None:
    late = [mark(0), kernel(1, 9), mark(5), mark(6), kernel(7, 10), mark(12)]
    assert marked_ms(late, 2) == [0.008, 0.003]


def test_kernels_outside_of_marks_are_not_counted() -> None:
    first, second = [mark(2), kernel(3, 4), mark(5)], [mark(10), kernel(11, 13), mark(14)]
    assert marked_ms([kernel(0, 1), *first, kernel(6, 9), *second, kernel(15, 19)], 2) == [0.001, 0.002]


def test_spans_need_not_be_in_order() -> None:
    assert marked_ms([kernel(3, 4), mark(5), mark(2), kernel(6, 9)], 1) == [0.001]


@pytest.mark.parametrize(
    ("spans", "told"),
    [
        ([], "0 of 2"),
        ([kernel(1, 2)], "0 of 2"),
        ([mark(0), kernel(1, 2), mark(3)], "1 of 2"),
        ([mark(0), kernel(1, 2), mark(3), mark(4), kernel(5, 6)], "1 of 2"),
        ([mark(0), kernel(1, 2), mark(3), mark(4), mark(5)], "1 of 2"),
    ],
)
def test_calls_whose_kernels_are_missing_are_told(spans: list[Span], told: str) -> None:
    with pytest.raises(NoKernels, match=f"the profiler shows the kernels of {told} calls"):
        marked_ms(spans, 2)


def graph_runner(rotation: Rotation, mode: Mode, call: Callable[[Inputs], Tensor] = double) -> GraphRunner:
    pool = GraphPool.on(torch.cuda.current_stream(), (512, 2))
    captured = capture(side("a", call), mode, rotation, repeats=1, pool=pool, verify=False)
    return GraphRunner(captured, rotation, Flush(CPU) if rotation.flushed else None)


REPLAY = ["replay", "event", "event"]


def test_a_replay_is_timed_by_the_events_in_it_and_its_launch_is_not(cuda: Any) -> None:
    runner = graph_runner(rotations_of(target_of()).make(0), Mode.FORWARD)
    cuda.log.clear()
    assert (runner.run_ms(2), runner.calls) == (pytest.approx([0.08, 0.08]), 8)
    assert cuda.log == REPLAY * 3


@pytest.mark.parametrize(("mode", "refills"), [(Mode.FORWARD, []), (Mode.BACKWARD, ["refill"]), (Mode.FULL, [])])
def test_a_backward_block_starts_from_its_own_forward_passes(cuda: Any, mode: Mode, refills: list[str]) -> None:
    runner = graph_runner(rotations_of(target_of(), mode).make(0), mode)
    cuda.log.clear()
    runner.run_ms(1)
    assert cuda.log == refills + REPLAY * 2


def test_sets_too_small_to_turn_l2_over_are_flushed_before_each_replay(cuda: Any) -> None:
    runner = graph_runner(rotations_of(target_of(elements=2)).make(0), Mode.FORWARD)
    cuda.log.clear()
    assert runner.run_ms(2) == pytest.approx([0.64, 0.64])
    assert cuda.log == ["flush", *REPLAY] * 3


def test_what_is_overwritten_is_restored_then_the_forward_passes_made_anew_then_l2_flushed(cuda: Any) -> None:
    rotation = rotations_of(target_of(elements=2, overwrites=("x",)), Mode.BACKWARD).make(0)
    runner = graph_runner(rotation, Mode.BACKWARD)
    cuda.log.clear()
    runner.run_ms(1)
    restored = ["restore"] * len([*itertools.chain(*rotation.pristine)])
    assert len(restored) == 2 * 64  # the input and the gradient that is handed back, of each set
    assert cuda.log == ["refill", *[*restored, "refill", "flush", *REPLAY] * 2]


def test_the_first_replay_is_not_counted() -> None:
    left = [5.0, 1.0, 2.0]
    captured: Any = SimpleNamespace(refill=lambda: None, run_ms=lambda: left.pop(0))
    assert GraphRunner(captured, Rotation((), flushed=False), None).run_ms(2) == [1.0, 2.0]


def slow_at_first() -> Callable[[Inputs], Tensor]:
    calls: list[int] = []

    def call(inputs: Inputs) -> Tensor:
        calls.append(1)
        for _ in range(4 if len(calls) == 1 else 0):
            inputs["x"] + 0
        return double(inputs)

    return call


def eager_runner(kind: Any, implementation: Implementation, rotation: Rotation, mode: Mode = Mode.FORWARD) -> Runner:
    runner: Runner = kind(implementation, mode, rotation, Flush(CPU) if rotation.flushed else None)
    return runner


@pytest.mark.parametrize("kind", EAGER)
def test_the_first_eager_call_is_not_counted_and_the_others_are_timed_alone(cuda: Any, kind: Any) -> None:
    rotation = rotations_of(target_of()).make(0)
    runner = eager_runner(kind, side("a", slow_at_first()), rotation)
    assert (runner.run_ms(3), runner.calls) == (pytest.approx([0.01] * 3), 1)


@pytest.mark.parametrize(("kind", "around"), [(EventsRunner, "event"), (ProfilerRunner, "mark")])
@pytest.mark.parametrize(("elements", "flush"), [(2, ["flush"]), (64, [])])
def test_an_eager_call_is_flushed_where_it_must_be_and_outside_what_is_timed(
    cuda: Any, kind: Any, around: str, elements: int, flush: list[str]
) -> None:
    runner = eager_runner(kind, side("a", double), rotations_of(target_of(elements)).make(0))
    cuda.log.clear()
    assert runner.run_ms(2) == pytest.approx([0.01, 0.01])
    compiled = ["mark"] if around == "mark" else []
    assert cuda.log == compiled + [*flush, around, around] * 3


@pytest.mark.parametrize(("kind", "around"), [(EventsRunner, "event"), (ProfilerRunner, "mark")])
def test_what_is_overwritten_of_its_own_set_is_restored_before_each_eager_call_and_outside_what_is_timed(
    cuda: Any, kind: Any, around: str
) -> None:
    rotation = rotations_of(target_of(elements=200, overwrites=("x",))).make(0)
    runner = eager_runner(kind, side("a", double), rotation)
    cuda.log.clear()
    assert runner.run_ms(1) == pytest.approx([0.01])
    compiled = ["mark"] if around == "mark" else []
    assert cuda.log == compiled + ["restore", "flush", around, around] * 2


@pytest.mark.parametrize("kind", EAGER)
def test_eager_calls_take_the_sets_in_turn_from_run_to_run_with_the_contenders_own_settings(
    cuda: Any, kind: Any
) -> None:
    rotation = rotations_of(target_of(elements=200)).make(0)
    numbers = {each.inputs["x"].data_ptr(): str(index) for index, each in enumerate(rotation.sets)}
    log: list[str] = []

    def call(inputs: Inputs) -> Tensor:
        log.append(numbers[inputs["x"].data_ptr()])
        return double(inputs)

    for name in "ab":
        eager_runner(kind, side(name, call, lambda name=name: log.append(f"activate {name}")), rotation).run_ms(3)
    assert log == ["activate a", "0", "1", "2", "0", "activate b", "1", "2", "0", "1"]


@pytest.mark.parametrize("kind", EAGER)
@pytest.mark.parametrize(
    ("mode", "overwrites", "passes"),
    [
        (Mode.BACKWARD, (), 4),  # one a set, outside what is timed
        (Mode.BACKWARD, ("x",), 3),  # one of its own set before each call
        (Mode.FULL, ("x",), 3),
    ],
)
def test_a_forward_pass_is_made_anew_where_a_pass_backward_overwrites_it(
    cuda: Any, kind: Any, mode: Mode, overwrites: tuple[str, ...], passes: int
) -> None:
    made: list[int] = []

    def call(inputs: Inputs) -> Tensor:
        made.append(1)
        return double(inputs)

    rotation = rotations_of(target_of(overwrites=overwrites), mode).make(0)
    samples = eager_runner(kind, side("a", call), rotation, mode).run_ms(2)
    assert len(made) == passes
    assert samples == pytest.approx([0.02 if mode is Mode.FULL else 0.01] * 2)


def test_a_gpu_is_kept_busy_without_a_profile_which_takes_longer_than_what_runs_in_it(cuda: Any) -> None:
    calls: list[int] = []

    def call(inputs: Inputs) -> Tensor:
        calls.append(1)
        return double(inputs)

    runner = eager_runner(ProfilerRunner, side("a", call), rotations_of(target_of(200, overwrites=("x",))).make(0))
    cuda.log.clear()
    runner.work()
    assert (cuda.log, len(calls)) == (["restore", "flush"] * 2, 2)


def test_a_profile_without_kernels_is_made_again(cuda: Any) -> None:
    runner = eager_runner(ProfilerRunner, side("a", double), rotations_of(target_of()).make(0))
    cuda.empty_profiles = PROFILER_ATTEMPTS - 1
    assert runner.run_ms(2) == pytest.approx([0.01, 0.01])


def test_a_profiler_that_never_sees_a_kernel_is_told(cuda: Any) -> None:
    runner = eager_runner(ProfilerRunner, side("a", double), rotations_of(target_of()).make(0))
    cuda.empty_profiles = PROFILER_ATTEMPTS
    with pytest.raises(NoKernels, match="kernels of 0 of 3 calls"):
        runner.run_ms(2)
    assert cuda.empty_profiles == 0


@pytest.mark.parametrize("kind", EAGER)
def test_a_call_that_fails_is_no_time(cuda: Any, kind: Any) -> None:
    with pytest.raises(ValueError, match="no such shape"):
        eager_runner(kind, side("a", fails), rotations_of(target_of()).make(0)).run_ms(1)
