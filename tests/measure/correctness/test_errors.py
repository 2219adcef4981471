from __future__ import annotations

import pytest
import torch

from warpsmith.contracts.measurement import OutputError
from warpsmith.measure.correctness.errors import Figures, allowed, compared, figures


def test_figures_are_those_of_the_absolute_error() -> None:
    reference = torch.zeros(4, dtype=torch.float64)

    found = figures(torch.tensor([0.0, -3.0, 0.0, 4.0]), reference)

    assert found == Figures(rms=2.5, p9999=4.0, max=4.0, worst=3)


def test_the_percentile_leaves_out_one_element_in_ten_thousand() -> None:
    errors = torch.arange(1.0, 50_001.0, dtype=torch.float64)[torch.randperm(50_000)]

    assert figures(errors, torch.zeros_like(errors)).p9999 == 49_996.0


@pytest.mark.parametrize(
    ("dtype", "floor"),
    [(torch.float32, 2 * 2.0**-23), (torch.bfloat16, 2.0**-9), (torch.float16, 2.0**-12), (torch.int32, 0.0)],
)
def test_the_floor_follows_the_dtype_and_the_scale_of_the_reference(dtype: torch.dtype, floor: float) -> None:
    nothing = Figures(rms=0.0, p9999=0.0, max=0.0, worst=0)

    error = compared("output", nothing, nothing, torch.full((9,), -3.0, dtype=torch.float64), dtype)

    assert (error.scale, error.floor) == (3.0, pytest.approx(3.0 * floor))


def make_error(elements: int) -> OutputError:
    return OutputError(
        output="output",
        rms=0.0,
        p9999=0.0,
        max=0.0,
        original_rms=1.0,
        original_p9999=10.0,
        original_max=100.0,
        scale=1.0,
        floor=0.25,
        elements=elements,
    )


def test_the_allowance_is_a_multiple_of_the_originals_own_error_and_a_floor() -> None:
    assert allowed(make_error(10_001)) == {"rms": 2.25, "p9999": 21.0, "max": 401.0}


def test_under_ten_thousand_elements_the_percentile_is_the_maximum_and_allowed_as_much() -> None:
    assert allowed(make_error(10_000)) == {"rms": 2.25, "p9999": 401.0, "max": 401.0}
