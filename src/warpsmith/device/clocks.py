"""SM clock and throttling as NVML reports them. Where NVML or a reading is missing, that is None and no error."""

from __future__ import annotations

import contextlib
import os
from typing import Any

#: nvmlClocksEventReason bits that mean the GPU ran slower than it could (nvml.h).
THROTTLE_REASONS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class ClockReader:
    """Reads one GPU's SM clock and throttle reasons. `uuid` None is the GPU that this process sees first."""

    def __init__(self, uuid: str | None = None) -> None:
        self._handle = _handle(uuid or _first_visible())
        #: why there are no readings; None where there are
        self.absent: str | None = None if self._handle is not None else "NVML is not here or does not answer"

    def read(self) -> tuple[int | None, tuple[str, ...]]:
        """(MHz or None, reasons)."""
        if self._handle is None:
            return None, ()
        import pynvml

        try:
            mhz = int(pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM))
            bits = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle))
        except pynvml.NVMLError as error:
            self.absent = f"NVML does not tell: {error}"
            return None, ()
        return mhz, tuple(name for bit, name in THROTTLE_REASONS.items() if bits & bit)


def max_sm_clock_mhz(uuid: str) -> int | None:
    """The highest SM clock, or None where NVML does not say."""
    handle = _handle(uuid)
    if handle is None:
        return None
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        return int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM))
    return None


def _handle(uuid: str | None) -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByUUID(uuid) if uuid else pynvml.nvmlDeviceGetHandleByIndex(0)
    except pynvml.NVMLError:  # no driver, or no such GPU
        return None


def _first_visible() -> str | None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    return visible if visible.startswith("GPU-") else None
