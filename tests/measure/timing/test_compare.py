from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import Timing, TimingMethod
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing import compare
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.worker.implementation import Implementation

CPU = torch.device("cpu")
#: 64 float32 elements are 256 bytes: eight sets of them pass twice the simulated L2 cache.
CASE = Case(axes={"N": 64}, dtype=DType.FLOAT32)
MISMATCH = "remembers: a graph replay gives another result 0 than the same call does"


def target_of(elements: int = 64) -> Target:
    return Target(
        name="k",
        source="k.py",
        module="k",
        make_inputs=lambda case, device, generator: {"x": torch.randn(elements, generator=generator)},
        call=lambda module, inputs: None,
        reference=lambda inputs: inputs["x"] * 2,
        cost=lambda case, mode: Cost(bytes_moved=1, flops=0),
        cases=(CASE,),
        differentiable=("x",),
    )


def side(name: str, call: Callable[[Inputs], Any], activate: Callable[[], None] = lambda: None) -> Implementation:
    return Implementation(name, call, activate, None)


def timed(
    *sides: Implementation,
    mode: Mode = Mode.FORWARD,
    elements: int = 64,
    rounds: int = 3,
    block_ms: float = 2.0,
    seed: int = 1,
) -> Timing:
    target = target_of(elements)
    return time_contenders(sides, target, CASE, mode, rounds=rounds, block_ms=block_ms, seed=seed, device=CPU)


def double(inputs: Inputs) -> Tensor:
    return inputs["x"] * 2


def double_in(operations: int) -> Callable[[Inputs], Tensor]:
    """Doubles, in so many operations."""

    def call(inputs: Inputs) -> Tensor:
        y = inputs["x"]
        for _ in range(operations - 1):
            y = y + 0
        return y * 2

    return call


def waits_in(cuda: Any) -> Callable[[Inputs], Tensor]:
    def waits(inputs: Inputs) -> Tensor:
        if cuda.capturing is not None:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return double(inputs)

    return waits


def remembers_in(known: dict[int, Tensor]) -> Callable[[Inputs], Tensor]:
    return lambda inputs: known.setdefault(inputs["x"].data_ptr(), double(inputs))


def samples_of(timing: Timing, name: str) -> list[float]:
    return [sample for block in timing.blocks if block.contender == name for sample in block.samples_ms]


def order_of(timing: Timing) -> list[str]:
    return [block.contender for block in timing.blocks]


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_is_timed_by_graphs_of_the_rotation(cuda: Any, mode: Mode) -> None:
    timing = timed(side("a", double), side("b", double), mode=mode)
    assert (timing.method, timing.method_reason, timing.failures) == (TimingMethod.GRAPH, None, {})
    assert (timing.input_sets, timing.l2_flushed) == (8, False)
    assert timing.calls_per_sample % 8 == 0
    assert sorted((block.round, block.contender) for block in timing.blocks) == [
        (number, name) for number in range(3) for name in "ab"
    ]
    assert samples_of(timing, "a") == pytest.approx(samples_of(timing, "b"))


def test_a_sample_is_a_replay_alone_by_its_calls(cuda: Any) -> None:
    timing = timed(side("fast", double), side("slow", double_in(3)))
    assert set(samples_of(timing, "fast")) == {0.01}
    assert set(samples_of(timing, "slow")) == {0.03}


def test_replays_fill_a_block_and_are_one_at_least(cuda: Any) -> None:
    timing = timed(side("fast", double), side("slow", double_in(5)))
    assert timing.calls_per_sample == 64  # so that a replay takes 0.64 ms and 3.2 ms, of blocks of 2 ms
    assert {(block.contender, len(block.samples_ms)) for block in timing.blocks} == {("fast", 3), ("slow", 1)}


@pytest.mark.parametrize(
    ("operations", "calls"),
    [
        ((1,), 64),  # 10 passes of 0.08 ms would do, but a graph takes no more than 64 calls
        ((5,), 16),  # 2 passes of 0.4 ms are four times the least replay
        ((40,), 8),  # one pass is enough
        ((40, 5), 16),  # the fastest decides
    ],
)
def test_a_graph_repeats_the_rotation_until_it_is_long_enough(cuda: Any, operations: Sequence[int], calls: int) -> None:
    timing = timed(*(side(f"in {count}", double_in(count)) for count in operations))
    assert (timing.input_sets, timing.calls_per_sample) == (8, calls)


def test_inputs_as_large_as_the_cache_twice_over_need_no_rotation(cuda: Any) -> None:
    timing = timed(side("a", double), elements=512)
    assert (timing.input_sets, timing.l2_flushed) == (1, False)
    assert "flush" not in cuda.log


def test_sets_too_small_to_turn_l2_over_are_flushed_before_each_replay_and_outside_its_events(cuda: Any) -> None:
    timing = timed(side("a", double), elements=2)
    assert (timing.input_sets, timing.calls_per_sample, timing.l2_flushed) == (64, 64, True)
    log = " ".join(cuda.log)
    assert log.count("flush event replay event") == log.count("event replay event") >= 9
    assert set(samples_of(timing, "a")) == {0.01}


def test_every_round_has_one_block_of_everyone_and_no_one_always_goes_first(cuda: Any) -> None:
    order = order_of(timed(*(side(name, double) for name in "ab"), rounds=40, block_ms=0.1))
    rounds = [order[at : at + 2] for at in range(0, 80, 2)]
    assert all(sorted(each) == ["a", "b"] for each in rounds)
    assert 10 < sum(each[0] == "a" for each in rounds) < 30


def test_order_depends_on_the_seed_and_not_on_who_was_named_first(cuda: Any) -> None:
    orders = [
        order_of(timed(*(side(name, double) for name in names), rounds=10, block_ms=0.1, seed=seed))
        for names, seed in (("abc", 5), ("cba", 5), ("abc", 6))
    ]
    assert orders[0] == orders[1] != orders[2]


def test_inputs_follow_from_the_seed_and_no_two_sets_are_alike(cuda: Any) -> None:
    def inputs_by(seed: int) -> set[float]:
        seen: set[float] = set()
        timed(side("a", lambda inputs: seen.add(float(inputs["x"][0].detach())) or double(inputs)), seed=seed)
        return seen

    first = inputs_by(1)
    assert (len(first), inputs_by(1)) == (8, first)
    assert not first & inputs_by(2)


def test_the_clock_is_kept_with_each_block(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        def __init__(self) -> None:
            self.left = [(1980, ()), (1500, ("software power cap",)), (None, ())]

        def read(self) -> tuple[int | None, tuple[str, ...]]:
            return self.left.pop(0)

    monkeypatch.setattr(compare, "ClockReader", Clock)
    blocks = timed(side("a", double)).blocks
    assert [(block.sm_clock_mhz, block.throttle_reasons) for block in blocks] == Clock().left


def test_one_that_cannot_be_captured_has_all_timed_by_events(cuda: Any) -> None:
    timing = timed(side("a", double), side("waits", waits_in(cuda)))
    assert timing.method is TimingMethod.EVENTS
    assert timing.method_reason == (
        "waits cannot be captured into a CUDA graph: RuntimeError: operation not permitted when stream is capturing"
    )
    assert (timing.calls_per_sample, timing.l2_flushed, timing.same_addresses) == (1, True, None)
    assert (timing.failures, {block.contender for block in timing.blocks}) == ({}, {"a", "waits"})


def test_an_eager_call_is_flushed_before_it_and_outside_its_events(cuda: Any) -> None:
    timing = timed(side("a", double), side("waits", waits_in(cuda)))
    samples = [*samples_of(timing, "a"), *samples_of(timing, "waits")]
    assert samples == pytest.approx([0.01] * len(samples))
    log = " ".join(cuda.log[cuda.log.index("flush") :])
    assert log.count("flush event event") == log.count("event event") >= len(samples)


def test_one_that_raises_is_told_in_one_line_and_the_rest_is_timed(cuda: Any) -> None:
    def fails(inputs: Inputs) -> Tensor:
        raise ValueError("no such shape\nmore")

    timing = timed(side("fails", fails), side("a", double))
    assert timing.failures == {"fails": "ValueError: no such shape"}
    assert (timing.method, set(order_of(timing))) == (TimingMethod.GRAPH, {"a"})


@pytest.mark.parametrize("at_capture", [False, True])
def test_a_broken_context_is_not_outlived(cuda: Any, at_capture: bool) -> None:
    def breaks(inputs: Inputs) -> Tensor:
        if not at_capture or cuda.capturing is not None:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return double(inputs)

    with pytest.raises(RuntimeError, match="illegal memory access"):
        timed(side("breaks", breaks), side("a", double))


def test_nothing_left_to_time_is_a_timing_without_blocks(cuda: Any) -> None:
    def fails(inputs: Inputs) -> Tensor:
        raise ValueError("no such shape")

    timing = timed(side("fails", fails))
    assert (timing.blocks, timing.failures) == ((), {"fails": "ValueError: no such shape"})


def test_a_graph_that_does_not_compute_is_not_timed(cuda: Any) -> None:
    timing = timed(side("remembers", remembers_in({})), side("a", double))
    assert timing.failures == {"remembers": MISMATCH}
    assert (timing.method, set(order_of(timing))) == (TimingMethod.GRAPH, {"a"})


def test_a_graph_that_does_not_compute_is_not_timed_by_events_either(cuda: Any) -> None:
    timing = timed(side("remembers", remembers_in({})), side("waits", waits_in(cuda)))
    assert timing.failures == {"remembers": MISMATCH}
    assert (timing.method, set(order_of(timing))) == (TimingMethod.EVENTS, {"waits"})


@pytest.mark.parametrize("captures", [True, False])
def test_a_contender_is_only_called_with_its_own_settings(cuda: Any, captures: bool) -> None:
    current: list[str] = []
    called: list[tuple[str, str]] = []

    def contender(name: str) -> Implementation:
        def call(inputs: Inputs) -> Tensor:
            called.append((name, current[-1]))
            return double(inputs) if captures else waits_in(cuda)(inputs)

        return side(name, call, lambda: current.append(name))

    timing = timed(contender("a"), contender("b"))
    assert timing.method is (TimingMethod.GRAPH if captures else TimingMethod.EVENTS)
    assert set(called) == {("a", "a"), ("b", "b")}


@pytest.mark.parametrize("shared", [True, False])
def test_addresses_are_the_same_only_if_every_output_lies_at_the_same_place(cuda: Any, shared: bool) -> None:
    def contender(name: str, memory: dict[int, Tensor]) -> Implementation:
        def call(inputs: Inputs) -> Tensor:
            x = inputs["x"].detach()
            return torch.mul(x, 2, out=memory.setdefault(x.data_ptr(), torch.empty_like(x)))

        return side(name, call)

    first: dict[int, Tensor] = {}
    second = first if shared else {}
    assert timed(contender("a", first), contender("b", second)).same_addresses is shared
