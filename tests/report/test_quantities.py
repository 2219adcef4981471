"""How figures are written."""

from __future__ import annotations

import pytest

from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.verdict import Interval
from warpsmith.report import quantities


@pytest.mark.parametrize(
    ("milliseconds", "written"),
    [
        (None, "–"),
        (0.0031, "3.10 µs"),
        (0.07312, "73.12 µs"),
        (0.17, "170.0 µs"),
        (1.2344, "1.234 ms"),
        (9999, "9999 ms"),
        (12345, "12.35 s"),
    ],
)
def test_a_time_is_in_the_unit_that_fits(milliseconds: float | None, written: str) -> None:
    assert quantities.time(milliseconds) == written


def test_an_interval_is_in_the_unit_of_its_estimate() -> None:
    assert quantities.time_interval(Interval(value=0.9996, low=0.998, high=1.002)) == "999.6 µs [998.0, 1002.0]"


@pytest.mark.parametrize(
    ("size_bytes", "written"),
    [(None, "–"), (0, "0 B"), (512, "512 B"), (1536, "1.5 KiB"), (64 * 2**20, "64.0 MiB"), (141 * 2**30, "141.0 GiB")],
)
def test_a_size_is_in_the_largest_unit_that_fits(size_bytes: int | None, written: str) -> None:
    assert quantities.size(size_bytes) == written


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("8192x4096-bf16", "8192×4096 bf16"),
        ("4096x4096-bf16-layout=row_strided", "4096×4096 bf16 layout=row_strided"),
        ("64-fp32-axis=x", "64 fp32 axis=x"),
    ],
)
def test_a_case_is_labelled_for_people(name: str, label: str) -> None:
    assert quantities.case_label(name) == label


def test_text_stays_in_its_cell() -> None:
    assert quantities.cell("a | b\nc") == "a \\| b c"
    assert quantities.cell("") == "–"


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    assert quantities.fenced("x ```` y", "diff") == "`````diff\nx ```` y\n`````"


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        (Origin(kind=OriginKind.MEASURED), "measured"),
        (Origin(kind=OriginKind.MEASURED, gpu="NVIDIA H200", date="2026-11-29"), "measured on NVIDIA H200, 2026-11-29"),
        (Origin(kind=OriginKind.RECORDED, gpu="NVIDIA H200", date="2026-11-29"), "recorded on NVIDIA H200, 2026-11-29"),
        (Origin(kind=OriginKind.PREDICTED, gpu="NVIDIA H200"), "predicted for NVIDIA H200"),
    ],
)
def test_an_origin_names_gpu_and_date_where_they_are_known(origin: Origin, told: str) -> None:
    assert quantities.origin_told(origin) == told


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (134217728.0, "bytes", "128.0 MiB"),
        (0.08565, "ms", "85.65 µs"),
        (338.1, "us", "338.1 µs"),
        (3.0, "binaries", "3 binaries"),
    ],
)
def test_a_guardrails_figure_is_in_a_unit_that_fits_its_size(value: float, unit: str, written: str) -> None:
    assert quantities.measured(value, unit) == written


def test_a_range_names_its_unit_once_and_equal_ends_once() -> None:
    assert quantities.microseconds_range(20.14, 33.0) == "20.14 to 33.00 µs"
    assert quantities.microseconds_range(900, 1300) == "0.900 to 1.300 ms"
    assert quantities.microseconds_range(2.1, 2.1) == "2.10 µs"
    assert quantities.predicted_range(1.02, 1.021) == "1.02×"
    assert quantities.predicted_range(1.1, 1.4) == "1.10× to 1.40×"


def test_a_grid_drops_the_dimensions_that_are_one() -> None:
    assert [quantities.grid(sizes) for sizes in ((264, 1, 1), (64, 128), (1, 1), (1, 8, 1))] == [
        "264",
        "64×128",
        "1",
        "1×8",
    ]


def test_microseconds_are_written_as_any_time() -> None:
    assert [quantities.microseconds(value) for value in (None, 3.1, 1234.4)] == ["–", "3.10 µs", "1.234 ms"]
