from __future__ import annotations

from typing import Any

import pytest
import torch

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.timing.host import measure_host_time
from warpsmith.measure.timing.memory import measure_memory
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure

CASE = Case(axes={"N": 4}, dtype=DType.FLOAT32)


def make_inputs(case: Case, device: Any, generator: Any) -> Inputs:
    raise AssertionError("a target that is refused makes no inputs")


TARGET = Target(
    name="loss",
    source="k.py",
    module="k",
    make_inputs=make_inputs,
    call=lambda module, inputs: None,
    reference=lambda inputs: inputs["x"],
    cost=lambda case, mode: Cost(bytes_moved=1, flops=0),
    cases=(CASE,),
    overwrites=("x", "weight"),
)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    ("measure", "extent"),
    [(time_contenders, {"rounds": 1, "block_ms": 1.0}), (measure_memory, {}), (measure_host_time, {"calls": 16})],
)
def test_a_target_that_overwrites_its_inputs_is_refused_up_front(measure: Any, extent: Any, mode: Mode) -> None:
    with pytest.raises(WorkerError) as refused:
        measure([], TARGET, CASE, mode, seed=0, device=torch.device("cpu"), **extent)
    assert refused.value.failure == WorkerFailure(
        status="bad_target",
        message="loss overwrites its inputs (x, weight); timing restores nothing between calls",
    )
