"""The driver, and the state that a GPU is in now, as NVML tells them. What it does not tell is None, never an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from warpsmith.device.clocks import THROTTLE_REASONS

Reading = TypeVar("Reading")


@dataclass(frozen=True)
class Driver:
    """Its version, and the highest CUDA that it supports."""

    version: str | None = None
    cuda: tuple[int, int] | None = None


@dataclass(frozen=True)
class GpuState:
    """Memory in bytes, clocks in MHz, power in W. `throttled_by` are the reasons for a lower clock, None unknown."""

    memory_bytes: int | None = None
    used_bytes: int | None = None
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    throttled_by: tuple[str, ...] | None = None
    persistence: bool | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None


def driver() -> Driver:
    pynvml = _nvml()
    if pynvml is None:
        return Driver()
    return Driver(
        version=_reading(pynvml, lambda: _text(pynvml.nvmlSystemGetDriverVersion())),
        cuda=_reading(pynvml, lambda: _cuda(int(pynvml.nvmlSystemGetCudaDriverVersion_v2()))),
    )


def state_of(uuid: str) -> GpuState:
    """The state of the GPU (or MIG instance, of which NVML tells less) with that UUID."""
    pynvml = _nvml()
    handle = None if pynvml is None else _reading(pynvml, lambda: pynvml.nvmlDeviceGetHandleByUUID(uuid))
    if pynvml is None or handle is None:
        return GpuState()

    def told(name: str, *arguments: Any) -> Any:
        return _reading(pynvml, lambda: getattr(pynvml, name)(handle, *arguments))

    memory, reasons = told("nvmlDeviceGetMemoryInfo"), told("nvmlDeviceGetCurrentClocksThrottleReasons")
    persistence = told("nvmlDeviceGetPersistenceMode")
    return GpuState(
        memory_bytes=None if memory is None else int(memory.total),
        used_bytes=None if memory is None else int(memory.used),
        sm_clock_mhz=told("nvmlDeviceGetClockInfo", _SM_CLOCK),
        max_sm_clock_mhz=told("nvmlDeviceGetMaxClockInfo", _SM_CLOCK),
        throttled_by=None if reasons is None else _throttled(int(reasons)),
        persistence=None if persistence is None else bool(persistence),
        power_limit_w=_watts(told("nvmlDeviceGetEnforcedPowerLimit")),
        default_power_limit_w=_watts(told("nvmlDeviceGetPowerManagementDefaultLimit")),
    )


#: NVML_CLOCK_SM (nvml.h).
_SM_CLOCK = 1


def _nvml() -> Any:
    """The module, with NVML at work; None where there is none."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _reading(pynvml: Any, read: Callable[[], Reading]) -> Reading | None:
    """An older package lacks functions, an older driver refuses them."""
    try:
        return read()
    except (pynvml.NVMLError, AttributeError):
        return None


def _throttled(bits: int) -> tuple[str, ...]:
    return tuple(name for bit, name in THROTTLE_REASONS.items() if bits & bit)


def _cuda(version: int) -> tuple[int, int]:
    """NVML gives 13000 for 13.0."""
    return version // 1000, version % 1000 // 10


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
