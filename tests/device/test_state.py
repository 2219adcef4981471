"""The driver and a GPU's state, as far as NVML tells."""

from __future__ import annotations

import sys

import pytest
from simulated_nvml import Card, Nvml

from warpsmith.device.state import Driver, GpuState, driver, state_of


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    fake = Nvml(cards=(Card(),))
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.mark.parametrize("version", ["580.159.03", b"580.159.03"])
def test_a_driver_has_a_version_and_the_highest_cuda_that_it_supports(nvml: Nvml, version: str | bytes) -> None:
    nvml.version, nvml.cuda = version, 12080

    assert driver() == Driver("580.159.03", (12, 8))


def test_a_state_is_what_nvml_tells_in_plain_units(nvml: Nvml) -> None:
    nvml.cards = (Card(reasons=0x1 | 0x4 | 0x40, limit_mw=650_000, persistence=0),)

    assert state_of("GPU-0") == GpuState(
        memory_bytes=141 << 30,
        used_bytes=1 << 30,
        sm_clock_mhz=345,
        max_sm_clock_mhz=1980,
        throttled_by=("software power cap", "hardware thermal slowdown"),
        persistence=False,
        power_limit_w=650.0,
        default_power_limit_w=700.0,
    )


def test_an_idle_clock_is_no_throttling(nvml: Nvml) -> None:
    assert state_of("GPU-0").throttled_by == ()


def test_what_the_driver_refuses_is_unknown_and_hides_nothing_else(nvml: Nvml) -> None:
    nvml.cards = (Card(memory=None, clock_mhz=None, reasons=None, persistence=None, limit_mw=None),)
    nvml.cuda = None

    assert state_of("GPU-0") == GpuState(max_sm_clock_mhz=1980, default_power_limit_w=700.0)
    assert driver() == Driver("580.159.03", None)


def test_a_package_that_lacks_a_function_is_as_a_driver_that_refuses(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Nvml, "nvmlDeviceGetPersistenceMode")

    assert state_of("GPU-0").persistence is None
    assert state_of("GPU-0").sm_clock_mhz == 345


def test_an_unknown_gpu_has_no_state(nvml: Nvml) -> None:
    assert state_of("GPU-9") == GpuState()


def test_without_nvml_nothing_is_known(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.missing = "Driver Not Loaded"
    assert (driver(), state_of("GPU-0")) == (Driver(), GpuState())

    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert (driver(), state_of("GPU-0")) == (Driver(), GpuState())
