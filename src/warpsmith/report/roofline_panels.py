"""What a roofline plot has to show: which panels there is data for, and the mark of each case and mode.

Pure, and without matplotlib, as a page asks it whether there is a plot to link; must not know how a mark looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.profile import Headroom, Profile


class Panel(str, Enum):
    """OPERATIONS: arithmetic intensity against operations a second. BANDWIDTH: footprint against bytes a second."""

    OPERATIONS = "operations"
    BANDWIDTH = "bandwidth"


@dataclass(frozen=True)
class Mark:
    """One case in one mode. What needs a time is None where nothing was timed."""

    mode: Mode
    headroom: Headroom

    @property
    def intensity(self) -> float | None:
        """Operations a byte of the least work, None where either is not known or none."""
        flops, least_bytes = self.headroom.flops, self.headroom.least_bytes
        return flops / least_bytes if flops and least_bytes else None

    @property
    def tflops(self) -> float | None:
        flops, time_ms = self.headroom.flops, self.headroom.time_ms
        return flops / (time_ms * 1e9) if flops and time_ms else None

    @property
    def tb_s(self) -> float | None:
        """Least bytes a second, in 10¹²."""
        return self._tb_s(self.headroom.least_bytes)

    @property
    def counted_tb_s(self) -> float | None:
        return self._tb_s(self.headroom.counted_bytes)

    def _tb_s(self, moved_bytes: float | None) -> float | None:
        time_ms = self.headroom.time_ms
        return moved_bytes / (time_ms * 1e9) if moved_bytes and time_ms else None


def marks(profile: Profile) -> tuple[Mark, ...]:
    return tuple(Mark(mode.mode, headroom) for mode in profile.modes for headroom in mode.headrooms)


def roofline_panels(profile: Profile) -> tuple[Panel, ...]:
    """The panels that there is data for in a profile."""
    return panels_of(profile.device, marks(profile))


def panels_of(device: DeviceFacts, found: Sequence[Mark]) -> tuple[Panel, ...]:
    """The panels that these marks have data for; none without a copy ceiling.

    Bandwidth says something only of what was timed and has the copy ceiling as its nearer limit.
    """
    if not device.copy_ceilings:
        return ()
    panels = {
        Panel.OPERATIONS: any(mark.intensity for mark in found),
        Panel.BANDWIDTH: any(mark.tb_s and mark.headroom.bound == "copy" for mark in found),
    }
    return tuple(panel for panel, drawable in panels.items() if drawable)
