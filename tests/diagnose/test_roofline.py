"""Baselines against the measured ceilings."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.case import Cost, DType, Mode, Role
from warpsmith.contracts.measurement import Memory
from warpsmith.contracts.profile import Baseline
from warpsmith.contracts.verdict import Interval
from warpsmith.diagnose.roofline import (
    Doubt,
    MatmulCeiling,
    bandwidth_share,
    baselines,
    bound_of,
    doubt_of,
    is_compute_heavy,
    least_ms,
    matmul_ceiling,
    ridge_flops_per_byte,
    share_of_nearer,
)


def test_a_row_carries_time_bandwidth_and_the_share_of_the_ceiling(made: Any) -> None:
    case = made.case(4096, 4096)
    spec = made.spec(case)
    memory = Memory(case=case, mode=Mode.FORWARD, peak_bytes={"original": 33_554_432})

    rows = baselines(spec, [made.timing(case, Mode.FORWARD, {"original": 0.0165})], [memory], made.device())

    assert rows == (
        Baseline(
            case="4096x4096-bf16",
            role=Role.TUNING,
            mode=Mode.FORWARD,
            provider="original",
            time_ms=Interval(value=0.0165, low=0.0165, high=0.0165),
            peak_bytes=33_554_432,
            gb_s=67_108_864 / 16_500,
            ceiling_gb_s=4100.0,
            share_of_ceiling=67_108_864 / 16_500 / 4100.0,
            method="graph",
        ),
    )


def test_every_provider_has_a_row_and_one_that_is_not_there_says_why(made: Any) -> None:
    case = made.case(4096, 4096)
    spec = made.spec(case, providers=("torch", "slow", "unasked"), missing_providers={"liger": "not installed"})
    timing = made.timing(case, Mode.FORWARD, {"original": 1.0, "torch": 2.0}, failures={"slow": "timeout"})

    rows = baselines(spec, [timing], [], made.device())

    assert [(r.provider, r.time_ms.value if r.time_ms else None, r.unavailable) for r in rows] == [
        ("original", 1.0, None),
        ("torch", 2.0, None),
        ("slow", None, "timeout"),
        ("unasked", None, "not timed at this case"),
        ("liger", None, "not installed"),
    ]


def test_a_provider_timed_apart_is_found_and_the_original_counts_once(made: Any) -> None:
    case = made.case(4096, 4096)
    spec = made.spec(case, providers=("torch",))
    timings = [
        made.timing(case, Mode.FORWARD, {"original": 1.0}),
        made.timing(case, Mode.FORWARD, {"original": 1.5, "torch": 2.0}),
    ]

    rows = baselines(spec, timings, [], made.device())

    assert [(r.provider, r.time_ms.value) for r in rows if r.time_ms] == [("original", 1.0), ("torch", 2.0)]


def test_work_above_the_ridge_is_held_against_the_matmul_ceiling(made: Any) -> None:
    case = made.case(4096, 4096)
    heavy = Cost(bytes_moved=100_000_000, flops=790 * 10**9)
    spec = made.spec(case, costs={case.name: {Mode.FORWARD: heavy}})

    (row,) = baselines(spec, [made.timing(case, Mode.FORWARD, {"original": 2.0})], [], made.device())

    assert is_compute_heavy(heavy, DType.BFLOAT16, made.device())
    assert (row.ceiling_gb_s, row.share_of_ceiling) == (None, pytest.approx(0.5))


def test_without_measured_ceilings_there_is_no_share(made: Any) -> None:
    case = made.case(4096, 4096)
    device = made.device(copy_ceilings=(), matmul_tflops={})

    (row,) = baselines(made.spec(case), [made.timing(case, Mode.FORWARD, {"original": 1.0})], [], device)

    assert (row.ceiling_gb_s, row.share_of_ceiling) == (None, None)
    assert row.gb_s == pytest.approx(67.1, abs=0.1)


def test_work_without_bytes_is_held_against_the_matmul_ceiling(made: Any) -> None:
    cost = Cost(bytes_moved=0, flops=790 * 10**9)

    assert bound_of(cost, DType.BFLOAT16, made.device()) == "matmul"
    assert least_ms(cost, DType.BFLOAT16, made.device()) == pytest.approx(1.0)
    assert bandwidth_share(cost, 1.0, made.device()) is None


def test_operations_of_a_dtype_without_a_ceiling_are_no_faster_than_those_of_the_fastest_with_one(made: Any) -> None:
    cost = Cost(bytes_moved=4_100_000, flops=790 * 10**9)

    assert least_ms(cost, DType.FLOAT16, made.device()) == pytest.approx(1.0)
    assert not is_compute_heavy(cost, DType.FLOAT16, made.device())


def of(operands: str | None, bytes_moved: int = 4_100_000) -> Cost:
    """790 GFLOP: 1 ms at the ceiling of bf16. Of bytes, 1 us by default."""
    return Cost(bytes_moved=bytes_moved, flops=790 * 10**9, operands=operands)


def test_operands_are_held_against_their_own_measured_ceiling(made: Any) -> None:
    device = made.device(name="a GPU of no sheet", operand_tflops={"int8": 1200.0, "float8_e4m3fn": 1400.0})

    ceilings = [matmul_ceiling(of(name), DType.BFLOAT16, device) for name in ("int8", "float8_e5m2", "bfloat16", None)]

    assert ceilings == [MatmulCeiling(tflops) for tflops in (1200.0, 1400.0, 790.0, 790.0)]
    assert share_of_nearer(of("int8"), 790 / 1200, DType.BFLOAT16, device) == pytest.approx(1.0)


def test_operands_at_one_rate_by_the_data_sheet_have_the_ceiling_of_the_fastest_product_and_say_so(made: Any) -> None:
    """torch's product of int8 is that of an older architecture and misses what the units do."""
    device = made.device(operand_tflops={"int8": 917.6, "float8_e4m3fn": 1489.2})

    of_int8, of_float8 = (matmul_ceiling(of(name), DType.BFLOAT16, device) for name in ("int8", "float8_e4m3fn"))

    as_float8 = "that of float8_e4m3fn, at the same rate as data sheets have it, while its own product reached 918"
    assert of_int8 == MatmulCeiling(1489.2, as_float8)
    assert of_float8 == MatmulCeiling(1489.2)


def test_a_ceiling_that_was_not_measured_is_scaled_by_the_data_sheet_and_says_so(made: Any) -> None:
    found = matmul_ceiling(of("int8"), DType.BFLOAT16, made.device())

    assert found == MatmulCeiling(1580.0, "2 times that of fp16, as data sheets have it; not measured")
    assert share_of_nearer(of("int8"), 1.0, DType.BFLOAT16, made.device()) == pytest.approx(0.5)


def test_where_no_ceiling_of_the_operands_is_known_there_is_no_share_unless_bytes_are_the_limit(made: Any) -> None:
    device, many = made.device(name="a GPU of no sheet"), 41 * 10**9

    assert matmul_ceiling(of("int8"), DType.BFLOAT16, device) is None
    assert doubt_of(of("int8"), 1.0, DType.BFLOAT16, device) is Doubt.NO_CEILING
    assert share_of_nearer(of("int8"), 1.0, DType.BFLOAT16, device) is None
    assert share_of_nearer(of("int8", many), 20.0, DType.BFLOAT16, device) == pytest.approx(0.5)
    # of the operations nothing is known, of the bytes all
    assert least_ms(of("int8"), DType.BFLOAT16, device) == pytest.approx(0.001)


@pytest.mark.parametrize(("time_ms", "share"), [(1 / 1.1, 1.1), (1 / 1.4, None)])
def test_arithmetic_far_above_the_matmul_ceiling_is_of_other_operands_and_no_share(
    made: Any, time_ms: float, share: float | None
) -> None:
    found = share_of_nearer(of(None), time_ms, DType.BFLOAT16, made.device())

    assert found == (None if share is None else pytest.approx(share))
    assert doubt_of(of(None), time_ms, DType.BFLOAT16, made.device()) is (Doubt.MISFIT if share is None else None)


def test_without_matrix_instructions_the_ridge_is_that_of_the_plain_units(made: Any) -> None:
    device = made.device(matmul_tflops={DType.BFLOAT16: 820.0, DType.FLOAT32: 41.0})
    cost = of(None)

    assert ridge_flops_per_byte(cost, DType.BFLOAT16, device) == pytest.approx(200.0)
    assert ridge_flops_per_byte(cost, DType.BFLOAT16, device, by_matrix_units=False) == pytest.approx(10.0)
