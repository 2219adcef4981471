"""Names of kernels in short, and a row for each launch."""

from __future__ import annotations

import profile_fixtures as profiles
import pytest

from warpsmith.report.counter_view import COUNTER_COLUMNS, counter_lines, kernel_name

COPY = (
    "void at::vectorized_elementwise_kernel<8, at::bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float) "
    "(instance 1)], std::array<char *, 2>>(int, T2, T3)"
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("_rms_norm_backward_kernel", "_rms_norm_backward_kernel"),
        (profiles.FILL, "vectorized_elementwise_kernel, FillFunctor"),
        (profiles.REDUCE, "reduce_kernel, sum_functor"),
        (COPY, "vectorized_elementwise_kernel, bfloat16_copy_kernel_cuda"),
        ("void cutlass::Kernel<cutlass_80_tensorop>(Params)", "Kernel"),
        ("Memset (Device)", "Memset"),
        ("<unnamed>", "<unnamed>"),
    ],
)
def test_a_kernels_name_is_short_and_says_what_a_template_is_made_for(name: str, short: str) -> None:
    assert kernel_name(name) == short


def test_a_call_of_two_launches_has_two_rows() -> None:
    lines = counter_lines(profiles.profile())

    assert [(line.mode.value, line.kernel, line.grid) for line in lines] == [
        ("forward", "_rms_norm_forward_kernel", "8192"),
        ("backward", "_rms_norm_backward_kernel", "132"),
        ("backward", "reduce_kernel, sum_functor", "16"),
    ]


def test_a_counter_is_in_its_unit_and_a_missing_one_a_dash() -> None:
    (forward, *_) = counter_lines(profiles.profile())
    told = dict(zip((title for _, title, _ in COUNTER_COLUMNS), forward.cells, strict=True))

    assert (told["duration"], told["read"], told["DRAM"]) == ("34.56 µs", "63.9 MiB", "3328 GB/s")
    assert (told["SM of peak"], told["registers"], told["L2 hits"]) == ("36.1%", "40", "–")
