"""What is left to win at each case."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.contracts.case import Cost, Mode
from warpsmith.diagnose.headroom import headroom_us, headrooms
from warpsmith.diagnose.places import places
from warpsmith.diagnose.roofline import baselines

TRAFFIC = {"dram__bytes_read.sum": 100.0e6, "dram__bytes_write.sum": 50.0e6}


def test_a_case_has_its_time_its_least_time_and_the_bytes_that_were_counted(made: Any) -> None:
    case, other = made.case(8192, 4096, weight=2.0), made.case(8192, 8192)
    timings = [made.timing_at(case, Mode.FORWARD, 0.5), made.timing_at(other, Mode.FORWARD, 0.8)]
    evidence = made.evidence(
        made.spec(case, other), *timings, counters=(made.counters(case, made.throughput(20.0, 40.0, **TRAFFIC)),)
    )
    at = places(Mode.FORWARD, evidence, baselines(evidence.spec, timings, (), evidence.device))

    first, second = headrooms(at, evidence.device)

    least_ms = 134_217_728 / 4100e6
    assert first.model_dump() == {
        "case": "8192x4096-bf16",
        "weight": 2.0,
        "bound": "copy",
        "least_ms": least_ms,
        "least_bytes": 134_217_728,
        "flops": 134_217_728,
        "operands": None,
        "time_ms": pytest.approx(2 * least_ms),
        "share": pytest.approx(0.5),
        "headroom_us": pytest.approx(1e3 * least_ms),
        "counted_bytes": 150.0e6,
    }
    assert (second.case, second.counted_bytes) == ("8192x8192-bf16", None)
    assert headroom_us(at) == pytest.approx((2 * 1e3 * least_ms + 1e3 * 2 * least_ms * 0.25) / 3)


def test_work_above_the_ridge_is_bound_by_the_matmul_ceiling(made: Any) -> None:
    case = made.case(4096, 4096)
    spec = made.spec(case, costs={case.name: {Mode.FORWARD: Cost(bytes_moved=100_000_000, flops=790 * 10**9)}})
    timing = made.timing(case, Mode.FORWARD, {"original": 2.0})
    evidence = made.evidence(spec, timing)

    (found,) = headrooms(
        places(Mode.FORWARD, evidence, baselines(spec, [timing], (), evidence.device)), evidence.device
    )

    assert (found.bound, found.least_ms, found.headroom_us) == ("matmul", pytest.approx(1.0), pytest.approx(1000.0))


@given(share=st.floats(0.01, 1.5))
def test_headroom_is_never_negative_and_least_plus_headroom_is_the_time(made: Any, share: float) -> None:
    case = made.case(8192, 4096)
    timing = made.timing_at(case, Mode.FORWARD, share)
    evidence = made.evidence(made.spec(case), timing)
    at = places(Mode.FORWARD, evidence, baselines(evidence.spec, [timing], (), evidence.device))

    (found,) = headrooms(at, evidence.device)

    assert found.headroom_us is not None and found.time_ms is not None
    assert found.headroom_us >= 0
    assert 1e3 * found.least_ms + found.headroom_us == pytest.approx(1e3 * max(found.time_ms, found.least_ms))
