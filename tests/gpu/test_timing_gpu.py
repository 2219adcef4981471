from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import Timing, TimingMethod
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing.ceilings import FOOTPRINTS_BYTES, inspect_device
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.timing.host import measure_host_time
from warpsmith.measure.timing.memory import measure_memory
from warpsmith.measure.worker.implementation import Implementation

pytestmark = pytest.mark.gpu

LARGE = Case(axes={"M": 4096, "N": 4096}, dtype=DType.BFLOAT16)
SMALL = Case(axes={"M": 16, "N": 256}, dtype=DType.BFLOAT16)
MATRIX_BYTES = 4096 * 4096 * 2


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    shape = case.axes["M"], case.axes["N"]
    return {"x": torch.randn(shape, device=device, dtype=torch.bfloat16, generator=generator)}


TARGET = Target(
    name="silu",
    source="silu.py",
    module="silu",
    make_inputs=make_inputs,
    call=lambda module, inputs: None,
    reference=lambda inputs: torch.nn.functional.silu(inputs["x"]),
    cost=lambda case, mode: Cost(bytes_moved=1, flops=0),
    cases=(LARGE, SMALL),
    differentiable=("x",),
)


def silu(inputs: Inputs) -> Tensor:
    return torch.nn.functional.silu(inputs["x"])


def waits(inputs: Inputs) -> Tensor:
    y = silu(inputs)
    return y * (1.0 if y[0, 0].item() < float("inf") else 2.0)


def fails(inputs: Inputs) -> Tensor:
    raise ValueError("no such shape")


def side(name: str, call: Callable[[Inputs], Any]) -> Implementation:
    return Implementation(name, call, lambda: None, None)


def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def timed(*sides: Implementation, mode: Mode = Mode.FORWARD, case: Case = LARGE) -> Timing:
    return time_contenders(sides, TARGET, case, mode, rounds=10, block_ms=2.0, seed=0, device=device())


def ratio(timing: Timing) -> float:
    by_side = {
        name: median(median(block.samples_ms) for block in timing.blocks if block.contender == name) for name in "ab"
    }
    return by_side["a"] / by_side["b"]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_kernel_is_as_fast_as_itself_without_a_flush(mode: Mode) -> None:
    timing = timed(side("a", silu), side("b", silu), mode=mode)
    assert (timing.method, timing.method_reason, timing.failures) == (TimingMethod.GRAPH, None, {})
    assert timing.l2_flushed is False
    assert isinstance(timing.same_addresses, bool)
    assert ratio(timing) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_small_kernel_is_timed_cold_and_as_fast_as_itself(mode: Mode) -> None:
    timing = timed(side("a", silu), side("b", silu), mode=mode, case=SMALL)
    assert (timing.method, timing.l2_flushed, timing.failures) == (TimingMethod.GRAPH, True, {})
    assert ratio(timing) == pytest.approx(1.0, abs=0.03)


def test_more_work_takes_longer() -> None:
    more = timed(side("a", lambda inputs: (silu(inputs), silu(inputs))), side("b", silu))
    assert more.same_addresses is False
    assert ratio(more) > 1.2


def test_one_that_waits_for_the_device_has_all_timed_by_events_and_harms_no_later_comparison() -> None:
    timing = timed(side("a", silu), side("b", waits))
    assert timing.method is TimingMethod.EVENTS
    assert timing.method_reason is not None
    assert timing.method_reason.startswith("b cannot be captured into a CUDA graph")
    assert (timing.l2_flushed, timing.same_addresses, timing.failures) == (True, None, {})
    assert {block.contender for block in timing.blocks} == {"a", "b"}
    again = timed(side("a", silu), side("b", silu))
    assert (again.method, again.failures) == (TimingMethod.GRAPH, {})


def test_one_that_raises_is_told_and_the_rest_is_timed() -> None:
    timing = timed(side("fails", fails), side("a", silu), side("b", silu))
    assert timing.failures == {"fails": "ValueError: no such shape"}
    assert (timing.method, {block.contender for block in timing.blocks}) == (TimingMethod.GRAPH, {"a", "b"})


def test_peak_memory_is_what_a_call_allocates() -> None:
    memory = measure_memory(
        [side("fails", fails), side("a", silu)], TARGET, LARGE, Mode.FORWARD, seed=0, device=device()
    )
    assert (memory.peak_bytes, memory.failures) == ({"a": MATRIX_BYTES}, {"fails": "ValueError: no such shape"})


@pytest.mark.parametrize("mode", list(Mode))
def test_host_time_is_kept_call_by_call(mode: Mode) -> None:
    host_time = measure_host_time(
        [side("a", silu), side("b", silu)], TARGET, SMALL, mode, calls=64, seed=0, device=device()
    )
    assert {name: len(samples) for name, samples in host_time.samples_us.items()} == {"a": 64, "b": 64}
    assert all(sample > 0 for samples in host_time.samples_us.values() for sample in samples)


def test_ceilings_are_measured_at_every_footprint_and_dtype() -> None:
    facts = inspect_device(device())
    assert [ceiling.footprint_bytes for ceiling in facts.copy_ceilings] == list(FOOTPRINTS_BYTES)
    assert all(ceiling.gb_s > 100 for ceiling in facts.copy_ceilings)
    assert set(facts.matmul_tflops) == set(DType)
    assert facts.matmul_tflops[DType.BFLOAT16] > facts.matmul_tflops[DType.FLOAT32] > 1
