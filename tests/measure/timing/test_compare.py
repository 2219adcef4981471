from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from doubling import (
    CASE,
    CPU,
    double,
    double_in,
    fails,
    remembers_in,
    side,
    target_of,
    waits_in,
)
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2, Block, Timing, TimingMethod, TimingPlan
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing import compare
from warpsmith.measure.timing.blocks import PILOT_ROUNDS, BlockRunner
from warpsmith.measure.timing.code import LoadedCode
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.timing.contest import WARM_UP_CALLS
from warpsmith.measure.timing.runners import GraphRunner
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure

GRAPH, PROFILER, EVENTS = TimingMethod
NOT_CAPTURED = (
    "waits cannot be captured into a CUDA graph: "
    "runtime_failed: RuntimeError: operation not permitted when stream is capturing"
)
NOT_PROFILED = "{} cannot be timed by the profiler: the profiler shows the kernels of 0 of 2 calls"
SHORT = TimingPlan(rounds=3, most_rounds=3)
WITH_PILOT = TimingPlan(rounds=3, most_rounds=4, cap_s=3600.0)


def timed(
    *sides: Implementation,
    mode: Mode = Mode.FORWARD,
    target: Target | None = None,
    plan: TimingPlan = SHORT,
    method: TimingMethod | None = None,
    l2: L2 = L2.COLD,
    seed: int = 1,
) -> Timing:
    made = target or target_of()
    return time_contenders(sides, made, CASE, mode, plan=plan, method=method, l2=l2, seed=seed, device=CPU)


def samples_of(timing: Timing, name: str) -> list[float]:
    return [sample for block in timing.blocks if block.contender == name for sample in block.samples_ms]


def names_of(found: Sequence[Block]) -> list[str]:
    return [block.contender for block in found]


def test_a_timing_says_how_it_was_made(cuda: Any) -> None:
    timing = timed(side("a", double))
    samples = (0.01,) * 6  # replays of 0.32 ms fill a block of 2 ms
    assert timing == Timing(
        case=CASE,
        mode=Mode.FORWARD,
        method=GRAPH,
        calls_per_sample=32,
        input_sets=8,
        same_addresses=True,
        blocks=tuple(Block(contender="a", round=number, samples_ms=samples) for number in range(3)),
        clock_unread="NVML is not here or does not answer",
    )


@pytest.mark.parametrize("method", list(TimingMethod))
@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_is_timed_by_every_method(cuda: Any, mode: Mode, method: TimingMethod) -> None:
    timing = timed(side("fast", double), side("slow", double_in(3)), mode=mode, method=method)
    assert (timing.mode, timing.method, timing.method_reason, timing.failures) == (mode, method, None, {})
    assert timing.input_sets == (8 if mode is Mode.FORWARD else 4)
    assert (timing.l2, timing.l2_flushed) == (L2.COLD, method is not GRAPH)
    assert (timing.same_addresses is None) == (method is not GRAPH)
    assert sorted((block.round, block.contender) for block in timing.blocks) == [
        (number, name) for number in range(3) for name in ("fast", "slow")
    ]
    fast = 0.02 if mode is Mode.FULL else 0.01
    assert set(samples_of(timing, "fast")) == {fast}
    assert min(samples_of(timing, "slow")) > fast or mode is Mode.BACKWARD


@pytest.mark.parametrize("method", list(TimingMethod))
def test_warm_is_one_set_and_no_flush(cuda: Any, method: TimingMethod) -> None:
    timing = timed(side("a", double), method=method, l2=L2.WARM)
    assert (timing.l2, timing.input_sets, timing.l2_flushed) == (L2.WARM, 1, False)
    assert "flush" not in cuda.log
    assert set(samples_of(timing, "a")) == {0.01}


@pytest.mark.parametrize("method", list(TimingMethod))
def test_sets_too_small_to_turn_l2_over_are_said_to_be_flushed(cuda: Any, method: TimingMethod) -> None:
    timing = timed(side("a", double), target=target_of(elements=2), method=method)
    sets = 64 if method is GRAPH else 1  # a single call is flushed before, whichever set it has
    assert (timing.input_sets, timing.calls_per_sample) == (sets, sets)
    assert (timing.l2_flushed, set(samples_of(timing, "a"))) == (True, {0.01})


def test_replays_fill_a_block_and_are_one_at_least(cuda: Any) -> None:
    timing = timed(side("fast", double), side("slow", double_in(7)))  # 0.32 ms and 2.24 ms of blocks of 2 ms
    assert {(block.contender, len(block.samples_ms)) for block in timing.blocks} == {("fast", 6), ("slow", 1)}


def test_one_that_cannot_be_captured_has_all_timed_by_the_profiler(cuda: Any) -> None:
    timing = timed(side("a", double), side("waits", waits_in(cuda)))
    assert (timing.method, timing.method_reason) == (PROFILER, NOT_CAPTURED)
    assert (timing.calls_per_sample, timing.l2_flushed, timing.same_addresses) == (1, True, None)
    assert (timing.failures, set(names_of(timing.blocks))) == ({}, {"a", "waits"})
    samples = [*samples_of(timing, "a"), *samples_of(timing, "waits")]
    assert samples == pytest.approx([0.01] * len(samples))


def test_where_the_profiler_sees_nothing_all_are_timed_by_events_and_both_reasons_told(cuda: Any) -> None:
    cuda.empty_profiles = 1000
    timing = timed(side("waits", waits_in(cuda)))
    assert (timing.method, timing.method_reason) == (EVENTS, f"{NOT_CAPTURED}; {NOT_PROFILED.format('waits')}")
    assert (timing.failures, set(samples_of(timing, "waits"))) == ({}, {0.01})


def test_a_method_that_was_asked_for_and_is_not_possible_is_refused(cuda: Any) -> None:
    cuda.empty_profiles = 1000
    for method, call, message in (
        (GRAPH, waits_in(cuda), NOT_CAPTURED),
        (PROFILER, double, NOT_PROFILED.format("waits")),
    ):
        with pytest.raises(WorkerError) as refused:
            timed(side("waits", call), method=method)
        assert refused.value.failure == WorkerFailure(status="runtime_failed", message=message)


def test_no_comparison_mixes_methods(cuda: Any) -> None:
    captures: list[int] = []

    def tires(inputs: Inputs) -> Tensor:
        """Can be captured for a round or two."""
        captures.append(cuda.capturing is not None)
        return waits_in(cuda)(inputs) if sum(captures) > 100 else double(inputs)

    timing = timed(side("waits", tires))
    assert (timing.method, timing.method_reason, timing.calls_per_sample) == (PROFILER, NOT_CAPTURED, 1)
    assert names_of(timing.blocks) == ["waits"] * 3


@pytest.mark.parametrize("method", list(TimingMethod))
def test_one_that_raises_is_told_with_its_status_and_the_rest_is_timed(cuda: Any, method: TimingMethod) -> None:
    timing = timed(side("fails", fails), side("a", double), method=method, plan=WITH_PILOT)
    assert timing.failures == {"fails": "runtime_failed: ValueError: no such shape"}
    assert (set(names_of(timing.blocks)), set(names_of(timing.pilot))) == ({"a"}, {"a"})


@pytest.mark.parametrize("method", [PROFILER, EVENTS])
def test_one_that_fails_in_a_later_round_keeps_no_block_of_an_earlier_one(cuda: Any, method: TimingMethod) -> None:
    sets: list[int] = []

    def make_inputs(case: Any, device: Any, generator: torch.Generator) -> Inputs:
        sets.append(1)
        return {"x": torch.randn(512, generator=generator)}

    last = 1 + 1 + PILOT_ROUNDS + 3  # warm-up and first runs, the pilot, the rounds that count

    def tires(inputs: Inputs) -> Tensor:
        return fails(inputs) if len(sets) == last else double(inputs)

    target = target_of(make_inputs=make_inputs)
    timing = timed(side("a", double), side("tires", tires), target=target, plan=WITH_PILOT, method=method)
    assert timing.failures == {"tires": "runtime_failed: ValueError: no such shape"}
    assert names_of(timing.blocks) == ["a"] * 3
    assert names_of(timing.pilot) == ["a"] * PILOT_ROUNDS


def test_one_that_fails_in_the_middle_of_a_block_has_the_others_begin_anew_without_it(cuda: Any) -> None:
    calls: list[int] = []

    def tires(inputs: Inputs) -> Tensor:
        calls.append(1)
        return fails(inputs) if len(calls) == 40 else double(inputs)

    timing = timed(side("a", double), side("tires", tires), plan=WITH_PILOT, method=EVENTS)
    assert timing.failures == {"tires": "runtime_failed: ValueError: no such shape"}
    assert (names_of(timing.blocks), names_of(timing.pilot)) == (["a"] * 3, ["a"] * PILOT_ROUNDS)


def test_one_that_fails_while_the_clock_settles_or_runs_are_counted_is_taken_out_and_the_rest_go_on(cuda: Any) -> None:
    for turn in range(WARM_UP_CALLS + 1, 40):
        calls: list[int] = []

        def tires(inputs: Inputs, turn: int = turn, calls: list[int] = calls) -> Tensor:
            calls.append(1)
            return fails(inputs) if len(calls) == turn else double(inputs)

        timing = timed(side("a", double), side("tires", tires), method=EVENTS)
        assert (timing.failures, timing.method) == ({"tires": "runtime_failed: ValueError: no such shape"}, EVENTS)
        assert names_of(timing.blocks) == ["a"] * 3
        assert len(calls) == turn


def test_addresses_of_an_attempt_that_was_given_up_do_not_count(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def two(inputs: Inputs) -> tuple[Tensor, Tensor]:
        return double(inputs), double(inputs)

    run_ms = GraphRunner.run_ms
    left = [3]

    def fails_late(runner: GraphRunner, count: int) -> list[float]:
        of_two = len(runner.captured.pointers) > runner.calls
        left[0] -= of_two
        return fails({}) if of_two and not left[0] else run_ms(runner, count)

    monkeypatch.setattr(GraphRunner, "run_ms", fails_late)
    timing = timed(side("a", double), side("b", double), side("two", two))
    assert timing.failures == {"two": "runtime_failed: ValueError: no such shape"}
    assert (timing.method, timing.same_addresses) == (GRAPH, True)


@pytest.mark.parametrize("calls", range(5, 25))
def test_a_profiler_that_goes_blind_while_the_clock_settles_or_runs_are_counted_has_all_timed_by_events(
    cuda: Any, calls: int
) -> None:
    left = [calls]

    def blinds(inputs: Inputs) -> Tensor:
        left[0] -= cuda.capturing is None
        cuda.empty_profiles = 1000 if left[0] <= 0 else 0
        return waits_in(cuda)(inputs)

    timing = timed(side("a", double), side("waits", blinds))
    assert (timing.method, timing.failures) == (EVENTS, {})
    assert timing.method_reason is not None
    assert timing.method_reason.startswith(f"{NOT_CAPTURED}; ")
    assert "cannot be timed by the profiler: the profiler shows the kernels of 0 of" in timing.method_reason
    assert sorted(names_of(timing.blocks)) == ["a"] * 3 + ["waits"] * 3


def test_no_graph_is_left_when_code_is_loaded_anew(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(LoadedCode, "reload", lambda code, draw: left.append(len(cuda.graphs)))
    run_ms, runs = GraphRunner.run_ms, [0]

    def fails_once(runner: GraphRunner, count: int) -> list[float]:
        runs[0] += 1
        return run_ms(runner, count) if runs[0] != 30 else fails({})

    monkeypatch.setattr(GraphRunner, "run_ms", fails_once)
    timing = timed(side("a", double), side("b", double), plan=WITH_PILOT)
    assert (timing.method, len(timing.failures), len(timing.blocks)) == (GRAPH, 1, 3)
    assert len(left) > 1 + PILOT_ROUNDS + 3
    assert set(left) == {0}


def test_nothing_left_to_time_is_a_timing_without_blocks(cuda: Any) -> None:
    timing = timed(side("fails", fails))
    assert (timing.blocks, timing.failures) == ((), {"fails": "runtime_failed: ValueError: no such shape"})


@pytest.mark.parametrize("other", ["captured", "not captured"])
def test_a_graph_that_does_not_compute_is_not_timed_by_any_method(cuda: Any, other: str) -> None:
    call, method = (double, GRAPH) if other == "captured" else (waits_in(cuda), PROFILER)
    # Whoever is captured first settles whether the graph was looked at before another made it impossible.
    for seed in range(4):
        timing = timed(side("remembers", remembers_in({})), side("waits", call), seed=seed)
        assert timing.method is method
        if "remembers" in timing.failures:
            wrong = "wrong_result: remembers: a graph replay gives another result 0 than the same call does"
            assert timing.failures == {"remembers": wrong}
            assert set(names_of(timing.blocks)) == {"waits"}
            return
    pytest.fail("it was never looked at")


@pytest.mark.parametrize("when", ["at once", "at capture"])
def test_a_broken_context_is_not_outlived(cuda: Any, when: str) -> None:
    def breaks(inputs: Inputs) -> Tensor:
        if when == "at once" or cuda.capturing is not None:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return double(inputs)

    with pytest.raises(RuntimeError, match="illegal memory access"):
        timed(side("breaks", breaks), side("a", double))


@pytest.mark.parametrize("method", list(TimingMethod))
def test_a_contender_is_only_called_with_its_own_settings(cuda: Any, method: TimingMethod) -> None:
    current: list[str] = []
    called: list[tuple[str, str]] = []

    def contender(name: str) -> Implementation:
        def call(inputs: Inputs) -> Tensor:
            called.append((name, current[-1]))
            return double(inputs)

        return side(name, call, lambda: current.append(name))

    timed(contender("a"), contender("b"), method=method)
    assert set(called) == {("a", "a"), ("b", "b")}


@pytest.mark.parametrize("shared", [True, False])
def test_addresses_are_the_same_only_if_every_output_lies_at_the_same_place(cuda: Any, shared: bool) -> None:
    def contender(name: str, memory: dict[int, Tensor]) -> Implementation:
        def call(inputs: Inputs) -> Tensor:
            x = inputs["x"]
            return torch.mul(x, 2, out=memory.setdefault(x.data_ptr(), torch.empty_like(x)))

        return side(name, call)

    first: dict[int, Tensor] = {}
    second = first if shared else {}
    assert timed(contender("a", first), contender("b", second)).same_addresses is shared


def test_a_pilot_is_kept_apart_and_has_placements_of_its_own(cuda: Any) -> None:
    seen: set[float] = set()
    noted = side("a", lambda inputs: seen.add(float(inputs["x"].detach()[0])) or double(inputs))
    timing = timed(noted, side("b", double), plan=WITH_PILOT)
    assert [sorted(names_of(found)) for found in (timing.pilot, timing.blocks)] == [
        ["a"] * PILOT_ROUNDS + ["b"] * PILOT_ROUNDS,
        ["a"] * 3 + ["b"] * 3,
    ]
    assert len(seen) == 8 * (1 + PILOT_ROUNDS + 3 + 1)  # the last: fresh values, on which graphs are proven


def test_a_timing_that_the_cap_cut_short_says_so(cuda: Any) -> None:
    timing = timed(side("a", double), plan=TimingPlan(rounds=8, most_rounds=9, cap_s=1e-3))
    assert (timing.capped, names_of(timing.blocks)) == (True, ["a"])


def test_the_clock_is_kept_with_each_block(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        absent = None

        def __init__(self) -> None:
            self.left = [(1980, ()), (1980, ()), (1980, ()), (1500, ("software power cap",)), (None, ())]

        def read(self) -> tuple[int | None, tuple[str, ...]]:
            return self.left.pop(0)

    monkeypatch.setattr(compare, "ClockReader", Clock)
    timing = timed(side("a", double))
    assert [(block.sm_clock_mhz, block.throttle_reasons) for block in timing.blocks] == Clock().left[2:]
    assert timing.clock_unread is None


@pytest.mark.parametrize("method", list(TimingMethod))
def test_order_and_inputs_follow_from_the_seed(cuda: Any, method: TimingMethod) -> None:
    def made_by(seed: int) -> tuple[list[str], list[float]]:
        seen: list[float] = []
        noted = side("a", lambda inputs: seen.append(float(inputs["x"].detach()[0])) or double(inputs))
        plan = TimingPlan(rounds=8, most_rounds=8)
        return names_of(timed(noted, side("b", double), plan=plan, method=method, seed=seed).blocks), seen

    order, values = made_by(1)
    other_order, other_values = made_by(2)
    assert made_by(1) == (order, values)
    assert order != other_order
    assert not set(values) & set(other_values)


@pytest.mark.parametrize("method", list(TimingMethod))
def test_one_placements_inputs_are_given_back_before_the_next_are_made(cuda: Any, method: TimingMethod) -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most: list[int] = []

    def make_inputs(case: Any, device: Any, generator: torch.Generator) -> Inputs:
        x = torch.randn(64, generator=generator)
        alive.add(Alive(x))
        most.append(len(alive))
        return {"x": x}

    class Alive:
        """As long as the tensor is: tensors are equal by their values, which no set can use."""

        def __init__(self, tensor: Tensor) -> None:
            tensor.kept_alive = self  # type: ignore[attr-defined]

    timed(side("a", double), side("b", double), target=target_of(make_inputs=make_inputs), method=method)
    proven = method is GRAPH  # on fresh values, made one set at a time
    assert len(most) == 8 * (1 + 3 + proven)
    assert max(most) == 8 + proven


@pytest.mark.parametrize(
    ("paths", "judged"),
    [
        ({"baseline": None, "a": "a.py", "b": "b.py"}, ["a", "b"]),
        ({"a": "a.py", "baseline": None, "other": None}, ["a", "baseline"]),
        ({"a": None, "b": None, "c": None}, ["a", "b"]),
    ],
)
def test_sources_settle_the_number_of_rounds_and_not_baselines_unless_there_is_nothing_else(
    cuda: Any, monkeypatch: pytest.MonkeyPatch, paths: dict[str, str | None], judged: list[str]
) -> None:
    found: list[Sequence[str]] = []

    def runner(by: Any, plan: Any, seed: int, clock: Any, judged: Sequence[str]) -> BlockRunner:
        found.append(judged)
        return BlockRunner(by, plan, seed, clock, judged)

    monkeypatch.setattr(compare, "BlockRunner", runner)
    timed(*(side(name, double, source_path=path) for name, path in paths.items()))
    assert found == [judged]
