"""Two environments compare by everything but the GPU's UUID, package by package."""

from __future__ import annotations

from typing import Any

from warpsmith.contracts.device import Environment

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
