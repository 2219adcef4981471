"""The doctor on a machine that has a GPU: what it reads of it, and which tools it finds usable."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpsmith.measure.counters.refusals import REFUSALS
from warpsmith.measure.counters.sanitizer import REFUSALS as SANITIZER_REFUSALS
from warpsmith.stages.doctor import Finding, examine

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    found = examine(Path(tmp_path_factory.mktemp("outside")))
    return {finding.name: finding for finding in found}


def test_the_gpu_and_the_driver_are_told(findings: dict[str, Finding]) -> None:
    gpu = next(finding for name, finding in findings.items() if name.startswith("gpu "))
    assert gpu.ok and torch.cuda.get_device_properties(0).name in gpu.found and "GiB" in gpu.found
    assert findings["driver"].ok and "supports CUDA up to" in findings["driver"].found
    assert any("MHz" in finding.found for name, finding in findings.items() if name.startswith("clocks "))


def test_what_measures_here_fits_together(findings: dict[str, Finding]) -> None:
    """These tests run, so that no pair may be called one with which nothing does."""
    fatal = ("gpu", "torch", "triton")
    assert [finding for name, finding in findings.items() if name.startswith(fatal) and not finding.ok] == []
    assert any(name.endswith(" trial") for name in findings)


def test_ncu_is_usable_or_refuses_for_a_known_reason(findings: dict[str, Finding]) -> None:
    assert_usable_or_known(findings["ncu"], [refusal.reason for refusal in REFUSALS])


def test_compute_sanitizer_is_usable_or_refuses_for_a_known_reason(findings: dict[str, Finding]) -> None:
    assert_usable_or_known(findings["compute-sanitizer"], [refusal.reason for refusal in SANITIZER_REFUSALS])


def assert_usable_or_known(finding: Finding, reasons: list[str]) -> None:
    if finding.ok:
        assert finding.found.endswith(": usable")
    else:
        assert finding.found == "not installed" or any(finding.found.endswith(reason) for reason in reasons)
        assert finding.consequence and finding.remedy
