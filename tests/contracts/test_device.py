"""Two environments compare by everything but the GPU's UUID, package by package; ceilings hold between footprints."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.device import CopyCeiling, DeviceFacts, Environment

NOW = Environment(
    gpu_name="H200",
    gpu_uuid="GPU-0",
    driver="590.2",
    cuda="13.0",
    torch="2.11",
    triton="3.6",
    ptxas=None,
    fp_fusion=True,
    harness="1",
    packages={"quack-kernels": "0.2", "liger-kernel": "0.8.5"},
)


def then(**changes: Any) -> dict[str, Any]:
    return {**NOW.model_dump(mode="json"), **changes}


def test_another_gpu_of_the_same_kind_is_the_same_environment() -> None:
    assert NOW.changes_since(then(gpu_uuid="GPU-9")) == ()
    assert NOW.is_that_of(then(gpu_uuid="GPU-9"))


def test_every_field_and_package_that_changed_is_told_with_both_versions() -> None:
    older = then(driver="580.1", ptxas="13.0", packages={"liger-kernel": "0.8.4", "flash-attn": "2.8"})
    assert NOW.changes_since(older) == (
        "driver 580.1, now 590.2",
        "ptxas 13.0, now none",
        "quack-kernels none, now 0.2",
        "liger-kernel 0.8.4, now 0.8.5",
        "flash-attn 2.8, now none",
    )
    assert not NOW.is_that_of(older)


def test_an_environment_from_before_packages_were_stored_is_as_one_without_any() -> None:
    older = {key: value for key, value in then().items() if key != "packages"}
    assert NOW.model_copy(update={"packages": {}}).is_that_of(older)
    assert not NOW.is_that_of(older)
    assert Environment.model_validate(older).packages == {}


def test_packages_are_told_in_a_line() -> None:
    assert NOW.packages_told == "liger-kernel 0.8.5, quack-kernels 0.2"


MIB = 1 << 20


def device(*ceilings: tuple[int, float]) -> DeviceFacts:
    return DeviceFacts(
        name="H200",
        uuid="GPU-0",
        capability=(9, 0),
        architecture="Hopper",
        sm_count=132,
        memory_bytes=141 << 30,
        l2_bytes=60 << 20,
        shared_memory_per_sm_bytes=228 << 10,
        shared_memory_per_block_bytes=227 << 10,
        registers_per_sm=65536,
        max_threads_per_sm=2048,
        max_sm_clock_mhz=1980,
        copy_ceilings=tuple(CopyCeiling(footprint_bytes=size, gb_s=gb_s, kernel="copy") for size, gb_s in ceilings),
        matmul_tflops={},
        environment=NOW,
        measured_at="2026-11-30T00:00:00+00:00",
    )


@pytest.mark.parametrize(
    ("footprint", "gb_s"),
    [
        (16 * MIB, 2000.0),
        (64 * MIB, 3000.0),
        (1024 * MIB, 4000.0),
        (32 * MIB, 2500.0),  # half way between 16 and 64, as the logarithm goes
        (256 * MIB, 3500.0),
        (1, 2000.0),
        (0, 2000.0),
        (1 << 40, 4000.0),
    ],
)
def test_a_copy_ceiling_is_interpolated_by_ratio_and_holds_beyond_the_ends(footprint: int, gb_s: float) -> None:
    facts = device((1024 * MIB, 4000.0), (16 * MIB, 2000.0), (64 * MIB, 3000.0))

    assert facts.copy_ceiling_gb_s(footprint) == pytest.approx(gb_s)


def test_one_copy_ceiling_holds_everywhere() -> None:
    facts = device((64 * MIB, 4200.0))

    assert {facts.copy_ceiling_gb_s(footprint) for footprint in (1, 64 * MIB, 1 << 40)} == {4200.0}


def test_a_ceiling_that_falls_as_footprints_leave_the_cache_is_followed() -> None:
    facts = device((16 * MIB, 6000.0), (64 * MIB, 4000.0))

    assert facts.copy_ceiling_gb_s(32 * MIB) == pytest.approx(5000.0)


def test_without_ceilings_there_is_none_to_ask_for() -> None:
    with pytest.raises(ValueError, match="H200 has no copy ceilings"):
        device().copy_ceiling_gb_s(MIB)
