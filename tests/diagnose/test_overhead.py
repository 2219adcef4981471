"""Host time a call beside device time: a quartile and a median, and which of the two a kernel waits for."""

from __future__ import annotations

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import Block, HostTime, Timing, TimingMethod
from warpsmith.contracts.profile import LaunchOverhead
from warpsmith.diagnose.overhead import launch_overheads

CASE = Case(axes={"M": 64, "N": 64}, dtype=DType.BFLOAT16)


def timing(mode: Mode, **ms: float) -> Timing:
    return Timing(
        case=CASE,
        mode=mode,
        method=TimingMethod.GRAPH,
        calls_per_sample=1,
        input_sets=1,
        same_addresses=True,
        blocks=tuple(Block(contender=name, round=0, samples_ms=(value,)) for name, value in ms.items()),
    )


def test_each_contender_has_the_lower_quartile_of_its_calls_beside_the_device_time_of_the_same_case_and_mode() -> None:
    host = HostTime(case=CASE, mode=Mode.FORWARD, samples_us={"original": (10.0, 90.0, 12.0), "torch": (8.0,)})
    timings = (timing(Mode.BACKWARD, original=0.5), timing(Mode.FORWARD, original=0.003, torch=0.009))

    assert launch_overheads([host], timings) == (
        LaunchOverhead(case=CASE.name, mode=Mode.FORWARD, provider="original", host_us=11.0, device_us=3.0),
        LaunchOverhead(case=CASE.name, mode=Mode.FORWARD, provider="torch", host_us=8.0, device_us=9.0),
    )


@pytest.mark.parametrize(("device_us", "bound"), [(11.9, True), (12.0, False), (None, False)])
def test_a_kernel_is_launch_bound_where_the_host_takes_longer(device_us: float | None, bound: bool) -> None:
    row = LaunchOverhead(case=CASE.name, mode=Mode.FORWARD, provider="original", host_us=12.0, device_us=device_us)
    assert row.is_launch_bound is bound
