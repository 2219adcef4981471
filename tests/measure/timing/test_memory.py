from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import Memories, Memory
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing.memory import measure_memories
from warpsmith.measure.worker.implementation import Implementation

CASE = Case(axes={"N": 4}, dtype=DType.FLOAT32)
TARGET = Target(
    name="k",
    source="k.py",
    module="k",
    make_inputs=lambda case, device, generator: {"x": torch.ones(4)},
    call=lambda module, inputs: None,
    reference=lambda inputs: inputs["x"],
    cost=lambda case, mode: Cost(bytes_moved=1, flops=0),
    cases=(CASE,),
)


class Allocator:
    """What torch tells of its memory, where inputs and leftovers take `held` bytes."""

    def __init__(self) -> None:
        self.held = 100
        self.peak = 5000

    def takes(self, size: int) -> None:
        self.peak = max(self.peak, self.held + size)

    def reset(self) -> None:
        self.peak = self.held


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    simulated = Allocator()
    for name, stand_in in {
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
        "memory_allocated": lambda device: simulated.held,
        "reset_peak_memory_stats": lambda device: simulated.reset(),
        "max_memory_allocated": lambda device: simulated.peak,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return simulated


def side(name: str, call: Callable[[Inputs], Any], activate: Callable[[], None] = lambda: None) -> Implementation:
    return Implementation(name, call, activate, None)


def measured(*sides: Implementation) -> Memory:
    (memory,) = measure_memories(sides, TARGET, CASE, [Mode.FORWARD], seed=0, device=torch.device("cpu")).memories
    return memory


def taking(allocator: Allocator, *sizes: int) -> Callable[[Inputs], Any]:
    """A call that takes each of the sizes in turn."""
    left = list(sizes)

    def call(inputs: Inputs) -> Any:
        allocator.takes(left.pop(0))
        return inputs["x"]

    return call


def test_a_peak_is_that_of_a_later_call_above_what_was_held_before(allocator: Allocator) -> None:
    memory = measured(side("a", taking(allocator, 900, 64)), side("b", taking(allocator, 10, 48)))
    held = {"a": 0, "b": 0}
    assert memory == Memory(case=CASE, mode=Mode.FORWARD, peak_bytes={"a": 64, "b": 48}, held_bytes=held)


def test_what_a_call_holds_before_it_begins_is_all_that_was_allocated_since_the_call_before_it(
    allocator: Allocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_inputs(case: Case, device: object, generator: object) -> Inputs:
        allocator.held += 512
        return {"x": torch.ones(4)}

    monkeypatch.setattr(f"{__name__}.TARGET", replace(TARGET, make_inputs=make_inputs))
    memory = measured(side("a", taking(allocator, 900, 64)))
    assert (memory.held_bytes, memory.needed("a")) == ({"a": 512}, 576)


def test_one_that_fails_is_told_and_the_rest_is_weighed(allocator: Allocator) -> None:
    def fails(inputs: Inputs) -> Any:
        raise RuntimeError("no such shape")

    memory = measured(side("fails", fails), side("a", taking(allocator, 64, 64)))
    assert (memory.peak_bytes, memory.failures) == ({"a": 64}, {"fails": "runtime_failed: RuntimeError: no such shape"})


def test_settings_are_made_current_before_a_contender_is_called(allocator: Allocator) -> None:
    log: list[str] = []

    def logged(name: str) -> Implementation:
        return side(name, lambda inputs: log.append(name) or inputs["x"], lambda: log.append(f"activate {name}"))

    measured(logged("a"), logged("b"))
    assert log == ["activate a", "a", "a", "activate b", "b", "b"]


def test_every_mode_is_weighed_in_order(allocator: Allocator) -> None:
    target = replace(TARGET, reference=lambda inputs: inputs["x"] * 2, differentiable=("x",))

    def call(inputs: Inputs) -> Any:
        allocator.takes(64)
        return inputs["x"] * 2

    modes = (Mode.FULL, Mode.FORWARD)
    found = measure_memories([side("a", call)], target, CASE, modes, seed=0, device=torch.device("cpu"))
    weighed = [Memory(case=CASE, mode=mode, peak_bytes={"a": 64}, held_bytes={"a": 0}) for mode in modes]
    assert found == Memories(memories=tuple(weighed))


def test_one_that_overwrites_its_inputs_finds_fresh_ones_at_every_call(allocator: Allocator) -> None:
    def call(inputs: Inputs) -> Any:
        assert inputs["x"].eq(1).all()
        return inputs["x"].zero_()

    assert measured(side("a", call), side("b", call)).failures == {}


def test_what_broke_the_context_ends_the_whole_question(allocator: Allocator) -> None:
    def fails(inputs: Inputs) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        measured(side("fails", fails), side("a", taking(allocator, 64, 64)))


def test_a_failed_call_keeps_nothing_alive_while_the_next_is_weighed(allocator: Allocator) -> None:
    alive: list[weakref.ref[torch.Tensor]] = []

    def fails(inputs: Inputs) -> Any:
        large = torch.ones(1000)
        alive.append(weakref.ref(large))
        raise RuntimeError("no such shape")

    def call(inputs: Inputs) -> Any:
        assert alive[0]() is None
        return inputs["x"]

    assert set(measured(side("fails", fails), side("a", call)).failures) == {"fails"}
