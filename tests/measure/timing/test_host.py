from __future__ import annotations

import dataclasses
import gc
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import HostTime
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing import host
from warpsmith.measure.timing.host import CALLS_PER_CHUNK, measure_host_time
from warpsmith.measure.worker.implementation import Implementation

CASE = Case(axes={"N": 4}, dtype=DType.FLOAT32)
TARGET = Target(
    name="k",
    source="k.py",
    module="k",
    make_inputs=lambda case, device, generator: {"x": torch.ones(4)},
    call=lambda module, inputs: None,
    reference=lambda inputs: inputs["x"] * 2,
    cost=lambda case, mode: Cost(bytes_moved=1, flops=0),
    cases=(CASE,),
    differentiable=("x",),
)


class Host:
    """A host whose clock moves only while a contender is called or waits for the device; keeps what happened."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.log: list[str] = []

    def side(self, name: str, call_ns: int) -> Implementation:
        def call(inputs: Inputs) -> Any:
            self.now_ns += call_ns
            self.log.append(name)
            return inputs["x"] * 2

        return Implementation(name, call, lambda: self.log.append(f"activate {name}"), None)

    def wait(self) -> None:
        self.now_ns += 1_000_000
        self.log.append("wait")

    def chunks(self) -> list[str]:
        """Who was called in each chunk after the warm-ups, each of which began with an idle device."""
        parts = " ".join(self.log).split(" wait ")[1:]
        return [part.split()[0] for part in parts]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host()
    monkeypatch.setattr(host, "time", SimpleNamespace(perf_counter_ns=lambda: found.now_ns))
    monkeypatch.setattr(torch.cuda, "synchronize", found.wait)
    return found


def measured(*sides: Implementation, calls: int = 64, seed: int = 0, mode: Mode = Mode.FORWARD) -> HostTime:
    return measure_host_time(sides, TARGET, CASE, mode, calls=calls, seed=seed, device=torch.device("cpu"))


def test_every_call_is_kept_in_microseconds_without_the_wait_before_it(simulated: Host) -> None:
    host_time = measured(simulated.side("a", 2000), simulated.side("b", 5500))
    samples = {"a": (2.0,) * 64, "b": (5.5,) * 64}
    assert host_time == HostTime(case=CASE, mode=Mode.FORWARD, samples_us=samples, calls_per_chunk=CALLS_PER_CHUNK)


def test_warm_up_calls_are_not_kept_and_a_whole_chunk_is_made_at_least(simulated: Host) -> None:
    samples = measured(simulated.side("a", 1000), calls=1).samples_us["a"]
    assert (len(samples), simulated.log.count("a")) == (CALLS_PER_CHUNK, 2 * CALLS_PER_CHUNK)


def test_a_chunk_is_one_contender_with_its_settings_from_an_idle_device(simulated: Host) -> None:
    measured(simulated.side("a", 1000), simulated.side("b", 1000), calls=16, seed=0)
    rounds = simulated.log[2 * (1 + CALLS_PER_CHUNK) :]
    by_name = {name: [f"activate {name}", "wait", *[name] * CALLS_PER_CHUNK] for name in "ab"}
    assert rounds in (by_name["a"] + by_name["b"], by_name["b"] + by_name["a"])


def test_chunks_are_interleaved_in_an_order_that_only_the_seed_decides(simulated: Host) -> None:
    orders: list[list[str]] = []
    for names, seed in (("ab", 1), ("ba", 1), ("ab", 2)):
        simulated.log.clear()
        measured(*(simulated.side(name, 1000) for name in names), calls=16 * 40, seed=seed)
        orders.append(simulated.chunks())
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(orders[0][at : at + 2]) == ["a", "b"] for at in range(0, 80, 2))
    assert 10 < orders[0][::2].count("a") < 30


def test_a_pass_backward_alone_calls_the_contender_no_more_than_once(simulated: Host) -> None:
    measured(simulated.side("a", 1000), mode=Mode.BACKWARD)
    assert simulated.log.count("a") == 1


def test_one_that_fails_is_told_and_the_rest_is_timed_with_no_garbage_collected(simulated: Host) -> None:
    collecting: list[bool] = []

    def fails_later(inputs: Inputs) -> Any:
        collecting.append(gc.isenabled())
        if not gc.isenabled():
            raise RuntimeError("no such shape")
        return inputs["x"]

    def fails(inputs: Inputs) -> Any:
        raise ValueError("never")

    sides = [Implementation(each.__name__, each, lambda: None, None) for each in (fails, fails_later)]
    host_time = measured(*sides, simulated.side("a", 1000))
    assert host_time == HostTime(
        case=CASE,
        mode=Mode.FORWARD,
        samples_us={"a": (1.0,) * 64},
        calls_per_chunk=CALLS_PER_CHUNK,
        failures={
            "fails": "runtime_failed: ValueError: never",
            "fails_later": "runtime_failed: RuntimeError: no such shape",
        },
    )
    assert (collecting[-1], gc.isenabled()) == (False, True)


def once_timed(error: str) -> Any:
    """A call that fails once its time counts: the collector is off by then."""

    def fails(inputs: Inputs) -> Any:
        if not gc.isenabled():
            raise RuntimeError(error)
        return inputs["x"] * 2

    return fails


def at_once(error: str) -> Any:
    def fails(inputs: Inputs) -> Any:
        raise RuntimeError(error)

    return fails


@pytest.mark.parametrize("failing", [at_once, once_timed])
def test_one_that_fails_is_told_with_its_status_and_the_rest_go_on(simulated: Host, failing: Any) -> None:
    sides = [Implementation("fails", failing("no such shape\nmore"), lambda: None, None), simulated.side("a", 2000)]
    assert measured(*sides) == HostTime(
        case=CASE,
        mode=Mode.FORWARD,
        samples_us={"a": (2.0,) * 64},
        calls_per_chunk=CALLS_PER_CHUNK,
        failures={"fails": "runtime_failed: RuntimeError: no such shape"},
    )


@pytest.mark.parametrize("failing", [at_once, once_timed])
def test_a_broken_context_is_not_outlived_and_garbage_is_collected_again(simulated: Host, failing: Any) -> None:
    broken = failing("CUDA error: an illegal memory access was encountered")
    with pytest.raises(RuntimeError, match="illegal memory access"):
        measured(Implementation("breaks", broken, lambda: None, None), simulated.side("a", 2000))
    assert gc.isenabled()


@pytest.mark.parametrize("mode", list(Mode))
def test_a_target_that_overwrites_its_inputs_is_timed_like_any_other(simulated: Host, mode: Mode) -> None:
    target = dataclasses.replace(TARGET, overwrites=("x",))
    found = measure_host_time(
        [simulated.side("a", 1000)], target, CASE, mode, calls=16, seed=0, device=torch.device("cpu")
    )
    assert (len(found.samples_us["a"]), found.failures) == (16, {})
