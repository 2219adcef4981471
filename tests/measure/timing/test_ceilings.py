from __future__ import annotations

from importlib import metadata

import pytest

from warpsmith.measure.timing.ceilings import KERNEL_PACKAGES, installed_versions


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert installed_versions(["pydantic", "no-such-distribution"]) == {"pydantic": metadata.version("pydantic")}


def test_the_packages_that_baselines_take_their_kernels_from_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: f"{name} 1")
    assert installed_versions(KERNEL_PACKAGES)["liger-kernel"] == "liger-kernel 1"
