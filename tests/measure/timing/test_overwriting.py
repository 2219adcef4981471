"""What a call overwrites is put back before every call, whichever way it is timed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from doubling import CASE, CPU, Halves, side, target_of
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2, TimingMethod, TimingPlan
from warpsmith.contracts.target import Inputs
from warpsmith.measure.timing.compare import time_contenders

GRAPH = TimingMethod.GRAPH
PLAN = TimingPlan(rounds=2, most_rounds=2)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("method", list(TimingMethod))
def test_what_a_call_overwrites_is_restored_before_each_run(cuda: Any, mode: Mode, method: TimingMethod) -> None:
    Halves.seen, Halves.gradients = [], []
    made: list[Tensor] = []

    def make_inputs(case: Any, device: Any, generator: torch.Generator) -> Inputs:
        x = torch.randn(300, generator=generator)
        made.append(x.clone())
        return {"x": x}

    timing = time_contenders(
        [side(name, lambda inputs: Halves.apply(inputs["x"])) for name in "ab"],
        target_of(make_inputs=make_inputs, overwrites=("x",)),
        CASE,
        mode,
        plan=PLAN,
        method=method,
        l2=L2.COLD,
        seed=0,
        device=CPU,
    )
    sets = 2 if mode is Mode.FORWARD else 1
    assert (timing.failures, timing.method, timing.input_sets, timing.l2_flushed) == ({}, method, sets, True)
    assert timing.calls_per_sample == (sets if method is GRAPH else 1)
    assert all(len(block.samples_ms) > 1 for block in timing.blocks)
    # What is NaN was captured and never replayed.
    ran = [(halved, seen) for halved, seen in Halves.seen if not seen.isnan().any()]
    assert len(ran) > len(made)
    assert all(any(torch.equal(seen, x / 2**halved) for x in made) for halved, seen in ran)
    gradients = {tuple(gradient.tolist()) for gradient in Halves.gradients if not gradient.isnan().any()}
    # A graph's own copies of the last placement's hold the fresh ones since, on which it was proven.
    placements = len({tuple(x.tolist()) for x in made}) - (method is GRAPH)
    assert len(gradients) == (0 if mode is Mode.FORWARD else placements)
