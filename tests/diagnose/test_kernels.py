"""Where the time of a call goes, by kernel."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.contracts.case import Mode
from warpsmith.diagnose.kernels import (
    KernelTime,
    is_of,
    kernel_times,
    overhead_us,
    role,
    scaled,
    share_of_own,
    shares_by_kernel,
    source_of_times,
)
from warpsmith.diagnose.places import sites

FILL = (
    "void at::vectorized_elementwise_kernel<4, at::FillFunctor<float>, std::array<char *, 1>>(int, T2, T3)"  # recorded
)


@pytest.mark.parametrize(
    ("gpu_function", "name"),
    [
        (FILL, "fill"),
        ("Memset (Device)", "fill"),
        ("Memcpy DtoD (Device -> Device)", "copy"),
        ("void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::Tensor)>(int)", "copy"),
        ("void at::vectorized_elementwise_kernel<8, at::bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)>", "cast"),
        (
            "void at::reduce_kernel<128, 4, at::ReduceOp<float, at::func_wrapper_t<float, at::sum_functor<float>>>>",
            "sum",
        ),
        ("_rms_norm_backward_kernel", "_rms_norm_backward_kernel"),
        ("void cutlass::device::gemm<int>(Params)", "gemm"),
    ],
)
def test_a_kernel_of_torch_is_told_by_what_it_does(gpu_function: str, name: str) -> None:
    assert role(gpu_function) == name


def test_the_profilers_durations_come_before_ncus(made: Any) -> None:
    case = made.case(8192, 4096)
    counters = (made.counters(case, {"gpu__time_duration.sum": 5000.0}, mode=Mode.BACKWARD),)
    durations = (made.durations(case, Mode.BACKWARD, _backward_kernel=90.0, FILL=30.0),)

    (by_ncu,) = sites(Mode.BACKWARD, made.evidence(made.spec(case), counters=counters))
    (by_both,) = sites(Mode.BACKWARD, made.evidence(made.spec(case), counters=counters, durations=durations))
    (by_none,) = sites(Mode.BACKWARD, made.evidence(made.spec(case)))

    assert (kernel_times(by_ncu), source_of_times(by_ncu)) == (
        (KernelTime("_backward_kernel", 5.0),),
        "ncu 2025.3.1, 8192x4096-bf16",
    )
    assert kernel_times(by_both) == (KernelTime("_backward_kernel", 90.0), KernelTime("fill", 30.0))
    assert source_of_times(by_both) == "torch's profiler, 8192x4096-bf16"
    assert kernel_times(by_none) == ()


def test_a_launch_without_a_duration_leaves_the_whole_call_unknown(made: Any) -> None:
    case = made.case(8192, 4096)
    (site,) = sites(
        Mode.FORWARD,
        made.evidence(made.spec(case), counters=(made.counters(case, {"gpu__time_duration.sum": 1.0}, {"x": 1.0}),)),
    )

    assert kernel_times(site) == ()


def test_a_specialization_goes_by_its_jit_functions_name() -> None:
    assert is_of("_kernel", frozenset({"_kernel"})) and is_of("_kernel_0d1d2", frozenset({"_kernel"}))
    assert not is_of("_kernels", frozenset({"_kernel"}))


def test_a_share_of_the_own_work_leaves_fills_and_copies_out() -> None:
    times = (KernelTime("a", 30.0), KernelTime("b", 10.0), KernelTime("fill", 60.0))

    assert share_of_own(times, frozenset({"a"})) == pytest.approx(0.75)
    assert share_of_own(times, frozenset({"unknown"})) == 1.0
    assert share_of_own((), frozenset({"a"})) == 1.0
    assert overhead_us(times) == 60.0


TIMES = st.lists(
    st.builds(KernelTime, st.sampled_from(["a", "b", "fill", "copy"]), st.floats(0.1, 1e6)), min_size=1, max_size=6
)


@given(times=TIMES)
def test_shares_are_ordered_and_make_a_whole(times: list[KernelTime]) -> None:
    shares = shares_by_kernel(times)

    assert math.fsum(shares.values()) == pytest.approx(1.0)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert 0 < share_of_own(times, frozenset({"a"})) <= 1


@given(times=TIMES, by=st.floats(0.001, 1000))
def test_no_kernel_is_scaled_below_what_any_takes(times: list[KernelTime], by: float) -> None:
    for before, after in zip(times, scaled(times, by), strict=True):
        assert after.us >= min(before.us, 1.0)
        assert after.us == pytest.approx(before.us * by) or before.us * by < 1.0
