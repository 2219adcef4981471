"""Owns the comparison of host time a call with device time: whether a kernel is limited by its launch. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import HostTime, Timing
from warpsmith.contracts.profile import LaunchOverhead
from warpsmith.verdict.statistics import lower_quartile, median_ms


def launch_overheads(host_times: Sequence[HostTime], timings: Sequence[Timing]) -> tuple[LaunchOverhead, ...]:
    """One row a contender of each host time: its lower quartile beside the device time of the same case and mode."""
    device_us: dict[tuple[str, Mode, str], float] = {}
    for timing in timings:
        for contender in dict.fromkeys(block.contender for block in timing.blocks):
            key = (timing.case.name, timing.mode, contender)
            device_us.setdefault(key, 1000 * median_ms(timing, contender).value)
    return tuple(
        LaunchOverhead(
            case=measured.case.name,
            mode=measured.mode,
            provider=provider,
            host_us=lower_quartile(samples),
            device_us=device_us.get((measured.case.name, measured.mode, provider)),
        )
        for measured in host_times
        for provider, samples in measured.samples_us.items()
    )
